/* SPDX-License-Identifier: MIT */
/* The driver alone, over real loopback sockets: datagrams in, trains out, and every way to wake. */
#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <rdt/uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t second = 1000000000;

/* ---------- helpers ---------- */

static struct rdt_addr loopback(bool v4)
{
    struct rdt_addr addr = {.port = 0};

    if (v4)
        return rdt_addr_v4(127, 0, 0, 1, 0);
    addr.ip[15] = 1;
    return addr;
}

static struct rdt_uring *open_with(struct rdt_uring_config config)
{
    struct rdt_uring *u = NULL;

    config.size = sizeof config;
    ck_assert_int_eq(rdt_uring_open(&u, &config), 0);
    return u;
}

static struct rdt_uring *open_at(bool v4)
{
    return open_with((struct rdt_uring_config){.bind = loopback(v4)});
}

static struct rdt_uring_stats stats_of(const struct rdt_uring *u)
{
    struct rdt_uring_stats stats = {.size = sizeof stats};

    rdt_uring_stats(u, &stats);
    return stats;
}

static void send_bytes(struct rdt_uring *u, struct rdt_addr to, size_t len, size_t segment_len)
{
    struct rdt_train train = {.to = to, .len = len, .segment_len = segment_len};
    size_t cap = 0;
    uint8_t *buffer = rdt_uring_train_buffer(u, &cap);

    ck_assert_ptr_nonnull(buffer);
    ck_assert_uint_le(len, cap);
    for (size_t i = 0; i < len; i++)
        buffer[i] = (uint8_t)(i * 7 + i / 256);
    rdt_uring_send_train(u, &train);
    ck_assert_int_eq(rdt_uring_wait(u, 0), 0);
}

static void expect_bytes(const struct rdt_arrival *a, size_t offset)
{
    const uint8_t *bytes = a->bytes;

    for (size_t i = 0; i < a->len; i++) {
        const size_t at = offset + i;

        if (bytes[i] != (uint8_t)(at * 7 + at / 256))
            ck_abort_msg("byte %zu is wrong", at);
    }
}

/* Waits up to two seconds for the next datagram. */
static bool next(struct rdt_uring *u, struct rdt_arrival *out)
{
    const uint64_t until = rdt_uring_now(u) + 2 * second;

    while (!rdt_uring_next_arrival(u, out)) {
        if (rdt_uring_now(u) >= until)
            return false;
        ck_assert_int_eq(rdt_uring_wait(u, until), 0);
    }
    return true;
}

/* A socket that is no driver. */
static int plain_socket(const struct rdt_uring *to)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    name.sin_port = htons(rdt_uring_local(to).port);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

/* ---------- datagrams ---------- */

static void one_datagram(bool v4)
{
    struct rdt_uring *a = open_at(v4);
    struct rdt_uring *b = open_at(v4);
    struct rdt_addr from = rdt_uring_local(a);
    struct rdt_addr to = rdt_uring_local(b);
    struct rdt_arrival got;

    ck_assert_int_eq(rdt_uring_wait(b, 0), 0);
    send_bytes(a, to, 100, 100);
    ck_assert(next(b, &got));
    ck_assert_uint_eq(got.len, 100);
    expect_bytes(&got, 0);
    ck_assert(rdt_addr_equal(&got.from, &from));
    ck_assert(rdt_addr_equal(&got.local, &to));
    ck_assert_int_eq(rdt_addr_is_v4(&got.from), v4);
    rdt_uring_free(a);
    rdt_uring_free(b);
}

START_TEST(driver__a_datagram_carries_both_addresses_ipv4)
{
    one_datagram(true);
}
END_TEST

START_TEST(driver__a_datagram_carries_both_addresses_ipv6)
{
    one_datagram(false);
}
END_TEST

