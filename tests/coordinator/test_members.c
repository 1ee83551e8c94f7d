/* SPDX-License-Identifier: MIT */
#include "problem.h"

#include <node/leaves.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The coordinator alone: the test is host, compute thread and every node. */
struct bench {
    struct problem *problem;
    struct coord *coord;
    struct actions actions;
    uint64_t now;
};

static struct bench bench;

static const struct arena_config config = {
    .samples = 90, .batch = 40, .leaf = 8, .epochs = 2, .hidden = 16, .lr = 0.1};

static void feed(struct input input)
{
    bench.actions.count = 0;
    coord_step(bench.coord, &input, bench.now, &bench.actions);
}

static void open_bench_for(const struct arena_config *chosen, uint32_t nodes)
{
    struct coord_config coord = {.run_id = 99, .seed = 7, .nodes = nodes, .wait_ns = 60000000000};

    memset(&bench, 0, sizeof bench);
    bench.problem = calloc(1, sizeof *bench.problem);
    problem_open(bench.problem, chosen);
    coord.welcome = bench.problem->welcome;
    coord.welcome_len = bench.problem->welcome_len;
    coord.model = bench.problem->model;
    coord.train = bench.problem->train;
    coord.test = bench.problem->test;
    coord.schedule = bench.problem->schedule;
    coord.optim = bench.problem->optim;
    coord.fingerprint = bench.problem->fingerprint;
    ck_assert_int_eq(coord_open(&bench.coord, &coord), 0);
    bench.now = 1000;
    feed((struct input){.kind = IN_TIME});
}

static void open_bench(uint32_t nodes)
{
    open_bench_for(&config, nodes);
}

static void close_bench(void)
{
    coord_free(bench.coord);
    problem_close(bench.problem);
}

static struct rdt_conn conn_of(uint32_t idx)
{
    return (struct rdt_conn){.slot = idx, .generation = 1 + idx};
}

static const struct action *did(enum action_kind kind)
{
    for (size_t i = 0; i < bench.actions.count; i++)
        if (bench.actions.items[i].kind == kind)
            return &bench.actions.items[i];
    return NULL;
}

/* The end that must be there. */
static const struct action *the_exit(void)
{
    static const struct action nothing;

    ck_assert_ptr_nonnull(did(ACT_EXIT));
    return did(ACT_EXIT) ? did(ACT_EXIT) : &nothing;
}

static bool sent(enum message_kind kind)
{
    for (size_t i = 0; i < bench.actions.count; i++)
        if (bench.actions.items[i].kind == ACT_SEND && bench.actions.items[i].head.kind == kind)
            return true;
    return false;
}

static void hear(uint32_t idx, struct message head, const void *body, size_t len)
{
    head.body_len = (uint32_t)len;
    if (head.run_id == 0)
        head.run_id = 99;
    feed((struct input){
        .kind = IN_MESSAGE, .conn = conn_of(idx), .head = head, .body = body, .body_len = len});
}

static void join(uint32_t idx, uint64_t instance)
{
    static uint8_t body[BODY_MAX];
    struct body_join join = {.instance = instance, .threads = 1, .name = "someone"};

    feed((struct input){.kind = IN_CONNECTED, .conn = conn_of(idx), .incoming = true});
    hear(idx, (struct message){.kind = MSG_JOIN}, body, body_join_encode(&join, body));
}

static void ready(uint32_t idx)
{
    static uint8_t body[BODY_MAX];
    struct body_ready ready = {.fingerprint = bench.problem->fingerprint, .has_train = true};

    hear(idx, (struct message){.kind = MSG_READY}, body, body_ready_encode(&ready, body));
}

/* The gradient sum of a subtree, as a node would send it; `twist` spoils it. */
static size_t partial_body(uint8_t *body, struct span span, float twist, uint64_t *hash)
{
    const struct leaves_config leaves_config = {.model = bench.problem->model,
                                                .train = bench.problem->train,
                                                .schedule = bench.problem->schedule,
                                                .normalize = bench.problem->normalize,
                                                .seed = 7,
                                                .threads = 1};
    size_t parameters = nn_model_parameters(bench.problem->model);
    float *grad = nn_floats(parameters);
    struct body_trailer trailer = {.finite = true};
    struct nn_error error;
    struct leaves *leaves;
    struct leaves_sum sum;

    ck_assert_int_eq(leaves_open(&leaves, &leaves_config, &error), 0);
    leaves_gradient(leaves, coord_weights(bench.coord), coord_steps(bench.coord), span, grad, &sum);
    trailer.loss = sum.loss;
    grad[0] += twist;
    memcpy(body, grad, parameters * sizeof *grad);
    body_trailer_encode(&trailer, body + parameters * sizeof *grad);
    *hash = nn_hash64(body, body_partial_len(parameters));
    leaves_free(leaves);
    nn_floats_free(grad);
    return body_partial_len(parameters);
}

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

