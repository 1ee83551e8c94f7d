/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena_config small(void)
{
    return (struct arena_config){.seed = 1,
                                 .nodes = 2,
                                 .samples = 211,
                                 .test_samples = 700,
                                 .batch = 60,
                                 .leaf = 8,
                                 .epochs = 2,
                                 .hidden = 16,
                                 .lr = 0.05};
}

static void expect_same(const struct arena_config *config, const struct arena_result *local)
{
    struct arena_result run;

    arena_run(config, &run);
    ck_assert_msg(run.code == 0, "nodes %u seed %llu: %s", config->nodes,
                  (unsigned long long)config->seed, run.text);
    ck_assert_msg(strcmp(run.hash, local->hash) == 0, "nodes %u seed %llu: %s, in process %s",
                  config->nodes, (unsigned long long)config->seed, run.hash, local->hash);
    ck_assert_str_eq(run.last_hash, local->hash);
    ck_assert_uint_eq(run.steps, local->steps);
    ck_assert_uint_eq(run.records, local->steps);
    ck_assert(run.records_in_order);
    ck_assert(run.last_loss == local->last_loss);
    ck_assert_uint_eq(run.evals, local->evals);
    ck_assert_uint_eq(run.correct, local->correct);
    ck_assert(run.eval_loss == local->eval_loss);
    for (uint32_t i = 0; i < config->nodes; i++)
        ck_assert_int_eq(run.node_codes[i], WORKER_DONE);
}

START_TEST(coord__weights_are_the_same_for_any_number_of_nodes)
{
    struct arena_config config = small();
    struct arena_result local;

    arena_local(&config, 1, &local);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        for (config.nodes = 1; config.nodes <= 7; config.nodes++) {
            config.seed = seed * 1000 + config.nodes;
            expect_same(&config, &local);
        }
    }
}
END_TEST

START_TEST(coord__threads_do_not_change_bits)
{
    struct arena_config config = small();
    struct arena_result one, other;

    arena_local(&config, 1, &one);
    for (uint32_t threads = 2; threads <= 5; threads++) {
        arena_local(&config, threads, &other);
        ck_assert_str_eq(one.hash, other.hash);
        ck_assert(one.last_loss == other.last_loss);
    }
}
END_TEST

START_TEST(coord__large_messages_wait_for_their_landing)
{
    struct arena_config config = small();
    struct arena_result local;

    config.hidden = 1200; /* 86 KB of weights: never pooled */
    config.epochs = 1;
    arena_local(&config, 1, &local);
    for (config.nodes = 1; config.nodes <= 5; config.nodes += 2)
        expect_same(&config, &local);
}
END_TEST

START_TEST(coord__nodes_without_data_get_each_sample_once)
{
    struct arena_config config = small();
    struct arena_result local, run;

    arena_local(&config, 1, &local);
    for (config.nodes = 1; config.nodes <= 4; config.nodes++) {
        config.without_data = config.nodes;
        expect_same(&config, &local);
    }
    config.nodes = 1;
    config.without_data = 1;
    arena_run(&config, &run);
    ck_assert_uint_eq(run.samples_sent, config.samples + config.test_samples);
}
END_TEST

START_TEST(coord__uneven_batches_and_dropped_rest)
{
    struct arena_config config = small();
    struct arena_result local;

    config.samples = 101;
    config.batch = 37;
    config.leaf = 5;
    for (int drop = 0; drop < 2; drop++) {
        config.drop_last = drop;
        arena_local(&config, 1, &local);
        for (config.nodes = 1; config.nodes <= 7; config.nodes += 3)
            expect_same(&config, &local);
    }
}
END_TEST

START_TEST(coord__more_nodes_than_leaves_is_a_warning)
{
    struct arena_config config = small();
    struct arena_result run;

    config.nodes = 5;
    config.leaf = 30;
    arena_run(&config, &run);
    ck_assert_int_eq(run.code, 0);
    ck_assert(arena_said(&run, "warning nodes=5 leaves=2 idle=3 hint=train.leaf=12"));
}
END_TEST

