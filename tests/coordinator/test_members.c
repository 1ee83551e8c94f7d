/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(members__a_node_that_leaves_before_the_start_is_waited_for_again)
{
    open_bench(2);
    join(0, 1);
    ready(0);
    feed((struct input){.kind = IN_CLOSED, .conn = conn_of(0), .reason = RDT_CLOSED_DEAD});
    ck_assert_ptr_null(did(ACT_EXIT));
    join(1, 2);
    ready(1);
    ck_assert(!sent(MSG_STEP));
    join(2, 3);
    ready(2);
    ck_assert(sent(MSG_STEP));
    close_bench();
}
END_TEST

START_TEST(members__the_same_instance_is_one_node)
{
    open_bench(2);
    join(0, 1);
    join(1, 1);
    ck_assert(sent(MSG_REFUSE));
    ck_assert(!sent(MSG_WELCOME));
    close_bench();
}
END_TEST

/* Its socket is the same: it has given up the connection that we still take for alive. */
START_TEST(members__who_joins_again_replaces_itself)
{
    open_bench(1);
    join_from(0, 1, 5);
    ready(0);
    join_from(1, 1, 5);
    ck_assert_uint_eq(must(did(ACT_ABORT))->conn.slot, 0);
    ck_assert(sent(MSG_WELCOME));
    ck_assert(!sent(MSG_REFUSE));
    feed((struct input){.kind = IN_CLOSED, .conn = conn_of(0)});
    ck_assert_ptr_null(did(ACT_EXIT));
    ready(1);
    ck_assert(sent(MSG_WEIGHTS));
    landing_of((struct span){0, 5});
    ck_assert_uint_eq(coord_nodes(bench.coord), 1);
    close_bench();
}
END_TEST

START_TEST(members__steps_and_landings_before_weights_of_nobody_else)
{
    size_t posts = 0, weights = 0;

    open_bench(1);
    join(0, 1);
    ck_assert(sent(MSG_WELCOME));
    ready(0);
    for (size_t i = 0; i < bench.actions.count; i++) {
        posts += bench.actions.items[i].kind == ACT_POST;
        weights += bench.actions.items[i].kind == ACT_SEND &&
                   bench.actions.items[i].head.kind == MSG_WEIGHTS;
    }
    ck_assert_uint_eq(posts, 1); /* five leaves, one tree */
    ck_assert_uint_eq(weights, 1);
    close_bench();
}
END_TEST

