/* SPDX-License-Identifier: MIT */
#include "tests/coordinator/problem.h"

#include <node/compute.h>
#include <node/leaves.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct arena_config config = {
    .samples = 203, .batch = 100, .leaf = 7, .epochs = 2, .hidden = 24, .lr = 0.1};

static struct leaves *open_leaves(const struct problem *problem, uint32_t threads)
{
    const struct leaves_config leaves_config = {.model = problem->model,
                                                .train = problem->train,
                                                .schedule = problem->schedule,
                                                .normalize = problem->normalize,
                                                .seed = 7,
                                                .threads = threads};
    struct nn_error error;
    struct leaves *leaves;

    ck_assert_int_eq(leaves_open(&leaves, &leaves_config, &error), 0);
    return leaves;
}

/* The sum of a subtree, straight from the definition. */
static void by_definition(const struct problem *problem, const float *weights, uint64_t step,
                          struct span span, float *grad)
{
    size_t parameters = nn_model_parameters(problem->model);
    struct leaves *leaves;
    struct leaves_sum sum;

    if (span.count == 1) {
        leaves = open_leaves(problem, 1);
        leaves_gradient(leaves, weights, step, span, grad, &sum);
        leaves_free(leaves);
        return;
    }
    float *right = nn_floats(parameters);
    uint32_t split = tree_split(span.count);

    by_definition(problem, weights, step, (struct span){span.first, split}, grad);
    by_definition(problem, weights, step, (struct span){span.first + split, span.count - split},
                  right);
    for (size_t i = 0; i < parameters; i++)
        grad[i] = grad[i] + right[i];
    nn_floats_free(right);
}

START_TEST(leaves__subtrees_are_left_plus_right_for_any_threads)
{
    static const struct span spans[] = {{0, 15}, {0, 8}, {8, 7}, {8, 4}, {12, 3}, {14, 1}, {4, 2}};
    struct problem *problem = calloc(1, sizeof *problem);
    float *weights, *expected, *grad;
    size_t parameters;

    problem_open(problem, &config);
    parameters = nn_model_parameters(problem->model);
    weights = nn_floats(parameters);
    expected = nn_floats(parameters);
    grad = nn_floats(parameters);
    nn_model_init(problem->model, 7, weights);
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        by_definition(problem, weights, 3, spans[i], expected);
        for (uint32_t threads = 1; threads <= 4; threads++) {
            struct leaves *leaves = open_leaves(problem, threads);
            struct leaves_sum sum;

            leaves_gradient(leaves, weights, 3, spans[i], grad, &sum);
            ck_assert_mem_eq(grad, expected, parameters * sizeof *grad);
            ck_assert(sum.finite);
            leaves_free(leaves);
        }
    }
    nn_floats_free(weights);
    nn_floats_free(expected);
    nn_floats_free(grad);
    problem_close(problem);
}
END_TEST

START_TEST(leaves__name_the_first_leaf_that_is_not_finite)
{
    struct problem *problem = calloc(1, sizeof *problem);
    struct leaves *leaves;
    struct leaves_sum sum;
    float *weights, *grad;
    size_t parameters;

    problem_open(problem, &config);
    parameters = nn_model_parameters(problem->model);
    weights = nn_floats(parameters);
    grad = nn_floats(parameters);
    for (size_t i = 0; i < parameters; i++)
        weights[i] = 3e38f;
    leaves = open_leaves(problem, 3);
    leaves_gradient(leaves, weights, 0, (struct span){8, 4}, grad, &sum);
    ck_assert(!sum.finite);
    ck_assert_uint_eq(sum.bad_leaf, 8);
    leaves_free(leaves);
    nn_floats_free(weights);
    nn_floats_free(grad);
    problem_close(problem);
}
END_TEST

/* ---------- the schedule ---------- */

/* Counts the samples of one leaf; before it they were seen once in every epoch before. */
static void see(const struct schedule *schedule, uint32_t epoch, struct slice slice, uint8_t *seen)
{
    ck_assert_uint_ge(slice.count, 1);
    ck_assert_uint_le(slice.count, schedule->leaf);
    for (uint32_t i = 0; i < slice.count; i++) {
        uint64_t id = nn_order(9, epoch, schedule->samples, slice.position + i);

        ck_assert_uint_eq(seen[id], epoch);
        seen[id]++;
    }
}

START_TEST(schedule__every_sample_once_an_epoch)
{
    for (uint32_t samples = 1; samples < 120; samples += 7) {
        struct schedule schedule = {
            .samples = samples, .batch = 1 + samples % 50, .leaf = 1 + samples % 9, .epochs = 2};
        uint8_t *seen = calloc(samples, 1);

        for (uint64_t step = 0; step < schedule_steps(&schedule); step++) {
            struct schedule_step at = schedule_step(&schedule, step);

            ck_assert_uint_le(at.leaves, schedule_leaves_max(&schedule));
            for (uint32_t leaf = 0; leaf < at.leaves; leaf++)
                see(&schedule, at.epoch, schedule_leaf(&schedule, step, leaf), seen);
        }
        for (uint64_t id = 0; id < samples; id++)
            ck_assert_uint_eq(seen[id], 2);
        free(seen);
    }
}
END_TEST

START_TEST(schedule__dropped_rest_leaves_whole_batches)
{
    struct schedule schedule = {
        .samples = 103, .batch = 25, .leaf = 10, .epochs = 3, .drop_last = true};

    ck_assert_uint_eq(schedule_epoch_steps(&schedule), 4);
    ck_assert_uint_eq(schedule_steps(&schedule), 12);
    for (uint64_t step = 0; step < 12; step++)
        ck_assert_uint_eq(schedule_step(&schedule, step).slice.count, 25);
    ck_assert(schedule_step(&schedule, 3).last_of_epoch);
    ck_assert(!schedule_step(&schedule, 4).last_of_epoch);
    schedule.batch = 104;
    ck_assert_uint_eq(schedule_steps(&schedule), 0);
}
END_TEST

/* ---------- the crew ---------- */

struct tally {
    struct crew *crew;
    uint32_t calls[CREW_MAX];
    uint32_t total;
};

static void count(void *arg, uint32_t hand)
{
    struct tally *tally = arg;

    tally->calls[hand]++;
    crew_lock(tally->crew);
    tally->total++;
    crew_unlock(tally->crew);
}

START_TEST(crew__every_hand_works_once_a_round)
{
    for (uint32_t hands = 1; hands <= 6; hands++) {
        struct tally tally = {.total = 0};

        ck_assert_int_eq(crew_open(&tally.crew, hands, NULL), 0);
        ck_assert_uint_eq(crew_hands(tally.crew), hands);
        for (int round = 0; round < 200; round++)
            crew_run(tally.crew, count, &tally);
        for (uint32_t hand = 0; hand < hands; hand++)
            ck_assert_uint_eq(tally.calls[hand], 200);
        ck_assert_uint_eq(tally.total, 200 * hands);
        crew_free(tally.crew);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("leaves");
    TCase *tcase = tcase_create("leaves");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, leaves__subtrees_are_left_plus_right_for_any_threads);
    tcase_add_test(tcase, leaves__name_the_first_leaf_that_is_not_finite);
    tcase_add_test(tcase, schedule__every_sample_once_an_epoch);
    tcase_add_test(tcase, schedule__dropped_rest_leaves_whole_batches);
    tcase_add_test(tcase, crew__every_hand_works_once_a_round);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