START_TEST(coord__lost_node_ends_the_run_by_name)
{
    struct arena_config config = small();
    struct arena_result run;

    config.kill = true;
    for (config.kill_at_step = 0; config.kill_at_step < 8; config.kill_at_step += 3) {
        for (config.nodes = 1; config.nodes <= 3; config.nodes++) {
            char name[16];

            arena_run(&config, &run);
            ck_assert_int_eq(run.code, EXIT_NODES);
            snprintf(name, sizeof name, "node n%u lost", config.nodes);
            ck_assert_msg(strstr(run.text, name) != NULL, "%s", run.text);
            ck_assert_uint_eq(run.steps, config.kill_at_step);
            ck_assert_uint_eq(run.records, run.steps);
            for (uint32_t i = 0; i + 1 < config.nodes; i++)
                ck_assert_int_eq(run.node_codes[i], WORKER_DONE);
        }
    }
}
END_TEST

START_TEST(coord__stop_keeps_the_weights_of_the_last_step)
{
    struct arena_config config = small();
    struct arena_result run;

    config.stop = true;
    config.nodes = 3;
    for (config.stop_at_step = 0; config.stop_at_step < 7; config.stop_at_step++) {
        arena_run(&config, &run);
        ck_assert_int_eq(run.code, EXIT_STOPPED);
        ck_assert_uint_ge(run.steps, config.stop_at_step + 1);
        ck_assert_uint_le(run.steps, config.stop_at_step + 2);
        ck_assert_uint_eq(run.records, run.steps);
        ck_assert_str_eq(run.hash, run.last_hash);
        for (uint32_t i = 0; i < config.nodes; i++)
            ck_assert_int_eq(run.node_codes[i], WORKER_DONE);
    }
}
END_TEST

START_TEST(coord__numbers_that_are_not_finite_end_the_run)
{
    struct arena_config config = small();
    struct arena_result run;

    config.lr = 1e30;
    arena_run(&config, &run);
    ck_assert_int_eq(run.code, EXIT_NUMERIC);
    ck_assert_msg(strstr(run.text, "step") != NULL && strstr(run.text, "finite") != NULL, "%s",
                  run.text);
    ck_assert_uint_eq(run.records, run.steps);
    if (run.records > 0)
        ck_assert_str_eq(run.hash, run.last_hash);
}
END_TEST

START_TEST(coord__missing_nodes_are_named_after_the_wait)
{
    struct arena_config config = small();
    struct arena_result run;

    config.nodes = 2;
    config.wanted = 3;
    arena_run(&config, &run);
    ck_assert_int_eq(run.code, EXIT_NOT_STARTED);
    ck_assert_msg(strstr(run.text, "2 of 3 nodes joined within 60 s; missing 1") != NULL, "%s",
                  run.text);
    ck_assert(strstr(run.text, "n1") && strstr(run.text, "n2"));
    ck_assert_uint_eq(run.records, 0);
}
END_TEST

START_TEST(coord__other_numerics_are_refused)
{
    struct arena_config config = small();
    struct arena_result run;

    config.nodes = 2;
    config.liar = 2;
    arena_run(&config, &run);
    ck_assert_int_eq(run.code, EXIT_NOT_STARTED);
    ck_assert(arena_said(&run, "refused node=n2 reason=\"its numerics differ"));
    ck_assert_int_eq(run.node_codes[1], WORKER_NOT_STARTED);
}
END_TEST

START_TEST(coord__one_node_too_many_waits_for_another_run)
{
    struct arena_config config = small();
    struct arena_result run;

    config.nodes = 3;
    config.wanted = 2;
    arena_run(&config, &run);
    ck_assert_int_eq(run.code, EXIT_DONE);
    ck_assert(arena_said(&run, "reason=\"the run has its 2 nodes\""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coord");
    TCase *tcase = tcase_create("coord");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, coord__weights_are_the_same_for_any_number_of_nodes);
    tcase_add_test(tcase, coord__threads_do_not_change_bits);
    tcase_add_test(tcase, coord__large_messages_wait_for_their_landing);
    tcase_add_test(tcase, coord__nodes_without_data_get_each_sample_once);
    tcase_add_test(tcase, coord__uneven_batches_and_dropped_rest);
    tcase_add_test(tcase, coord__more_nodes_than_leaves_is_a_warning);
    tcase_add_test(tcase, coord__lost_node_ends_the_run_by_name);
    tcase_add_test(tcase, coord__stop_keeps_the_weights_of_the_last_step);
    tcase_add_test(tcase, coord__numbers_that_are_not_finite_end_the_run);
    tcase_add_test(tcase, coord__missing_nodes_are_named_after_the_wait);
    tcase_add_test(tcase, coord__other_numerics_are_refused);
    tcase_add_test(tcase, coord__one_node_too_many_waits_for_another_run);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
