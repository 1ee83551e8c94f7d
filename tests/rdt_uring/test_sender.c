/* SPDX-License-Identifier: MIT */
/*
 * What the sender does when the kernel refuses a train.  The refusal is made up; the socket that
 * the pieces leave through is real.
 */
#include "rdt/uring/sender.h"

#include <check.h>
#include <errno.h>
#include <rdt/uring.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENT = 1000, TRAIN = 10 * SEGMENT };

struct bed {
    struct ring ring;
    struct udp_socket socket;
    struct udp_socket sink;
    struct sender sender;
};

static void open_bed(struct bed *b)
{
    const struct udp_socket_config config = {
        .bind = rdt_addr_v4(127, 0, 0, 1, 0), .socket_bytes = 1 << 20, .gso = true};

    ck_assert_int_eq(udp_open(&b->socket, &config), 0);
    ck_assert_int_eq(udp_open(&b->sink, &config), 0);
    ck_assert_int_eq(ring_open(&b->ring, 8, 16, 1), 0);
    ck_assert_int_eq(sender_open(&b->sender, &b->ring, &b->socket, 2), 0);
    ck_assert(b->socket.gso);
}

static void close_bed(struct bed *b)
{
    sender_close(&b->sender);
    ring_close(&b->ring);
    udp_close(&b->sink);
    udp_close(&b->socket);
}

/* Queues a train and returns the index of its slot, which is on top of the stack. */
static uint32_t queue_train(struct bed *b, size_t len)
{
    const struct rdt_train train = {.to = b->sink.local, .len = len, .segment_len = SEGMENT};
    const uint32_t index = b->sender.free_slots[b->sender.free_count - 1];
    size_t cap;
    void *buffer = sender_buffer(&b->sender, &cap);

    ck_assert_ptr_nonnull(buffer);
    memset(buffer, 1, len);
    sender_send(&b->sender, &train);
    return index;
}

static size_t count_arrivals(const struct bed *b)
{
    uint8_t bytes[2 * SEGMENT];
    size_t count = 0;

    while (recv(b->sink.fd, bytes, sizeof bytes, MSG_DONTWAIT) == SEGMENT)
        count++;
    return count;
}

/* T35, T21: a device that cannot segment. */
static void refused_for_good(int error)
{
    struct bed b;

    open_bed(&b);
    sender_on_sent(&b.sender, queue_train(&b, TRAIN), -error);
    ck_assert_uint_eq(count_arrivals(&b), 10);
    ck_assert(!b.socket.gso);
    ck_assert(sender_is_idle(&b.sender));
    queue_train(&b, TRAIN); /* from now on in pieces at once */
    ck_assert(sender_is_idle(&b.sender));
    ck_assert_uint_eq(count_arrivals(&b), 10);
    ck_assert_uint_eq(b.sender.stats.datagrams, 20);
    ck_assert_uint_eq(b.sender.stats.errors, 0);
    close_bed(&b);
}

START_TEST(sender__T35_EIO_switches_segmentation_off_and_loses_nothing)
{
    refused_for_good(EIO);
}
END_TEST

START_TEST(sender__T35_EINVAL_switches_segmentation_off_and_loses_nothing)
{
    refused_for_good(EINVAL);
}
END_TEST

START_TEST(sender__EMSGSIZE_keeps_segmentation)
{
    struct bed b;

    open_bed(&b);
    sender_on_sent(&b.sender, queue_train(&b, TRAIN), -EMSGSIZE);
    ck_assert_uint_eq(count_arrivals(&b), 10);
    ck_assert(b.socket.gso);
    close_bed(&b);
}
END_TEST

START_TEST(sender__T21_other_errors_are_loss)
{
    static const int errors[] = {ENOBUFS, EPERM, ENETUNREACH, ECONNREFUSED};
    struct bed b;

    open_bed(&b);
    for (size_t i = 0; i < 4; i++) {
        sender_on_sent(&b.sender, queue_train(&b, TRAIN), -errors[i]);
        ck_assert_uint_eq(b.sender.stats.errors, (i + 1) * 10);
        ck_assert(sender_is_idle(&b.sender));
    }
    ck_assert_uint_eq(count_arrivals(&b), 0);
    ck_assert(b.socket.gso);
    close_bed(&b);
}
END_TEST

START_TEST(sender__T21_a_full_socket_holds_the_core_back)
{
    struct bed b;
    uint32_t index;
    size_t cap;

    open_bed(&b);
    index = queue_train(&b, TRAIN);
    sender_on_sent(&b.sender, index, -EAGAIN);
    ck_assert(!sender_is_idle(&b.sender));
    ck_assert_ptr_null(sender_buffer(&b.sender, &cap)); /* although a slot is free */
    sender_on_sent(&b.sender, index, TRAIN);
    ck_assert_ptr_nonnull(sender_buffer(&b.sender, &cap));
    ck_assert(sender_is_idle(&b.sender));
    ck_assert_uint_eq(b.sender.stats.datagrams, 10);
    ck_assert_uint_eq(b.sender.stats.errors, 0);
    close_bed(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sender");
    TCase *tc = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, sender__T35_EIO_switches_segmentation_off_and_loses_nothing);
    tcase_add_test(tc, sender__T35_EINVAL_switches_segmentation_off_and_loses_nothing);
    tcase_add_test(tc, sender__EMSGSIZE_keeps_segmentation);
    tcase_add_test(tc, sender__T21_other_errors_are_loss);
    tcase_add_test(tc, sender__T21_a_full_socket_holds_the_core_back);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
