/* SPDX-License-Identifier: MIT */
/* Opening a driver: what is refused, who may, and what the system says about routes. */
#include <check.h>
#include <errno.h>
#include <rdt/uring.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rdt_uring *open_default(void)
{
    struct rdt_uring_config config = {.size = sizeof config, .bind = rdt_addr_v4(127, 0, 0, 1, 0)};
    struct rdt_uring *u = NULL;

    ck_assert_int_eq(rdt_uring_open(&u, &config), 0);
    return u;
}

START_TEST(open__bad_configurations_are_refused)
{
    struct rdt_uring *u = NULL;
    struct rdt_uring_config config = {.size = sizeof config, .receive_buffers = 3};
    struct rdt_uring *taken = open_default();

    ck_assert_int_eq(rdt_uring_open(&u, &config), RDT_EINVAL);
    config.receive_buffers = 0;
    config.size = 0;
    ck_assert_int_eq(rdt_uring_open(&u, &config), RDT_EINVAL);
    config.size = sizeof config;
    config.bind = rdt_uring_local(taken);
    ck_assert_int_eq(rdt_uring_open(&u, &config), RDT_ESYS);
    ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert_ptr_null(u);
    rdt_uring_free(taken);
    rdt_uring_free(NULL);
}
END_TEST

/* As an ordinary user with little lockable memory: exit status of a child process. */
START_TEST(open__opens_as_an_ordinary_user)
{
    pid_t pid = fork();
    int status;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
        struct rdt_uring_config config = {.size = sizeof config};
        struct rdt_uring_stats stats = {.size = sizeof stats};
        struct rdt_uring *u;

        if (setrlimit(RLIMIT_MEMLOCK, &limit) ||
            (getuid() == 0 && (setgid(65534) || setuid(65534))))
            _exit(1);
        if (rdt_uring_open(&u, &config) || rdt_uring_wait(u, 0))
            _exit(2);
        rdt_uring_stats(u, &stats);
        if (stats.receive_buffer_granted == 0)
            _exit(3);
        rdt_uring_free(u);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(open__route_of_loopback_takes_the_largest_datagram)
{
    struct rdt_addr v4 = rdt_addr_v4(127, 0, 0, 1, 9);
    struct rdt_addr v6 = {.ip = {[15] = 1}, .port = 9};
    struct rdt_addr nowhere = {.ip = {0x20, 0x01, 0x0d, 0xb8}};

    ck_assert_uint_eq(rdt_uring_route_datagram(&v4), 65507);
    ck_assert_uint_eq(rdt_uring_route_datagram(&v6), 65488);
    ck_assert_uint_ge(rdt_uring_route_datagram(&nowhere), 1232);
}
END_TEST

START_TEST(open__entropy_differs)
{
    uint8_t a[32] = {0};
    uint8_t b[32] = {0};

    ck_assert_int_eq(rdt_uring_entropy(a), 0);
    ck_assert_int_eq(rdt_uring_entropy(b), 0);
    ck_assert_mem_ne(a, b, sizeof a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("open");
    TCase *tc = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, open__bad_configurations_are_refused);
    tcase_add_test(tc, open__opens_as_an_ordinary_user);
    tcase_add_test(tc, open__route_of_loopback_takes_the_largest_datagram);
    tcase_add_test(tc, open__entropy_differs);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
