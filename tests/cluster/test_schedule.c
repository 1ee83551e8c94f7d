/* SPDX-License-Identifier: MIT */
#include "random.h"

#include <cluster/schedule.h>

#include <check.h>
#include <stdlib.h>

/* Leaf by leaf: one behind the other, and only the last may be short. */
static bool leaves_make_up(const struct schedule *schedule, uint64_t step)
{
    struct schedule_step now = schedule_step(schedule, step);
    uint64_t at = now.slice.position;
    bool good = now.leaves >= 1 && now.leaves <= schedule_leaves_max(schedule);

    for (uint32_t leaf = 0; leaf < now.leaves; leaf++) {
        struct slice slice = schedule_leaf(schedule, step, leaf);

        good = good && slice.position == at && slice.count >= 1 && slice.count <= schedule->leaf;
        good = good && (slice.count == schedule->leaf || leaf == now.leaves - 1);
        at += slice.count;
    }
    return good && at == now.slice.position + now.slice.count;
}

/* Walks a whole run: positions must come one after another, each exactly once an epoch. */
static bool walks(const struct schedule *schedule)
{
    uint64_t per_epoch = schedule_epoch_steps(schedule);
    uint64_t used = schedule->drop_last ? schedule->samples / schedule->batch * schedule->batch
                                        : schedule->samples;
    uint64_t at = 0;
    bool good = schedule_steps(schedule) == per_epoch * schedule->epochs;

    for (uint64_t step = 0; step < schedule_steps(schedule); step++) {
        struct schedule_step now = schedule_step(schedule, step);

        good = good && now.epoch == step / per_epoch && now.slice.position == at;
        good = good && now.last_of_epoch == ((step + 1) % per_epoch == 0);
        good = good && leaves_make_up(schedule, step);
        at += now.slice.count;
        if (now.last_of_epoch) {
            good = good && at == used;
            at = 0;
        }
    }
    return good;
}

START_TEST(schedule__B07_every_position_once_an_epoch)
{
    static const uint64_t samples[] = {1, 2, 31, 64, 97, 256, 1009};
    static const uint32_t sizes[] = {1, 3, 32, 64, 100};

    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++) {
        for (size_t b = 0; b < 5; b++) {
            for (size_t l = 0; l < 5; l++) {
                struct schedule schedule = {
                    .samples = samples[s], .batch = sizes[b], .leaf = sizes[l], .epochs = 2};

                ck_assert(walks(&schedule));
                schedule.drop_last = true;
                ck_assert(walks(&schedule));
            }
        }
    }
}
END_TEST

START_TEST(schedule__random_runs_cover_their_samples)
{
    uint64_t state = random_seed();

    for (int i = 0; i < 300; i++) {
        struct schedule schedule = {.samples = 1 + random_below(&state, 3000),
                                    .batch = 1 + (uint32_t)random_below(&state, 400),
                                    .leaf = 1 + (uint32_t)random_below(&state, 80),
                                    .epochs = 1 + (uint32_t)random_below(&state, 2),
                                    .drop_last = random_below(&state, 2) != 0};

        ck_assert(walks(&schedule));
    }
}
END_TEST

START_TEST(schedule__drop_last_of_too_few_samples_leaves_no_step)
{
    struct schedule schedule = {
        .samples = 10, .batch = 11, .leaf = 4, .epochs = 3, .drop_last = true};

    ck_assert_uint_eq(schedule_steps(&schedule), 0);
}
END_TEST

START_TEST(schedule__huge_runs_do_not_wrap)
{
    struct schedule schedule = {
        .samples = UINT64_C(1000000000000000), .batch = 1, .leaf = 1, .epochs = 1000};
    struct schedule_step last = schedule_step(&schedule, schedule_steps(&schedule) - 1);

    ck_assert_uint_eq(schedule_steps(&schedule), UINT64_C(1000000000000000000));
    ck_assert_uint_eq(last.epoch, 999);
    ck_assert_uint_eq(last.slice.position, UINT64_C(999999999999999));
}
END_TEST

START_TEST(schedule__B10_test_samples_are_evaluated_once)
{
    static const uint64_t samples[] = {1, 255, 256, 257, 10007};

    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++) {
        uint64_t at = 0;

        for (uint32_t leaf = 0; leaf < schedule_eval_leaves(samples[s]); leaf++) {
            struct slice slice = schedule_eval_leaf(samples[s], leaf);

            ck_assert_uint_eq(slice.position, at);
            ck_assert_uint_le(slice.count, SCHEDULE_EVAL_LEAF);
            at += slice.count;
        }
        ck_assert_uint_eq(at, samples[s]);
    }
    ck_assert_uint_eq(schedule_eval_leaves(0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tcase = tcase_create("schedule");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, schedule__B07_every_position_once_an_epoch);
    tcase_add_test(tcase, schedule__random_runs_cover_their_samples);
    tcase_add_test(tcase, schedule__drop_last_of_too_few_samples_leaves_no_step);
    tcase_add_test(tcase, schedule__huge_runs_do_not_wrap);
    tcase_add_test(tcase, schedule__B10_test_samples_are_evaluated_once);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
