/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const uint64_t ms = 1000000;

uint64_t plan_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t *state, uint64_t bound)
{
    assert(bound > 0);
    return plan_random(state) % bound;
}

static bool one_in(uint64_t *state, uint64_t n)
{
    return below(state, n) == 0;
}

/* Half of the links have a kind of fault, in any strength up to the worst. */
static double chance(uint64_t *state, double worst)
{
    bool none = one_in(state, 2);
    double strength = (double)below(state, 1001) / 1000.0;

    return none ? 0.0 : worst * strength;
}

static void link_make(struct rdt_link_config *link, uint64_t *state)
{
    static const uint64_t rates[] = {0, 0, 2000000, 10000000, 100000000, 1000000000};

    memset(link, 0, sizeof *link);
    link->loss = chance(state, 0.25);
    link->burst = one_in(state, 4) ? 1.0 + (double)below(state, 5) : 0.0;
    link->duplicate = chance(state, 0.10);
    link->reorder = chance(state, 0.20);
    link->reorder_ns = (1 + below(state, 20)) * ms / 4;
    link->corrupt = chance(state, 0.10);
    link->delay_ns = below(state, 20) * below(state, 20) * ms / 20;
    link->jitter_ns = one_in(state, 2) ? 0 : below(state, 3000) * 1000;
    link->rate_bps = rates[below(state, sizeof rates / sizeof rates[0])];
    link->queue_bytes = one_in(state, 2) ? 3000 + below(state, 30000) : 0;
    link->overhead_bytes = 28;
    link->seed = plan_random(state);
}

static void node_make(struct plan_node *node, uint32_t idx, uint64_t *state)
{
    node->start_ns = below(state, one_in(state, 10) ? 30000 : 3000) * ms;
    node->kill_ns = PLAN_NEVER;
    node->identity = idx;
    node->data = one_in(state, 3) ? PLAN_DATA_NONE : PLAN_DATA_RIGHT;
    if (node->data == PLAN_DATA_NONE && one_in(state, 2))
        node->data = PLAN_DATA_WRONG;
    node->slowness = (double)(1 + below(state, 200));
    if (one_in(state, 4)) {
        node->stall_from_ns = below(state, 8000) * ms;
        node->stall_ns = (1 + below(state, 1200)) * ms;
    }
    link_make(&node->up, state);
    link_make(&node->down, state);
}

/* Processes beyond those the run needs. */
static void extras_make(struct plan *plan, uint64_t *state)
{
    plan->processes = plan->nodes;
    if (one_in(state, 6)) { /* one dies before the run begins, another takes its place */
        struct plan_node *victim = &plan->node[below(state, plan->nodes)];

        node_make(&plan->node[plan->processes], plan->processes, state);
        victim->kill_ns = victim->start_ns + below(state, 4000) * ms;
        plan->node[plan->processes].start_ns = victim->kill_ns + below(state, 3000) * ms;
        plan->processes++;
    }
    if (one_in(state, 8)) { /* a machine was copied with its identity, or is one too many */
        node_make(&plan->node[plan->processes], plan->processes, state);
        if (!one_in(state, 3))
            plan->node[plan->processes].identity = (uint32_t)below(state, plan->nodes);
        plan->processes++;
    }
    if (one_in(state, 4)) { /* one more comes when the run is well under way */
        node_make(&plan->node[plan->processes], plan->processes, state);
        plan->node[plan->processes].start_ns = 0;
        plan->node[plan->processes].start_step = 1 + below(state, 4);
        plan->processes++;
    }
}

static void faults_make(struct plan *plan, uint64_t *state)
{
    plan->faults = one_in(state, 2) ? (uint32_t)below(state, PLAN_FAULTS_MAX + 1) : 0;
    for (uint32_t i = 0; i < plan->faults; i++) {
        struct plan_fault *fault = &plan->fault[i];

        fault->kind = (enum plan_fault_kind)below(state, PLAN_FAULT_KINDS);
        fault->step = below(state, 5);
        fault->delay_ns = below(state, 200) * below(state, 200) * ms / 100;
        fault->length_ns = (3000 + below(state, 7000)) * ms;
        fault->victim = (uint32_t)below(state, PLAN_PROCESSES_MAX);
    }
    plan->min_nodes = one_in(state, 6) ? 1 + (uint32_t)below(state, plan->nodes) : 1;
}

static void end_make(struct plan *plan, uint64_t *state)
{
    plan->end = one_in(state, 12) ? PLAN_STOP : PLAN_DONE;
    plan->end_step = 1 + below(state, 3);
    if (plan->end == PLAN_STOP && one_in(state, 2))
        plan->end_step = 0;
    plan->end_ns = plan->coordinator_start_ns + below(state, 6000) * ms;
}

