/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <node/leaves.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct bench bench;

const struct arena_config bench_config = {
    .samples = 90, .batch = 40, .leaf = 8, .epochs = 2, .hidden = 16, .lr = 0.1};

/* The bodies of refusals come back before anything else happens. */
static void give_back(void)
{
    const size_t count = bench.actions.count;

    for (size_t i = 0; i < count; i++) {
        const struct action action = bench.actions.items[i];
        const struct input input = {.kind = IN_RELEASED, .conn = action.conn, .user = action.user};

        bench.actions.count = count;
        if (action.kind == ACT_SEND && action.head.kind == MSG_REFUSE)
            coord_step(bench.coord, &input, bench.now, &bench.actions);
    }
    bench.actions.count = 0;
}

void feed(struct input input)
{
    give_back();
    coord_step(bench.coord, &input, bench.now, &bench.actions);
}

void open_bench_for(const struct arena_config *chosen, uint32_t nodes)
{
    struct coord_config coord = {.run_id = 99,
                                 .seed = 7,
                                 .nodes = nodes,
                                 .min_nodes = chosen->min_nodes,
                                 .wait_ns = 60000000000};

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

void open_bench(uint32_t nodes)
{
    open_bench_for(&bench_config, nodes);
}

void close_bench(void)
{
    give_back();
    coord_free(bench.coord);
    problem_close(bench.problem);
}

struct rdt_conn conn_of(uint32_t idx)
{
    return (struct rdt_conn){.slot = idx, .generation = 1 + idx};
}

const struct action *did(enum action_kind kind)
{
    for (size_t i = 0; i < bench.actions.count; i++)
        if (bench.actions.items[i].kind == kind)
            return &bench.actions.items[i];
    return NULL;
}

/* The end that must be there. */
const struct action *the_exit(void)
{
    static const struct action nothing;

    ck_assert_ptr_nonnull(did(ACT_EXIT));
    return did(ACT_EXIT) ? did(ACT_EXIT) : &nothing;
}

const struct action *must(const struct action *action)
{
    static const struct action nothing;

    ck_assert_ptr_nonnull(action);
    return action ? action : &nothing;
}

bool sent(enum message_kind kind)
{
    for (size_t i = 0; i < bench.actions.count; i++)
        if (bench.actions.items[i].kind == ACT_SEND && bench.actions.items[i].head.kind == kind)
            return true;
    return false;
}

void hear(uint32_t idx, struct message head, const void *body, size_t len)
{
    head.body_len = (uint32_t)len;
    if (head.run_id == 0)
        head.run_id = 99;
    feed((struct input){
        .kind = IN_MESSAGE, .conn = conn_of(idx), .head = head, .body = body, .body_len = len});
}

void join_from(uint32_t idx, uint64_t instance, uint8_t host)
{
    static uint8_t body[BODY_MAX];
    struct body_join join = {.instance = instance, .threads = 1, .name = "someone"};

    feed((struct input){.kind = IN_CONNECTED,
                        .conn = conn_of(idx),
                        .peer = rdt_addr_v4(10, 0, 0, host, 1),
                        .incoming = true});
    hear(idx, (struct message){.kind = MSG_JOIN}, body, body_join_encode(&join, body));
}

void join(uint32_t idx, uint64_t instance)
{
    join_from(idx, instance, (uint8_t)idx);
}

void ready(uint32_t idx)
{
    static uint8_t body[BODY_MAX];
    struct body_ready ready = {.fingerprint = bench.problem->fingerprint, .has_train = true};

    hear(idx, (struct message){.kind = MSG_READY}, body, body_ready_encode(&ready, body));
}

/* The gradient sum of a subtree, as a node would send it; `twist` spoils it. */
size_t partial_body(uint8_t *body, struct span span, float twist, uint64_t *hash)
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

struct landing_of landing_of(struct span span)
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

void land(uint32_t idx, struct landing_of landing, struct span span, float twist)
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

void open_three(const struct arena_config *chosen)
{
    open_bench_for(chosen, 3);
    for (uint32_t i = 0; i < 3; i++) {
        join(i, 1 + i);
        ready(i);
    }
}

void lose(uint32_t idx)
{
    feed((struct input){.kind = IN_CLOSED, .conn = conn_of(idx), .reason = RDT_CLOSED_DEAD});
}
