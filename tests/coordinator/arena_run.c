/* SPDX-License-Identifier: MIT */
#include "arena_state.h"

#include <cluster/text.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ms = 1000000;

static void add_coord(struct arena *arena, const struct problem *problem)
{
    const struct arena_config *config = arena->config;
    const struct coord_config coord = {.run_id = 99,
                                       .welcome = problem->welcome,
                                       .welcome_len = problem->welcome_len,
                                       .model = problem->model,
                                       .train = problem->train,
                                       .test = problem->test,
                                       .schedule = problem->schedule,
                                       .optim = problem->optim,
                                       .seed = 7,
                                       .fingerprint = problem->fingerprint,
                                       .nodes = config->wanted ? config->wanted : config->nodes,
                                       .min_nodes = config->min_nodes,
                                       .wait_ns = 60 * 1000 * ms};
    struct coord *state;

    ck_assert_int_eq(coord_open(&state, &coord), 0);
    arena->procs[arena->procs_count++] = (struct proc){.state = state,
                                                       .step = coord_step,
                                                       .deadline = coord_deadline,
                                                       .run = coord_run,
                                                       .code = -1};
}

static void add_worker(struct arena *arena, const struct arena_config *config,
                       struct data_store *store, uint32_t idx)
{
    struct worker_config worker = {
        .instance = 1000 + idx, .threads = 1 + idx % 2, .store = store, .wait_ns = UINT64_MAX};
    struct worker *state;

    memset(store, 0, sizeof *store);
    if (idx + config->without_data < config->nodes) {
        store->sets[0] = problem_set(config->samples, 1);
        memset(store->digests[0].bytes, 1, sizeof store->digests[0].bytes);
        store->oldest = 1;
        if (config->test_samples) {
            store->sets[1] = problem_set(config->test_samples, 2);
            memset(store->digests[1].bytes, 2, sizeof store->digests[1].bytes);
            store->oldest = 2;
        }
    }
    text_format(worker.name, sizeof worker.name, "n%u", idx + 1);
    ck_assert_int_eq(worker_open(&state, &worker), 0);
    arena->procs[arena->procs_count++] = (struct proc){.state = state,
                                                       .step = worker_step,
                                                       .deadline = worker_deadline,
                                                       .run = worker_run,
                                                       .code = -1};
}

static bool all_gone(const struct arena *arena)
{
    for (uint32_t i = 0; i < arena->procs_count; i++)
        if (!arena->procs[i].gone)
            return false;
    return true;
}

static void finish(struct arena *arena)
{
    struct arena_result *out = arena->result;
    struct coord *coord = arena->procs[0].state;

    out->code = arena->procs[0].code;
    for (uint32_t i = 1; i < arena->procs_count; i++)
        out->node_codes[i - 1] = arena->procs[i].code;
    for (size_t i = 0; i < coord_nodes(coord); i++) {
        struct coord_node node = coord_node(coord, i);

        out->samples_sent += node.samples_sent;
        if (node.instance >= 1000 && node.instance < 1000 + ARENA_NODES_MAX)
            out->leaves[node.instance - 1000] += node.leaves;
    }
    out->steps = coord_steps(coord);
    arena_clear(arena);
    coord_free(coord);
    for (uint32_t i = 1; i < arena->procs_count; i++)
        worker_free(arena->procs[i].state);
}

void arena_run(const struct arena_config *config, struct arena_result *out)
{
    struct arena *arena = calloc(1, sizeof *arena);
    struct problem *problem = calloc(1, sizeof *problem);
    struct data_store stores[ARENA_NODES_MAX];

    ck_assert_ptr_nonnull(arena);
    ck_assert_ptr_nonnull(problem);
    memset(out, 0, sizeof *out);
    out->records_in_order = true;
    problem_open(problem, config);
    arena->config = config;
    arena->result = out;
    arena->random = config->seed;
    add_coord(arena, problem);
    for (uint32_t i = 0; i < config->nodes; i++)
        add_worker(arena, config, &stores[i], i);
    for (uint32_t i = config->nodes - config->late; i < config->nodes; i++)
        arena->procs[i + 1].sleeps_until = config->late_ms * ms;
    while (!arena->procs[0].gone)
        arena_turn(arena);
    out->ended_ms = arena->now / ms;
    nn_weights_hash(coord_weights(arena->procs[0].state), nn_model_parameters(problem->model),
                    out->hash);
    /* Nodes leave when they hear BYE; who lost the coordinator otherwise goes on asking. */
    for (int i = 0; i < 1000 && arena->items && !all_gone(arena); i++)
        arena_turn(arena);
    finish(arena);
    for (uint32_t i = 0; i < config->nodes; i++)
        data_store_close(&stores[i]);
    problem_close(problem);
    free(arena);
}
