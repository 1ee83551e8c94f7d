/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct bench bench;

const struct arena_config bench_config = {.samples = 90,
                                          .test_samples = 300,
                                          .batch = 40,
                                          .leaf = 8,
                                          .epochs = 2,
                                          .hidden = 16,
                                          .lr = 0.1};

void open_bench(void)
{
    struct worker_config worker = {.instance = 77,
                                   .name = "bench",
                                   .threads = 1,
                                   .store = &bench.store,
                                   .wait_ns = 30000000000};

    memset(&bench, 0, sizeof bench);
    bench.problem = calloc(1, sizeof *bench.problem);
    problem_open(bench.problem, &bench_config);
    bench.store.sets[0] = problem_set(bench_config.samples, 1);
    memset(bench.store.digests[0].bytes, 1, sizeof bench.store.digests[0].bytes);
    bench.store.sets[1] = problem_set(bench_config.test_samples, 2);
    memset(bench.store.digests[1].bytes, 2, sizeof bench.store.digests[1].bytes);
    bench.store.oldest = 2;
    worker.peer = rdt_addr_v4(10, 0, 0, 1, 7);
    ck_assert_int_eq(worker_open(&bench.worker, &worker), 0);
    bench.now = 5000000000;
}

void close_bench(void)
{
    worker_free(bench.worker);
    data_store_close(&bench.store);
    problem_close(bench.problem);
}

void feed(struct input input)
{
    bench.actions.count = 0;
    worker_step(bench.worker, &input, bench.now, &bench.actions);
}

const struct action *did(enum action_kind kind)
{
    for (size_t i = 0; i < bench.actions.count; i++)
        if (bench.actions.items[i].kind == kind)
            return &bench.actions.items[i];
    return NULL;
}

const struct action *sent(enum message_kind kind)
{
    for (size_t i = 0; i < bench.actions.count; i++)
        if (bench.actions.items[i].kind == ACT_SEND && bench.actions.items[i].head.kind == kind)
            return &bench.actions.items[i];
    return NULL;
}

/* The action that must be there. */
const struct action *must(const struct action *action)
{
    static const struct action nothing;

    ck_assert_ptr_nonnull(action);
    return action ? action : &nothing;
}

void hear(struct message head, const void *body, size_t len, void *user)
{
    head.body_len = (uint32_t)len;
    if (head.run_id == 0)
        head.run_id = 99;
    feed((struct input){.kind = IN_MESSAGE,
                        .conn = bench.conn,
                        .head = head,
                        .body = body,
                        .body_len = len,
                        .user = user});
}

void tick(void)
{
    feed((struct input){.kind = IN_TIME});
}

void connect_bench(void)
{
    bench.conn.slot = 3;
    bench.conn.generation++;
    feed((struct input){.kind = IN_CONNECTED, .conn = bench.conn});
}

/* Runs the job that the worker has just given out, and hands it back. */
void compute(void)
{
    const struct action *action = did(ACT_COMPUTE);
    void *job;

    ck_assert_ptr_nonnull(action);
    job = action->job;
    worker_run(bench.worker, job);
    feed((struct input){.kind = IN_COMPUTED, .job = job});
}

void prepare(void)
{
    tick();
    connect_bench();
    hear((struct message){.kind = MSG_WELCOME}, bench.problem->welcome, bench.problem->welcome_len,
         NULL);
    compute();
}

void get_ready(void)
{
    prepare();
    hear((struct message){.kind = MSG_STEP}, NULL, 0, NULL);
}

/* Initial weights land where the worker wants those of this step. */
void give_weights(const struct action *post)
{
    size_t parameters = nn_model_parameters(bench.problem->model);
    uint8_t *body = (uint8_t *)post->buf + MESSAGE_HEADER;

    ck_assert_uint_eq(post->cap, MESSAGE_HEADER + parameters * sizeof(float));
    nn_model_init(bench.problem->model, 7, (float *)(void *)body);
    hear((struct message){.kind = MSG_WEIGHTS, .step = post->head.step}, body,
         parameters * sizeof(float), post->user);
}
