/* SPDX-License-Identifier: MIT */
#include <cluster/impair.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENT = 100, COUNT = 1000 };

static struct impair *open_impaired(const char *text)
{
    struct rdt_link_config config;
    struct impair *impair;
    char why[128];

    ck_assert_msg(rdt_link_parse(&config, text, why, sizeof why) == 0, "%s", why);
    ck_assert_int_eq(impair_open(&impair, &config), 0);
    return impair;
}

/* Which of `COUNT` numbered datagrams to `to` come out, as trains; returns how many. */
static unsigned pass_out(struct impair *impair, struct rdt_addr to, bool *came)
{
    uint8_t bytes[SEGMENT];
    uint8_t buf[10 * SEGMENT + 7];
    struct rdt_train train;
    unsigned count = 0;

    memset(came, 0, COUNT * sizeof *came);
    for (uint32_t i = 0; i < COUNT; i++) {
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, &i, sizeof i);
        train = (struct rdt_train){.to = to, .len = sizeof bytes, .segment_len = sizeof bytes};
        impair_out(impair, &train, bytes, 1);
    }
    while (impair_next_train(impair, 1, buf, sizeof buf, &train)) {
        ck_assert(rdt_addr_equal(&train.to, &to));
        ck_assert_uint_eq(train.segment_len, SEGMENT);
        ck_assert_uint_eq(train.len % SEGMENT, 0);
        ck_assert_uint_le(train.len, sizeof buf);
        for (size_t at = 0; at < train.len; at += SEGMENT, count++) {
            uint32_t i;

            memcpy(&i, buf + at, sizeof i);
            ck_assert_uint_lt(i, COUNT);
            came[i] = true;
        }
    }
    return count;
}

START_TEST(impair__a_perfect_link_changes_nothing)
{
    struct impair *impair = open_impaired("");
    bool came[COUNT];

    ck_assert_uint_eq(impair_deadline(impair), UINT64_MAX);
    ck_assert_uint_eq(pass_out(impair, rdt_addr_v4(10, 0, 0, 1, 9), came), COUNT);
    ck_assert_uint_eq(impair_deadline(impair), UINT64_MAX);
    impair_free(impair);
}
END_TEST

START_TEST(impair__loss_repeats_with_its_seed_and_differs_by_peer)
{
    struct impair *first = open_impaired("loss=20%,seed=5");
    struct impair *second = open_impaired("loss=20%,seed=5");
    bool a[COUNT], b[COUNT], c[COUNT];
    unsigned count = pass_out(first, rdt_addr_v4(10, 0, 0, 1, 9), a);

    ck_assert_uint_ge(count, 740);
    ck_assert_uint_le(count, 860);
    pass_out(second, rdt_addr_v4(10, 0, 0, 2, 77), b); /* its first peer, too */
    ck_assert_mem_eq(a, b, sizeof a);
    pass_out(second, rdt_addr_v4(10, 0, 0, 3, 9), c);
    ck_assert_mem_ne(a, c, sizeof a);
    impair_free(first);
    impair_free(second);
}
END_TEST

START_TEST(impair__both_ways_of_a_peer_are_links_of_their_own)
{
    struct impair *impair = open_impaired("loss=50%,seed=1");
    uint8_t byte[1];
    bool out[COUNT];
    unsigned differ = 0;

    pass_out(impair, rdt_addr_v4(10, 0, 0, 1, 9), out);
    for (size_t i = 0; i < COUNT; i++) {
        struct rdt_arrival arrival = {
            .from = rdt_addr_v4(10, 0, 0, 1, 9), .bytes = byte, .len = sizeof byte, .ecn = 1};
        struct rdt_arrival got;
        bool in;

        impair_in(impair, &arrival, 1);
        in = impair_next_in(impair, 1, &got);
        if (in) {
            ck_assert(rdt_addr_equal(&got.from, &arrival.from));
            ck_assert_uint_eq(got.len, 1);
            ck_assert_uint_eq(got.ecn, 1);
        }
        differ += in != out[i];
    }
    ck_assert_uint_gt(differ, COUNT / 4);
    impair_free(impair);
}
END_TEST

START_TEST(impair__delay_sets_the_deadline)
{
    struct impair *impair = open_impaired("delay=2ms");
    struct rdt_train train = {.to = rdt_addr_v4(10, 0, 0, 1, 9), .len = 5, .segment_len = 5};
    uint8_t hello[] = "hello";
    uint8_t buf[64];

    impair_out(impair, &train, hello, 1000);
    ck_assert_uint_eq(impair_deadline(impair), 2001000);
    ck_assert(!impair_next_train(impair, 2000999, buf, sizeof buf, &train));
    ck_assert(impair_next_train(impair, 2001000, buf, sizeof buf, &train));
    ck_assert_uint_eq(train.len, 5);
    ck_assert_mem_eq(buf, "hello", 5);
    impair_free(impair);
}
END_TEST

START_TEST(impair__trains_come_apart_and_together_as_trains_may)
{
    struct impair *impair = open_impaired("");
    struct rdt_train train = {.to = rdt_addr_v4(10, 0, 0, 1, 9), .len = 8, .segment_len = 3};
    struct rdt_train out;
    uint8_t first[] = "abcdefgh";
    uint8_t second[] = "wxyz";
    uint8_t buf[64];

    impair_out(impair, &train, first, 1); /* abc def gh */
    train.len = train.segment_len = 4;
    impair_out(impair, &train, second, 1);
    ck_assert(impair_next_train(impair, 1, buf, sizeof buf, &out));
    ck_assert_uint_eq(out.len, 8);
    ck_assert_uint_eq(out.segment_len, 3);
    ck_assert_mem_eq(buf, "abcdefgh", 8);
    ck_assert_uint_eq(impair_deadline(impair), 0); /* one is held back */
    ck_assert(impair_next_train(impair, 1, buf, sizeof buf, &out));
    ck_assert_uint_eq(out.len, 4);
    ck_assert_mem_eq(buf, "wxyz", 4);
    ck_assert(!impair_next_train(impair, 1, buf, sizeof buf, &out));
    impair_free(impair);
}
END_TEST

START_TEST(impair__peers_without_end_take_bounded_memory)
{
    struct impair *impair = open_impaired("delay=1s");
    struct rdt_arrival got;
    uint8_t byte[1] = {0};
    unsigned count = 0;

    for (unsigned i = 0; i < 5 * IMPAIR_PEERS_MAX; i++) {
        struct rdt_arrival arrival = {
            .from = rdt_addr_v4(10, 0, (uint8_t)(i >> 8), (uint8_t)i, 9), .bytes = byte, .len = 1};

        impair_in(impair, &arrival, i);
    }
    while (impair_next_in(impair, UINT64_C(2000000000), &got))
        count++;
    ck_assert_uint_eq(count, IMPAIR_PEERS_MAX);
    impair_free(impair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("impair");
    TCase *tcase = tcase_create("impair");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, impair__a_perfect_link_changes_nothing);
    tcase_add_test(tcase, impair__loss_repeats_with_its_seed_and_differs_by_peer);
    tcase_add_test(tcase, impair__both_ways_of_a_peer_are_links_of_their_own);
    tcase_add_test(tcase, impair__delay_sets_the_deadline);
    tcase_add_test(tcase, impair__trains_come_apart_and_together_as_trains_may);
    tcase_add_test(tcase, impair__peers_without_end_take_bounded_memory);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