START_TEST(driver__any_address_hears_both_families)
{
    struct rdt_uring *b = open_with((struct rdt_uring_config){.size = 0});

    for (int v4 = 0; v4 < 2; v4++) {
        struct rdt_uring *a = open_at(v4);
        struct rdt_addr to = loopback(v4);
        struct rdt_arrival got;

        to.port = rdt_uring_local(b).port;
        send_bytes(a, to, 33, 33);
        ck_assert(next(b, &got));
        ck_assert_uint_eq(got.len, 33);
        ck_assert(rdt_addr_equal(&got.local, &to));
        rdt_uring_free(a);
    }
    rdt_uring_free(b);
}
END_TEST

START_TEST(driver__the_answer_leaves_from_the_address_asked)
{
    struct rdt_uring *a = open_at(true);
    struct rdt_uring *b = open_with((struct rdt_uring_config){.size = 0});
    struct rdt_addr asked = rdt_addr_v4(127, 0, 0, 9, rdt_uring_local(b).port);
    struct rdt_train train = {.to = rdt_uring_local(a), .local = asked, .len = 5, .segment_len = 5};
    struct rdt_arrival got;
    size_t cap;

    ck_assert_ptr_nonnull(rdt_uring_train_buffer(b, &cap));
    rdt_uring_send_train(b, &train);
    ck_assert_int_eq(rdt_uring_wait(b, 0), 0);
    ck_assert(next(a, &got));
    ck_assert(rdt_addr_equal(&got.from, &asked));
    rdt_uring_free(a);
    rdt_uring_free(b);
}
END_TEST

START_TEST(driver__ecn_bits_travel)
{
    for (int v4 = 0; v4 < 2; v4++) {
        struct rdt_uring *a = open_at(v4);
        struct rdt_uring *b = open_at(v4);
        struct rdt_train train = {.to = rdt_uring_local(b), .len = 5, .segment_len = 5, .ecn = 2};
        struct rdt_arrival got;
        size_t cap;

        ck_assert_ptr_nonnull(rdt_uring_train_buffer(a, &cap));
        rdt_uring_send_train(a, &train);
        ck_assert_int_eq(rdt_uring_wait(a, 0), 0);
        ck_assert(next(b, &got));
        ck_assert_uint_eq(got.ecn, 2);
        rdt_uring_free(a);
        rdt_uring_free(b);
    }
}
END_TEST

/* ---------- trains ---------- */

static void train_arrives(struct rdt_uring_config from, struct rdt_uring_config to, size_t len,
                          size_t segment_len)
{
    struct rdt_uring *a;
    struct rdt_uring *b;
    struct rdt_arrival got;

    from.bind = to.bind = loopback(true);
    a = open_with(from);
    b = open_with(to);
    send_bytes(a, rdt_uring_local(b), len, segment_len);
    for (size_t offset = 0; offset < len; offset += got.len) {
        ck_assert(next(b, &got));
        ck_assert_uint_eq(got.len, len - offset < segment_len ? len - offset : segment_len);
        expect_bytes(&got, offset);
    }
    ck_assert(!rdt_uring_next_arrival(b, &got));
    ck_assert_uint_eq(stats_of(a).datagrams_sent, (len + segment_len - 1) / segment_len);
    ck_assert_uint_eq(stats_of(a).send_errors, 0);
    ck_assert_uint_eq(stats_of(b).truncated, 0);
    rdt_uring_free(a);
    rdt_uring_free(b);
}

START_TEST(driver__a_train_arrives_as_its_datagrams)
{
    struct rdt_uring_config plain = {.size = 0};

    train_arrives(plain, plain, 1, 1452);
    train_arrives(plain, plain, 1452, 1452);
    train_arrives(plain, plain, 1453, 1452);
    train_arrives(plain, plain, 42500, 1000);
    train_arrives(plain, plain, 45 * 1452, 1452);
    train_arrives(plain, plain, 65507, 65507);
}
END_TEST