static struct landing_of {
    void *buf, *user;
} landing_of(struct span span)
{
    for (size_t i = 0; i < bench.actions.count; i++) {
        const struct action *action = &bench.actions.items[i];

        if (action->kind == ACT_POST && action->head.first == span.first &&
            action->head.count == span.count)
            return (struct landing_of){action->buf, action->user};
    }
    ck_abort_msg("no landing");
    return (struct landing_of){NULL, NULL};
}

static void land(uint32_t idx, struct landing_of landing, struct span span, float twist)
{
    uint8_t *body = (uint8_t *)landing.buf + MESSAGE_HEADER;
    struct message head = {
        .kind = MSG_PARTIAL, .run_id = 99, .first = span.first, .count = span.count};
    size_t len = partial_body(body, span, twist, &head.hash);

    head.body_len = (uint32_t)len;
    feed((struct input){.kind = IN_MESSAGE,
                        .conn = conn_of(idx),
                        .head = head,
                        .body = body,
                        .body_len = len,
                        .user = landing.user});
}

/* Commits what it has just given out. */
static void compute(void)
{
    const struct action *action = did(ACT_COMPUTE);
    void *job = action ? action->job : NULL;

    ck_assert_ptr_nonnull(job);
    coord_run(bench.coord, job);
    feed((struct input){.kind = IN_COMPUTED, .job = job});
}

START_TEST(members__covered_partials_are_dropped_and_must_agree)
{
    static uint8_t body[BODY_MAX];
    struct message head = {.kind = MSG_PARTIAL, .first = 0, .count = 4};
    struct landing_of left, right;
    size_t len;

    open_bench(2);
    join(0, 1);
    ready(0);
    join(1, 2);
    ready(1);
    left = landing_of((struct span){0, 4});
    right = landing_of((struct span){4, 1});
    land(0, left, (struct span){0, 4}, 0);
    /* The same again, from the other node: no harm.  A part of it: no harm. */
    len = partial_body(body, (struct span){0, 4}, 0, &head.hash);
    hear(1, head, body, len);
    ck_assert_ptr_null(did(ACT_COMPUTE));
    ck_assert(!sent(MSG_BYE));
    head.count = 2;
    len = partial_body(body, (struct span){0, 2}, 0, &head.hash);
    hear(1, head, body, len);
    ck_assert(!sent(MSG_BYE));
    ck_assert_ptr_null(did(ACT_COMPUTE));
    land(1, right, (struct span){4, 1}, 0);
    ck_assert_ptr_nonnull(did(ACT_COMPUTE));
    close_bench();
}
END_TEST

START_TEST(members__who_computes_another_sum_is_named)
{
    static uint8_t body[BODY_MAX];
    struct message head = {.kind = MSG_PARTIAL, .first = 0, .count = 4};
    struct landing_of left;
    const struct action *event;
    size_t len;

    open_bench(2);
    join(0, 1);
    ready(0);
    join(1, 2);
    ready(1);
    left = landing_of((struct span){0, 4});
    land(0, left, (struct span){0, 4}, 0);
    len = partial_body(body, (struct span){0, 4}, 1, &head.hash);
    hear(1, head, body, len);
    ck_assert(sent(MSG_BYE));
    event = did(ACT_EVENT);
    ck_assert_ptr_nonnull(event);
    ck_assert_ptr_nonnull(strstr(event->text, "different sums of leaves 0 to 3"));
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
    ck_assert_ptr_nonnull(did(ACT_EXIT));
    ck_assert_int_eq(the_exit()->code, EXIT_NODES);
    ck_assert_ptr_nonnull(strstr(the_exit()->text, "protocol-error"));
    close_bench();
}
END_TEST

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
    for (size_t i = 0; i < bench.actions.count; i++) {
        posts += bench.actions.items[i].kind == ACT_POST;
        steps +=
            bench.actions.items[i].kind == ACT_SEND && bench.actions.items[i].head.kind == MSG_STEP;
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
