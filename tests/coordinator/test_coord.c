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

static bool is_spared(const struct arena_config *config, uint32_t node)
{
    for (size_t i = 0; i < ARENA_FAULTS_MAX; i++)
        if (config->faults[i].kind != FAULT_NONE && config->faults[i].node == node)
            return false;
    return true;
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
        if (is_spared(config, i))
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

/* Every node, at every step: the others compute its leaves in the same step. */
START_TEST(coord__a_killed_node_changes_nothing)
{
    struct arena_config config = small();
    struct arena_result local;

    arena_local(&config, 1, &local);
    for (config.nodes = 2; config.nodes <= 5; config.nodes++) {
        for (uint64_t step = 0; step < local.steps; step++) {
            config.seed = config.nodes * 100 + step;
            config.faults[0] = (struct arena_fault){
                .kind = FAULT_KILL, .node = (uint32_t)(step % config.nodes), .step = step};
            expect_same(&config, &local);
        }
    }
}
END_TEST

START_TEST(coord__large_partials_of_a_killed_node_are_asked_of_others)
{
    struct arena_config config = small();
    struct arena_result local;

    config.hidden = 1200;
    config.epochs = 1;
    arena_local(&config, 1, &local);
    for (config.nodes = 2; config.nodes <= 4; config.nodes++) {
        config.seed = config.nodes;
        config.faults[0] = (struct arena_fault){.kind = FAULT_KILL, .node = 1, .step = 1};
        expect_same(&config, &local);
    }
}
END_TEST

START_TEST(coord__two_killed_nodes_change_nothing)
{
    struct arena_config config = small();
    struct arena_result local;

    config.without_data = 2;
    arena_local(&config, 1, &local);
    for (config.nodes = 3; config.nodes <= 7; config.nodes += 2) {
        for (uint64_t step = 0; step < local.steps; step++) {
            config.seed = config.nodes * 100 + step;
            config.faults[0] = (struct arena_fault){.kind = FAULT_KILL, .node = 0, .step = step};
            config.faults[1] = (struct arena_fault){
                .kind = FAULT_KILL, .node = config.nodes - 1, .step = step + step % 2};
            expect_same(&config, &local);
        }
    }
}
END_TEST

START_TEST(coord__a_node_that_leaves_changes_nothing)
{
    struct arena_config config = small();
    struct arena_result local, run;

    arena_local(&config, 1, &local);
    config.nodes = 3;
    for (uint64_t step = 0; step < local.steps; step++) {
        config.seed = step;
        config.faults[0] = (struct arena_fault){.kind = FAULT_LEAVE, .node = 2, .step = step};
        expect_same(&config, &local);
    }
    arena_run(&config, &run);
    ck_assert(arena_said(&run, "left node=n3 reason=left"));
}
END_TEST

START_TEST(coord__evaluation_survives_a_killed_node)
{
    struct arena_config config = small();
    struct arena_result local;

    config.test_samples = 2000;
    arena_local(&config, 1, &local);
    for (config.nodes = 2; config.nodes <= 5; config.nodes++) {
        for (uint32_t node = 0; node < config.nodes; node++) {
            config.seed = config.nodes * 100 + node;
            config.faults[0] =
                (struct arena_fault){.kind = FAULT_KILL, .node = node, .step = 1, .eval = true};
            expect_same(&config, &local);
        }
    }
}
END_TEST

START_TEST(coord__without_any_node_it_waits_then_ends)
{
    struct arena_config config = small();
    struct arena_result run;

    config.nodes = 1;
    for (uint64_t step = 0; step < 8; step += 3) {
        config.faults[0] = (struct arena_fault){.kind = FAULT_KILL, .step = step};
        arena_run(&config, &run);
        ck_assert_int_eq(run.code, EXIT_NODES);
        ck_assert_msg(strstr(run.text, "node n1 lost at step") != NULL, "%s", run.text);
        ck_assert_msg(strstr(run.text, "0 of at least 1 nodes left") != NULL, "%s", run.text);
        ck_assert(arena_said(&run, "waiting nodes=0 min_nodes=1 seconds=60"));
        ck_assert_uint_ge(run.ended_ms, 62500);
        ck_assert_uint_le(run.ended_ms, 70000);
        ck_assert_uint_ge(run.steps, step);
        ck_assert_uint_eq(run.records, run.steps);
        if (run.records > 0)
            ck_assert_str_eq(run.hash, run.last_hash);
    }
}
END_TEST

START_TEST(coord__the_last_node_is_replaced_by_one_that_comes_late)
{
    struct arena_config config = small();
    struct arena_result local;

    config.wanted = 1;
    config.late = 1;
    config.late_ms = 30000;
    config.hidden = 1200;
    config.epochs = 6;
    arena_local(&config, 1, &local);
    for (uint64_t step = 0; step < local.steps / 2; step += 2) {
        config.seed = step;
        config.without_data = step % 2;
        config.faults[0] = (struct arena_fault){.kind = FAULT_KILL, .step = step};
        expect_same(&config, &local);
    }
}
END_TEST

START_TEST(coord__a_node_that_joins_late_is_used)
{
    struct arena_config config = small();
    struct arena_result local, run;

    config.epochs = 10;
    config.nodes = 3;
    config.wanted = 2;
    config.late = 1;
    config.without_data = 1;
    arena_local(&config, 1, &local);
    for (config.late_ms = 5; config.late_ms <= 85; config.late_ms += 20) {
        for (config.seed = 0; config.seed < 3; config.seed++)
            expect_same(&config, &local);
        arena_run(&config, &run);
        ck_assert_uint_gt(run.leaves[2], 0);
    }
}
END_TEST

/* Ten seconds of silence are death; who comes back is a new member with the old identity. */
START_TEST(coord__a_frozen_node_comes_back)
{
    struct arena_config config = small();
    struct arena_result local, run;

    arena_local(&config, 1, &local);
    config.min_nodes = 2;
    for (uint64_t step = 0; step < local.steps; step++) {
        config.seed = step;
        config.faults[0] =
            (struct arena_fault){.kind = FAULT_FREEZE, .node = 1, .step = step, .freeze_ms = 10000};
        expect_same(&config, &local);
    }
    config.faults[0].step = 1;
    arena_run(&config, &run);
    ck_assert(arena_said(&run, "lost node=n2 reason=silent"));
    ck_assert(arena_said(&run, "resumed nodes=2"));
    config.nodes = 1;
    config.min_nodes = 1;
    config.faults[0].node = 0;
    expect_same(&config, &local);
}
END_TEST

START_TEST(coord__short_silence_is_not_death)
{
    struct arena_config config = small();
    struct arena_result local, run;

    arena_local(&config, 1, &local);
    config.faults[0] =
        (struct arena_fault){.kind = FAULT_FREEZE, .node = 1, .step = 2, .freeze_ms = 2000};
    expect_same(&config, &local);
    arena_run(&config, &run);
    ck_assert(!arena_said(&run, "lost node"));
}
END_TEST

START_TEST(coord__with_fewer_than_min_nodes_it_waits)
{
    struct arena_config config = small();
    struct arena_result run;

    config.nodes = 3;
    config.min_nodes = 3;
    config.faults[0] = (struct arena_fault){.kind = FAULT_KILL, .node = 1, .step = 3};
    arena_run(&config, &run);
    ck_assert_int_eq(run.code, EXIT_NODES);
    ck_assert_msg(strstr(run.text, "node n2 lost at step") != NULL, "%s", run.text);
    ck_assert_msg(strstr(run.text, "(silent); 2 of at least 3 nodes left") != NULL, "%s", run.text);
    ck_assert_uint_ge(run.steps, 3);
    ck_assert_str_eq(run.hash, run.last_hash);
    ck_assert_int_eq(run.node_codes[0], WORKER_DONE);
    ck_assert_int_eq(run.node_codes[2], WORKER_DONE);
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

START_TEST(coord__one_node_more_than_wanted_is_used_too)
{
    struct arena_config config = small();
    struct arena_result local;

    config.nodes = 3;
    config.wanted = 2;
    arena_local(&config, 1, &local);
    for (config.seed = 0; config.seed < 5; config.seed++)
        expect_same(&config, &local);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coord");
    TCase *tcase = tcase_create("coord");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, coord__weights_are_the_same_for_any_number_of_nodes);
    tcase_add_test(tcase, coord__threads_do_not_change_bits);
    tcase_add_test(tcase, coord__large_messages_wait_for_their_landing);
    tcase_add_test(tcase, coord__nodes_without_data_get_each_sample_once);
    tcase_add_test(tcase, coord__uneven_batches_and_dropped_rest);
    tcase_add_test(tcase, coord__more_nodes_than_leaves_is_a_warning);
    tcase_add_test(tcase, coord__a_killed_node_changes_nothing);
    tcase_add_test(tcase, coord__large_partials_of_a_killed_node_are_asked_of_others);
    tcase_add_test(tcase, coord__two_killed_nodes_change_nothing);
    tcase_add_test(tcase, coord__a_node_that_leaves_changes_nothing);
    tcase_add_test(tcase, coord__evaluation_survives_a_killed_node);
    tcase_add_test(tcase, coord__without_any_node_it_waits_then_ends);
    tcase_add_test(tcase, coord__the_last_node_is_replaced_by_one_that_comes_late);
    tcase_add_test(tcase, coord__a_node_that_joins_late_is_used);
    tcase_add_test(tcase, coord__a_frozen_node_comes_back);
    tcase_add_test(tcase, coord__short_silence_is_not_death);
    tcase_add_test(tcase, coord__with_fewer_than_min_nodes_it_waits);
    tcase_add_test(tcase, coord__stop_keeps_the_weights_of_the_last_step);
    tcase_add_test(tcase, coord__numbers_that_are_not_finite_end_the_run);
    tcase_add_test(tcase, coord__missing_nodes_are_named_after_the_wait);
    tcase_add_test(tcase, coord__other_numerics_are_refused);
    tcase_add_test(tcase, coord__one_node_more_than_wanted_is_used_too);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