START_TEST(driver__a_train_arrives_without_offloads)
{
    struct rdt_uring_config plain = {.size = 0};

    train_arrives((struct rdt_uring_config){.no_gso = true}, plain, 45 * 1452, 1452);
    train_arrives(plain, (struct rdt_uring_config){.no_gro = true}, 45 * 1452, 1452);
    train_arrives((struct rdt_uring_config){.no_gso = true},
                  (struct rdt_uring_config){.no_gro = true}, 20001, 1000);
}
END_TEST

START_TEST(driver__a_train_of_too_many_segments_goes_in_pieces)
{
    struct rdt_uring *a = open_at(true);
    struct rdt_uring *b = open_at(true);
    struct rdt_arrival got;

    send_bytes(a, rdt_uring_local(b), 300 * 100, 100);
    for (size_t i = 0; i < 300; i++) {
        ck_assert(next(b, &got));
        ck_assert_uint_eq(got.len, 100);
        expect_bytes(&got, i * 100);
    }
    ck_assert_uint_eq(stats_of(a).send_errors, 0);
    ck_assert(stats_of(a).gso); /* not the device's fault */
    rdt_uring_free(a);
    rdt_uring_free(b);
}
END_TEST

START_TEST(driver__few_buffers_lose_nothing)
{
    struct rdt_uring *b =
        open_with((struct rdt_uring_config){.receive_buffers = 2, .bind = loopback(true)});
    int fd = plain_socket(b);
    struct rdt_arrival got;

    ck_assert_int_eq(rdt_uring_wait(b, 0), 0);
    for (uint8_t i = 0; i < 100; i++)
        ck_assert_int_eq(send(fd, &i, 1, 0), 1);
    for (uint8_t i = 0; i < 100; i++) {
        ck_assert(next(b, &got));
        ck_assert_uint_eq(*(uint8_t *)got.bytes, i);
    }
    ck_assert_uint_gt(stats_of(b).out_of_buffers, 0);
    close(fd);
    rdt_uring_free(b);
}
END_TEST

START_TEST(driver__one_send_buffer_is_enough)
{
    struct rdt_uring *a =
        open_with((struct rdt_uring_config){.send_buffers = 1, .bind = loopback(true)});
    struct rdt_uring *b = open_at(true);
    struct rdt_arrival got;
    size_t cap;

    for (int i = 0; i < 20; i++) {
        struct rdt_train train = {.to = rdt_uring_local(b), .len = 60000, .segment_len = 60000};

        ck_assert_ptr_nonnull(rdt_uring_train_buffer(a, &cap));
        rdt_uring_send_train(a, &train);
        ck_assert_ptr_null(rdt_uring_train_buffer(a, &cap));
        ck_assert_int_eq(rdt_uring_wait(a, 0), 0);
        ck_assert(next(b, &got));
        ck_assert_uint_eq(got.len, 60000);
    }
    ck_assert_uint_eq(stats_of(a).trains_sent, 20);
    rdt_uring_free(a);
    rdt_uring_free(b);
}
END_TEST

START_TEST(driver__what_is_queued_leaves_before_the_socket_closes)
{
    struct rdt_uring *a = open_at(true);
    struct rdt_uring *b = open_at(true);
    struct rdt_train train = {.to = rdt_uring_local(b), .len = 9, .segment_len = 9};
    struct rdt_arrival got;
    size_t cap;

    ck_assert_ptr_nonnull(rdt_uring_train_buffer(a, &cap));
    rdt_uring_send_train(a, &train);
    rdt_uring_free(a);
    ck_assert(next(b, &got));
    ck_assert_uint_eq(got.len, 9);
    rdt_uring_free(b);
}
END_TEST

/* ---------- T56, T50: what a stranger sends, and nobody there ---------- */

