/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static size_t steps_sent(void)
{
    size_t count = 0;

    for (size_t i = 0; i < bench.actions.count; i++)
        count +=
            bench.actions.items[i].kind == ACT_SEND && bench.actions.items[i].head.kind == MSG_STEP;
    return count;
}

/* What a lost node has sent is kept; the rest goes to the others in the same step. */
START_TEST(failure__only_what_is_missing_is_asked_again)
{
    struct landing_of pieces[3];

    open_three(&bench_config);
    pieces[0] = landing_of((struct span){0, 2});
    pieces[1] = landing_of((struct span){2, 2});
    pieces[2] = landing_of((struct span){4, 1});
    land(0, pieces[0], (struct span){0, 2}, 0);
    lose(0);
    ck_assert(!sent(MSG_STEP));
    lose(1);
    ck_assert_uint_eq(steps_sent(), 1);
    ck_assert_uint_eq(must(did(ACT_POST))->head.first, 2);
    ck_assert_uint_eq(must(did(ACT_POST))->head.count, 2);
    ck_assert_uint_eq(must(did(ACT_POST))->conn.slot, 2);
    ck_assert(!sent(MSG_WEIGHTS));
    pieces[1] = landing_of((struct span){2, 2});
    land(2, pieces[2], (struct span){4, 1}, 0);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    land(2, pieces[1], (struct span){2, 2}, 0);
    ck_assert_ptr_nonnull(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

/* The leaves of one node are shared by all others. */
START_TEST(failure__leaves_of_a_lost_node_are_shared)
{
    open_three(&bench_config);
    lose(1);
    ck_assert_uint_eq(steps_sent(), 2);
    landing_of((struct span){2, 1});
    landing_of((struct span){3, 1});
    close_bench();
}
END_TEST

START_TEST(failure__who_joins_in_mid_step_is_used_in_the_next_one)
{
    open_bench(1);
    join(0, 1);
    ready(0);
    join(1, 2);
    ready(1);
    ck_assert(!sent(MSG_STEP));
    ck_assert(!sent(MSG_WEIGHTS));
    lose(0); /* unless nobody else is left */
    ck_assert(sent(MSG_WEIGHTS));
    ck_assert_uint_eq(steps_sent(), 2); /* from here on; these leaves */
    landing_of((struct span){0, 5});
    close_bench();
}
END_TEST

START_TEST(failure__a_covering_partial_takes_the_place_of_lost_ones)
{
    static uint8_t body[BODY_MAX];
    struct message head = {.kind = MSG_PARTIAL, .first = 0, .count = 4};
    struct arena_config strict = bench_config;
    struct landing_of first, last;
    size_t len;

    strict.min_nodes = 3;
    open_three(&strict);
    first = landing_of((struct span){0, 2});
    last = landing_of((struct span){4, 1});
    land(0, first, (struct span){0, 2}, 0);
    len = partial_body(body, (struct span){0, 4}, 0, &head.hash);
    hear(2, head, body, len); /* its right half is about to land elsewhere */
    land(2, last, (struct span){4, 1}, 0);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    lose(1);
    ck_assert(!sent(MSG_STEP)); /* too few to go on, but not too few to take what comes */
    hear(2, head, body, len);
    ck_assert_ptr_nonnull(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

START_TEST(failure__too_few_nodes_end_the_run_after_a_wait)
{
    open_bench(1);
    join(0, 1);
    ready(0);
    bench.now += 1000;
    lose(0);
    ck_assert_ptr_null(did(ACT_EXIT));
    ck_assert_uint_eq(coord_deadline(bench.coord), bench.now + 60000000000);
    bench.now += 60000000000;
    feed((struct input){.kind = IN_TIME});
    ck_assert_int_eq(the_exit()->code, EXIT_NODES);
    ck_assert_ptr_nonnull(strstr(the_exit()->text, "node someone lost at step 0 (silent)"));
    close_bench();
}
END_TEST

START_TEST(failure__a_stop_does_not_wait_for_nodes)
{
    open_bench(1);
    join(0, 1);
    ready(0);
    feed((struct input){.kind = IN_STOP});
    ck_assert_ptr_null(did(ACT_EXIT));
    lose(0);
    ck_assert_int_eq(the_exit()->code, EXIT_STOPPED);
    close_bench();
}
END_TEST

START_TEST(failure__all_processes_that_ended_are_dropped_at_once)
{
    size_t aborts = 0;

    open_three(&bench_config); /* all of one name */
    coord_drop(bench.coord, "nobody");
    coord_drop(bench.coord, "someone");
    ck_assert_uint_eq(coord_deadline(bench.coord), 0);
    feed((struct input){.kind = IN_TIME});
    for (size_t i = 0; i < bench.actions.count; i++)
        aborts += bench.actions.items[i].kind == ACT_ABORT;
    ck_assert_uint_eq(aborts, 3);
    close_bench();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("failure");
    TCase *tcase = tcase_create("failure");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, failure__only_what_is_missing_is_asked_again);
    tcase_add_test(tcase, failure__leaves_of_a_lost_node_are_shared);
    tcase_add_test(tcase, failure__who_joins_in_mid_step_is_used_in_the_next_one);
    tcase_add_test(tcase, failure__a_covering_partial_takes_the_place_of_lost_ones);
    tcase_add_test(tcase, failure__too_few_nodes_end_the_run_after_a_wait);
    tcase_add_test(tcase, failure__a_stop_does_not_wait_for_nodes);
    tcase_add_test(tcase, failure__all_processes_that_ended_are_dropped_at_once);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
