/* SPDX-License-Identifier: MIT */
/*
 * Datagrams larger than the route: a network namespace of our own, whose loopback device has the
 * MTU of Ethernet.  Needs root; exit 77 without.
 */
#include <check.h>
#include <net/if.h>
#include <rdt/uring.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool enter_narrow_network(void)
{
    struct ifreq mtu = {.ifr_name = "lo", .ifr_mtu = 1500};
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int control;
    bool ok;

    if (unshare(CLONE_NEWNET) < 0)
        return false;
    control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ok = ioctl(control, SIOCSIFMTU, &mtu) == 0 && ioctl(control, SIOCSIFFLAGS, &up) == 0;
    close(control);
    return ok;
}

static struct rdt_uring *open_driver(void)
{
    struct rdt_uring_config config = {.size = sizeof config, .bind = rdt_addr_v4(127, 0, 0, 1, 0)};
    struct rdt_uring *u = NULL;

    ck_assert_int_eq(rdt_uring_open(&u, &config), 0);
    return u;
}

START_TEST(narrow__segments_larger_than_the_mtu_arrive_in_fragments)
{
    struct rdt_uring *a = open_driver();
    struct rdt_uring *b = open_driver();
    struct rdt_train train = {.to = rdt_uring_local(b), .len = 11000, .segment_len = 4000};
    struct rdt_uring_stats stats = {.size = sizeof stats};
    const uint64_t until = rdt_uring_now(b) + 2000000000;
    struct rdt_arrival got;
    size_t cap;
    size_t bytes = 0;

    memset(rdt_uring_train_buffer(a, &cap), 1, train.len);
    rdt_uring_send_train(a, &train);
    ck_assert_int_eq(rdt_uring_wait(a, 0), 0);
    while (bytes < train.len && rdt_uring_now(b) < until) {
        ck_assert_int_eq(rdt_uring_wait(b, until), 0);
        while (rdt_uring_next_arrival(b, &got)) {
            ck_assert_uint_eq(got.len, bytes < 8000 ? 4000 : 3000);
            bytes += got.len;
        }
    }
    ck_assert_uint_eq(bytes, train.len);
    rdt_uring_stats(a, &stats);
    ck_assert_uint_eq(stats.send_errors, 0);
    ck_assert_uint_eq(stats.datagrams_sent, 3);
    rdt_uring_free(a);
    rdt_uring_free(b);
}
END_TEST

START_TEST(narrow__the_route_says_what_fits)
{
    struct rdt_addr peer = rdt_addr_v4(127, 0, 0, 1, 9);

    ck_assert_uint_eq(rdt_uring_route_datagram(&peer), 1472);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("narrow");
    TCase *tc = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    if (!enter_narrow_network()) {
        puts("skipped: needs the right to make a network namespace");
        return 77;
    }
    tcase_add_test(tc, narrow__segments_larger_than_the_mtu_arrive_in_fragments);
    tcase_add_test(tc, narrow__the_route_says_what_fits);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