START_TEST(driver__T56_datagrams_of_every_length)
{
    struct rdt_uring *b = open_at(true);
    int fd = plain_socket(b);
    uint8_t noise[64] = {1, 2, 3};
    struct rdt_arrival got;

    for (size_t len = 0; len <= sizeof noise; len++)
        ck_assert_int_eq(send(fd, noise, len, 0), (ssize_t)len);
    ck_assert_int_eq(send(fd, noise, 0, 0), 0);
    ck_assert_int_eq(send(fd, "end", 3, 0), 3);
    for (size_t len = 1; len <= sizeof noise; len++) {
        ck_assert(next(b, &got));
        ck_assert_uint_eq(got.len, len);
    }
    ck_assert(next(b, &got));
    ck_assert_mem_eq(got.bytes, "end", 3);
    ck_assert_uint_eq(stats_of(b).datagrams_received, 67); /* the two empty ones are counted */
    ck_assert_uint_ge(stats_of(b).rearmed, 2);
    close(fd);
    rdt_uring_free(b);
}
END_TEST

START_TEST(driver__T50_nobody_there_is_not_an_error)
{
    struct rdt_uring *a = open_at(true);
    struct rdt_uring *b = open_at(true);
    struct rdt_addr closed = rdt_uring_local(b);
    struct rdt_arrival got;
    int fd;

    rdt_uring_free(b);
    for (int i = 0; i < 20; i++)
        send_bytes(a, closed, 100, 100);
    ck_assert_int_eq(rdt_uring_wait(a, rdt_uring_now(a) + second / 100), 0);
    fd = plain_socket(a);
    ck_assert_int_eq(send(fd, "hello", 5, 0), 5);
    ck_assert(next(a, &got));
    ck_assert_uint_eq(got.len, 5);
    close(fd);
    rdt_uring_free(a);
}
END_TEST

START_TEST(driver__an_impossible_destination_counts_as_loss)
{
    struct rdt_uring *a = open_at(true);

    send_bytes(a, rdt_addr_v4(127, 0, 0, 1, 0), 100, 100);
    ck_assert_uint_eq(stats_of(a).send_errors, 1);
    ck_assert_uint_eq(stats_of(a).datagrams_sent, 0);
    rdt_uring_free(a);
}
END_TEST

/* ---------- sleep ---------- */

START_TEST(driver__sleep_lasts_until_its_time)
{
    struct rdt_uring *a = open_at(true);
    const uint64_t until = rdt_uring_now(a) + second / 50;

    while (rdt_uring_now(a) < until)
        ck_assert_int_eq(rdt_uring_wait(a, until), 0);
    ck_assert_uint_lt(rdt_uring_now(a), until + second);
    ck_assert_uint_le(stats_of(a).submits, 3);
    rdt_uring_free(a);
}
END_TEST

static void *wake_it(void *u)
{
    usleep(20000);
    rdt_uring_wake(u);
    return NULL;
}

static void wake_ends_sleep(bool spin)
{
    struct rdt_uring *a =
        open_with((struct rdt_uring_config){.spin = spin, .bind = loopback(true)});
    const uint64_t start = rdt_uring_now(a);
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, wake_it, a), 0);
    ck_assert_int_eq(rdt_uring_wait(a, UINT64_MAX), 0);
    ck_assert_uint_lt(rdt_uring_now(a) - start, 2 * second);
    pthread_join(thread, NULL);
    /* And prevents the next one: more than once, so that it must be armed again. */
    for (int i = 0; i < 5; i++) {
        rdt_uring_wake(a);
        ck_assert_int_eq(rdt_uring_wait(a, UINT64_MAX), 0);
    }
    ck_assert_uint_lt(rdt_uring_now(a) - start, 2 * second);
    rdt_uring_free(a);
}

START_TEST(driver__wake_ends_sleep)
{
    wake_ends_sleep(false);
}
END_TEST

START_TEST(driver__wake_ends_spinning)
{
    wake_ends_sleep(true);
}
END_TEST