void plan_make(struct plan *plan, uint64_t seed, uint32_t problems)
{
    uint64_t state = seed * UINT64_C(0xd1342543de82ef95) + 1;
    static const uint64_t epochs[] = {0, UINT64_C(1) << 32, UINT64_C(4294967296) * 1000000 - 1000,
                                      UINT64_C(1) << 53};

    memset(plan, 0, sizeof *plan);
    plan->seed = seed;
    plan->problem = (uint32_t)below(&state, problems);
    plan->nodes = 1 + (uint32_t)below(&state, PLAN_NODES_MAX);
    plan->epoch_ns = epochs[below(&state, 4)];
    plan->coordinator_start_ns = below(&state, one_in(&state, 10) ? 40000 : 3000) * ms;
    for (uint32_t i = 0; i < plan->nodes; i++)
        node_make(&plan->node[i], i, &state);
    extras_make(plan, &state);
    plan->blackouts = one_in(&state, 3) ? (uint32_t)below(&state, PLAN_BLACKOUTS_MAX + 1) : 0;
    for (uint32_t i = 0; i < plan->blackouts; i++) {
        struct plan_blackout *blackout = &plan->blackout[i];

        blackout->node = (uint32_t)below(&state, plan->processes);
        blackout->from_ns = (3000 + below(&state, 2000) + 4000 * i) * ms;
        blackout->until_ns = blackout->from_ns + (100 + below(&state, 1200)) * ms;
        plan->node[blackout->node].stall_ns = 0; /* both at once would be death */
    }
    plan->garbage = one_in(&state, 2) ? (uint32_t)below(&state, 400) : 0;
    end_make(plan, &state);
    faults_make(plan, &state);
}

void plan_make_perfect(struct plan *plan, uint32_t problem, uint32_t nodes)
{
    memset(plan, 0, sizeof *plan);
    plan->problem = problem;
    plan->nodes = nodes;
    plan->min_nodes = 1;
    plan->processes = nodes;
    for (uint32_t i = 0; i < nodes; i++) {
        plan->node[i] = (struct plan_node){.kill_ns = PLAN_NEVER,
                                           .identity = i,
                                           .data = i % 2 ? PLAN_DATA_NONE : PLAN_DATA_RIGHT,
                                           .slowness = 1,
                                           .up.delay_ns = ms / 2,
                                           .down.delay_ns = ms / 2};
    }
}

/* ---------- for people ---------- */

static void link_print(const char *name, const struct rdt_link_config *link, FILE *out)
{
    fprintf(out,
            "    %s loss=%.3f burst=%.0f duplicate=%.3f reorder=%.3f corrupt=%.3f delay=%.2fms "
            "jitter=%.2fms rate=%" PRIu64 " queue=%" PRIu64 "\n",
            name, link->loss, link->burst, link->duplicate, link->reorder, link->corrupt,
            (double)link->delay_ns / 1e6, (double)link->jitter_ns / 1e6, link->rate_bps,
            link->queue_bytes);
}

static void node_print(const struct plan_node *node, uint32_t idx, FILE *out)
{
    static const char *const data[] = {"none", "right", "wrong"};

    fprintf(out,
            "  node %" PRIu32 " starts at %.3f s, identity=%" PRIu32 ", data=%s, slowness=%.0f",
            idx, (double)node->start_ns / 1e9, node->identity, data[node->data], node->slowness);
    if (node->start_step > 0)
        fprintf(out, ", after step %" PRIu64, node->start_step);
    if (node->kill_ns != PLAN_NEVER)
        fprintf(out, ", killed at %.3f s", (double)node->kill_ns / 1e9);
    if (node->stall_ns > 0)
        fprintf(out, ", stalls for %.3f s at %.3f s", (double)node->stall_ns / 1e9,
                (double)node->stall_from_ns / 1e9);
    fprintf(out, "\n");
    link_print("up  ", &node->up, out);
    link_print("down", &node->down, out);
}

void plan_print(const struct plan *plan, FILE *out)
{
    static const char *const ends[] = {"done", "stop"};
    static const char *const faults[] = {"kill", "leave", "freeze", "partition"};

    fprintf(out,
            "plan seed=%" PRIu64 " problem=%" PRIu32 " nodes=%" PRIu32 " min_nodes=%" PRIu32
            " processes=%" PRIu32 " garbage=%" PRIu32 " end=%s step=%" PRIu64 " time=%.3f"
            " coordinator starts at %.3f s\n",
            plan->seed, plan->problem, plan->nodes, plan->min_nodes, plan->processes, plan->garbage,
            ends[plan->end], plan->end_step, (double)plan->end_ns / 1e9,
            (double)plan->coordinator_start_ns / 1e9);
    for (uint32_t i = 0; i < plan->processes; i++)
        node_print(&plan->node[i], i, out);
    for (uint32_t i = 0; i < plan->blackouts; i++)
        fprintf(out, "  blackout of node %" PRIu32 " from %.3f to %.3f s\n", plan->blackout[i].node,
                (double)plan->blackout[i].from_ns / 1e9, (double)plan->blackout[i].until_ns / 1e9);
    for (uint32_t i = 0; i < plan->faults; i++) {
        fprintf(out, "  %s of member %" PRIu32 " %.3f s after step %" PRIu64 " (%.3f s)\n",
                faults[plan->fault[i].kind], plan->fault[i].victim,
                (double)plan->fault[i].delay_ns / 1e9, plan->fault[i].step,
                (double)plan->fault[i].length_ns / 1e9);
    }
    if (plan->drop_up.first)
        fprintf(out, "  loses datagrams %" PRIu64 " and on (%" PRIu64 ") to the coordinator\n",
                plan->drop_up.first, plan->drop_up.count);
    if (plan->drop_down.first)
        fprintf(out, "  loses datagrams %" PRIu64 " and on (%" PRIu64 ") from the coordinator\n",
                plan->drop_down.first, plan->drop_down.count);
}