START_TEST(members__covered_partials_are_dropped_and_must_agree)
{
    static uint8_t body[BODY_MAX];
    struct message head = {.kind = MSG_PARTIAL, .first = 0, .count = 2};
    struct landing_of left, middle, right;
    size_t len;

    open_bench(3);
    for (uint32_t i = 0; i < 3; i++) {
        join(i, 1 + i);
        ready(i);
    }
    left = landing_of((struct span){0, 2});
    middle = landing_of((struct span){2, 2});
    right = landing_of((struct span){4, 1});
    land(0, left, (struct span){0, 2}, 0);
    /* The same again, from the other node: no harm.  A part of it: no harm. */
    len = partial_body(body, (struct span){0, 2}, 0, &head.hash);
    hear(1, head, body, len);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    ck_assert(!sent(MSG_BYE));
    head.count = 1;
    len = partial_body(body, (struct span){0, 1}, 0, &head.hash);
    hear(1, head, body, len);
    ck_assert(!sent(MSG_BYE));
    land(1, middle, (struct span){2, 2}, 0);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    land(2, right, (struct span){4, 1}, 0);
    ck_assert_ptr_nonnull(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

START_TEST(members__who_computes_another_sum_is_named)
{
    static uint8_t body[BODY_MAX];
    struct message head = {.kind = MSG_PARTIAL, .first = 0, .count = 2};
    struct landing_of left;
    const struct action *event;
    size_t len;

    open_bench(3);
    for (uint32_t i = 0; i < 3; i++) {
        join(i, 1 + i);
        ready(i);
    }
    left = landing_of((struct span){0, 2});
    land(0, left, (struct span){0, 2}, 0);
    len = partial_body(body, (struct span){0, 2}, 1, &head.hash);
    hear(1, head, body, len);
    ck_assert(sent(MSG_BYE));
    event = did(ACT_EVENT);
    ck_assert_ptr_nonnull(event);
    ck_assert_ptr_nonnull(strstr(event->text, "different sums of leaves 0 to 1"));
    close_bench();
}
END_TEST

START_TEST(members__a_partial_of_another_length_costs_the_connection)
{
    struct landing_of left;

    open_bench(1);
    join(0, 1);
    ready(0);
    left = landing_of((struct span){0, 5});
    feed((struct input){.kind = IN_MESSAGE,
                        .conn = conn_of(0),
                        .head = {.kind = MSG_PARTIAL, .run_id = 99, .first = 0, .count = 5},
                        .body = left.buf,
                        .body_len = 12,
                        .user = left.user});
    ck_assert_ptr_nonnull(did(ACT_ABORT));
    feed((struct input){.kind = IN_CLOSED, .conn = conn_of(0)});
    ck_assert_ptr_nonnull(strstr(must(did(ACT_EVENT))->text, "protocol-error"));
    join(1, 1); /* again: not with us */
    ck_assert(sent(MSG_REFUSE));
    join(2, 2);
    ready(2);
    landing_of((struct span){0, 5});
    ck_assert(sent(MSG_STEP));
    close_bench();
}
END_TEST

/* Commits what it has just given out. */
static void compute(void)
{
    const struct action *action = did(ACT_COMPUTE);
    void *job = action ? action->job : NULL;

    ck_assert_ptr_nonnull(job);
    coord_run(bench.coord, job);
    feed((struct input){.kind = IN_COMPUTED, .job = job});
}

START_TEST(members__more_correct_samples_than_there_are_cost_the_connection)
{
    const struct arena_config one_step = {.samples = 8,
                                          .test_samples = 10,
                                          .batch = 8,
                                          .leaf = 8,
                                          .epochs = 1,
                                          .hidden = 16,
                                          .lr = 0.1};
    const struct body_result result = {.loss = 1, .correct = 11};
    static uint8_t body[BODY_MAX];

    open_bench_for(&one_step, 1);
    join(0, 1);
    ready(0);
    land(0, landing_of((struct span){0, 1}), (struct span){0, 1}, 0);
    compute();
    ck_assert(sent(MSG_EVAL));
    body_evaluated_put(body, 0, &result);
    hear(0, (struct message){.kind = MSG_EVALUATED, .step = 1, .count = 1}, body,
         body_evaluated_len(1));
    ck_assert_ptr_nonnull(did(ACT_ABORT));
    close_bench();
}
END_TEST

/* Strangers may say anything in any order: the run waits for its nodes as before. */
START_TEST(members__strangers_change_nothing)
{
    static uint8_t body[3000];
    uint64_t random = (uint64_t)_i;
    uint32_t next = 100;

    open_bench(2);
    join(0, 1);
    ready(0);
    for (int i = 0; i < 400; i++) {
        uint32_t who = next - (uint32_t)(problem_draw(&random) % 8);
        size_t len = problem_draw(&random) % sizeof body;
        struct message head = {.kind = (enum message_kind)(1 + problem_draw(&random) % 16),
                               .run_id = problem_draw(&random) % 2 ? 99 : problem_draw(&random),
                               .step = problem_draw(&random) % 3,
                               .first = (uint32_t)(problem_draw(&random) % 8),
                               .count = (uint32_t)(problem_draw(&random) % 8)};

        for (size_t at = 0; at < len; at++)
            body[at] = (uint8_t)problem_draw(&random);
        if (problem_draw(&random) % 8 == 0)
            feed((struct input){.kind = IN_CONNECTED, .conn = conn_of(++next), .incoming = true});
        else if (problem_draw(&random) % 8 == 0)
            feed((struct input){.kind = IN_CLOSED, .conn = conn_of(who)});
        else
            hear(who, head, body, len);
        ck_assert_ptr_null(did(ACT_EXIT));
        ck_assert(!sent(MSG_STEP));
    }
    join(1, 2);
    ready(1);
    ck_assert(sent(MSG_STEP));
    close_bench();
}
END_TEST

START_TEST(members__a_full_table_turns_strangers_away)
{
    open_bench(1);
    for (uint32_t i = 0; i < 200; i++) {
        feed((struct input){.kind = IN_CONNECTED, .conn = conn_of(1000 + i), .incoming = true});
        if (i >= COORD_NODES_MAX + 16)
            ck_assert_ptr_nonnull(did(ACT_ABORT));
    }
    close_bench();
}
END_TEST

/* The most that one call of the step function has to do. */
START_TEST(members__sixty_four_nodes_share_thousands_of_leaves)
{
    const struct arena_config large = {
        .samples = 3904, .batch = 3904, .leaf = 1, .epochs = 1, .hidden = 4, .lr = 0.1};
    size_t steps = 0, posts = 0;

    open_bench_for(&large, COORD_NODES_MAX);
    for (uint32_t i = 0; i < COORD_NODES_MAX; i++) {
        join(i, 1 + i);
        ready(i);
    }
    for (;;) {
        for (size_t i = 0; i < bench.actions.count; i++) {
            const struct action *action = &bench.actions.items[i];

            posts += action->kind == ACT_POST;
            steps +=
                action->kind == ACT_SEND && action->head.kind == MSG_STEP && action->head.count > 0;
        }
        if (coord_deadline(bench.coord) > bench.now)
            break;
        feed((struct input){.kind = IN_TIME});
    }
    ck_assert_uint_eq(steps, COORD_NODES_MAX);
    ck_assert_uint_ge(posts, COORD_NODES_MAX);
    close_bench();
}
END_TEST

START_TEST(members__failure_from_outside_ends_the_run)
{
    open_bench(1);
    join(0, 1);
    ready(0);
    coord_fail(bench.coord, EXIT_OTHER, "the disk is full");
    ck_assert_uint_eq(coord_deadline(bench.coord), 0);
    feed((struct input){.kind = IN_TIME});
    ck_assert(sent(MSG_BYE));
    feed((struct input){.kind = IN_CLOSED, .conn = conn_of(0)});
    ck_assert_ptr_nonnull(did(ACT_EXIT));
    ck_assert_int_eq(the_exit()->code, EXIT_OTHER);
    ck_assert_str_eq(the_exit()->text, "the disk is full");
    close_bench();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("members");
    TCase *tcase = tcase_create("members");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, members__a_node_that_leaves_before_the_start_is_waited_for_again);
    tcase_add_test(tcase, members__the_same_instance_is_one_node);
    tcase_add_test(tcase, members__who_joins_again_replaces_itself);
    tcase_add_test(tcase, members__steps_and_landings_before_weights_of_nobody_else);
    tcase_add_test(tcase, members__covered_partials_are_dropped_and_must_agree);
    tcase_add_test(tcase, members__who_computes_another_sum_is_named);
    tcase_add_test(tcase, members__a_partial_of_another_length_costs_the_connection);
    tcase_add_loop_test(tcase, members__strangers_change_nothing, 0, 20);
    tcase_add_test(tcase, members__more_correct_samples_than_there_are_cost_the_connection);
    tcase_add_test(tcase, members__a_full_table_turns_strangers_away);
    tcase_add_test(tcase, members__sixty_four_nodes_share_thousands_of_leaves);
    tcase_add_test(tcase, members__failure_from_outside_ends_the_run);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
