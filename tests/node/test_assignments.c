/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The run may have gone on since WELCOME. */
START_TEST(assignments__posts_weights_from_the_step_it_begins_with)
{
    open_bench();
    prepare();
    hear((struct message){.kind = MSG_STEP, .step = 3}, NULL, 0, NULL);
    ck_assert_uint_eq(bench.actions.count, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(bench.actions.items[i].head.step, 3 + i);
    close_bench();
}
END_TEST

static void hear_small_weights(uint64_t step)
{
    static uint8_t body[BODY_MAX];

    hear((struct message){.kind = MSG_WEIGHTS, .step = step}, body,
         nn_model_parameters(bench.problem->model) * sizeof(float), NULL);
}

/* Bulk messages may overtake control. */
START_TEST(assignments__small_weights_may_come_before_the_news)
{
    open_bench();
    prepare();
    hear_small_weights(3);
    hear((struct message){.kind = MSG_STEP, .step = 3}, NULL, 0, NULL);
    ck_assert_uint_eq(bench.actions.count, 1);
    ck_assert_uint_eq(must(did(ACT_POST))->head.step, 4);
    hear((struct message){.kind = MSG_STEP, .step = 3, .count = 1}, NULL, 0, NULL);
    ck_assert_ptr_nonnull(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

/* What began to come before its landing was posted is pooled. */
START_TEST(assignments__small_weights_may_come_beside_their_landing)
{
    open_bench();
    get_ready();
    hear_small_weights(0);
    ck_assert_uint_eq(must(did(ACT_UNPOST))->head.step, 0);
    hear((struct message){.kind = MSG_STEP, .step = 0, .count = 1}, NULL, 0, NULL);
    ck_assert_ptr_nonnull(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

/* Another node is lost in mid-step: its leaves come on top. */
START_TEST(assignments__takes_more_leaves_of_the_same_step)
{
    struct action post;
    void *job;

    open_bench();
    get_ready();
    post = *must(did(ACT_POST));
    give_weights(&post);
    hear((struct message){.kind = MSG_STEP, .first = 0, .count = 2}, NULL, 0, NULL);
    job = must(did(ACT_COMPUTE))->job;
    hear((struct message){.kind = MSG_STEP, .first = 4, .count = 1}, NULL, 0, NULL);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    worker_run(bench.worker, job);
    feed((struct input){.kind = IN_COMPUTED, .job = job});
    ck_assert_uint_eq(must(sent(MSG_PARTIAL))->head.first, 0);
    compute();
    ck_assert_uint_eq(must(sent(MSG_PARTIAL))->head.first, 4);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assignments");
    TCase *tcase = tcase_create("assignments");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, assignments__posts_weights_from_the_step_it_begins_with);
    tcase_add_test(tcase, assignments__small_weights_may_come_before_the_news);
    tcase_add_test(tcase, assignments__small_weights_may_come_beside_their_landing);
    tcase_add_test(tcase, assignments__takes_more_leaves_of_the_same_step);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