START_TEST(driver__a_watched_descriptor_ends_sleep_until_it_is_read)
{
    struct rdt_uring *a = open_at(true);
    const uint64_t start = rdt_uring_now(a);
    int fd = eventfd(0, EFD_CLOEXEC);
    uint64_t value = 1;
    uint64_t until;

    ck_assert_int_eq(rdt_uring_watch(a, fd), 0);
    ck_assert_int_eq(write(fd, &value, sizeof value), sizeof value);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(rdt_uring_wait(a, UINT64_MAX), 0);
    ck_assert_uint_lt(rdt_uring_now(a) - start, 2 * second);
    ck_assert_int_eq(read(fd, &value, sizeof value), sizeof value);
    ck_assert_int_eq(rdt_uring_wait(a, 0), 0);
    until = rdt_uring_now(a) + second / 100;
    while (rdt_uring_now(a) < until)
        ck_assert_int_eq(rdt_uring_wait(a, until), 0);
    for (int i = 1; i < 8; i++)
        ck_assert_int_eq(rdt_uring_watch(a, fd), 0);
    ck_assert_int_eq(rdt_uring_watch(a, fd), RDT_ELIMIT);
    close(fd);
    rdt_uring_free(a);
}
END_TEST

START_TEST(driver__a_datagram_ends_spinning)
{
    struct rdt_uring *a =
        open_with((struct rdt_uring_config){.spin = true, .bind = loopback(true)});
    struct rdt_uring *b = open_at(true);
    struct rdt_arrival got;

    ck_assert_int_eq(rdt_uring_wait(a, 0), 0);
    send_bytes(b, rdt_uring_local(a), 10, 10);
    ck_assert_int_eq(rdt_uring_wait(a, UINT64_MAX), 0);
    ck_assert(rdt_uring_next_arrival(a, &got));
    rdt_uring_free(a);
    rdt_uring_free(b);
}
END_TEST

static void *receive_one(void *u)
{
    struct rdt_arrival got;

    return next(u, &got) ? u : NULL;
}

START_TEST(driver__may_be_opened_by_another_thread)
{
    struct rdt_uring *a = open_at(true);
    int fd = plain_socket(a);
    pthread_t thread;
    void *result;

    ck_assert_int_eq(pthread_create(&thread, NULL, receive_one, a), 0);
    ck_assert_int_eq(send(fd, "x", 1, 0), 1);
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, a);
    close(fd);
    rdt_uring_free(a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver");
    TCase *tc = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, driver__a_datagram_carries_both_addresses_ipv4);
    tcase_add_test(tc, driver__a_datagram_carries_both_addresses_ipv6);
    tcase_add_test(tc, driver__any_address_hears_both_families);
    tcase_add_test(tc, driver__the_answer_leaves_from_the_address_asked);
    tcase_add_test(tc, driver__ecn_bits_travel);
    tcase_add_test(tc, driver__a_train_arrives_as_its_datagrams);
    tcase_add_test(tc, driver__a_train_arrives_without_offloads);
    tcase_add_test(tc, driver__a_train_of_too_many_segments_goes_in_pieces);
    tcase_add_test(tc, driver__few_buffers_lose_nothing);
    tcase_add_test(tc, driver__one_send_buffer_is_enough);
    tcase_add_test(tc, driver__what_is_queued_leaves_before_the_socket_closes);
    tcase_add_test(tc, driver__T56_datagrams_of_every_length);
    tcase_add_test(tc, driver__T50_nobody_there_is_not_an_error);
    tcase_add_test(tc, driver__an_impossible_destination_counts_as_loss);
    tcase_add_test(tc, driver__sleep_lasts_until_its_time);
    tcase_add_test(tc, driver__wake_ends_sleep);
    tcase_add_test(tc, driver__wake_ends_spinning);
    tcase_add_test(tc, driver__a_watched_descriptor_ends_sleep_until_it_is_read);
    tcase_add_test(tc, driver__a_datagram_ends_spinning);
    tcase_add_test(tc, driver__may_be_opened_by_another_thread);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
