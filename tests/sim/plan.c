/* SPDX-License-Identifier: MIT */
#include "plan.h"

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

static void end_make(struct plan *plan, uint64_t *state)
{
    plan->end = PLAN_DONE;
    if (one_in(state, 8))
        plan->end = PLAN_STOP;
    else if (one_in(state, 8))
        plan->end = PLAN_KILL;
    plan->end_step = 1 + below(state, 3);
    plan->victim = (uint32_t)below(state, plan->nodes);
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
    plan->coordinator_start_ns = below(&state, 3000) * ms;
    for (uint32_t i = 0; i < plan->nodes; i++) {
        struct plan_node *node = &plan->node[i];

        node->start_ns = below(&state, one_in(&state, 10) ? 30000 : 3000) * ms;
        node->has_data = !one_in(&state, 3);
        node->slowness = (double)(1 + below(&state, 200));
        link_make(&node->up, &state);
        link_make(&node->down, &state);
    }
    plan->blackouts = one_in(&state, 3) ? (uint32_t)below(&state, PLAN_BLACKOUTS_MAX + 1) : 0;
    for (uint32_t i = 0; i < plan->blackouts; i++) {
        struct plan_blackout *blackout = &plan->blackout[i];

        blackout->node = (uint32_t)below(&state, plan->nodes);
        blackout->from_ns = (3000 + below(&state, 2000) + 4000 * i) * ms;
        blackout->until_ns = blackout->from_ns + (100 + below(&state, 1200)) * ms;
    }
    plan->garbage = one_in(&state, 2) ? (uint32_t)below(&state, 400) : 0;
    end_make(plan, &state);
}

static void link_print(const char *name, const struct rdt_link_config *link, FILE *out)
{
    fprintf(out,
            "    %s loss=%.3f burst=%.0f duplicate=%.3f reorder=%.3f corrupt=%.3f delay=%.2fms "
            "jitter=%.2fms rate=%" PRIu64 "\n",
            name, link->loss, link->burst, link->duplicate, link->reorder, link->corrupt,
            (double)link->delay_ns / 1e6, (double)link->jitter_ns / 1e6, link->rate_bps);
}

void plan_print(const struct plan *plan, FILE *out)
{
    static const char *const ends[] = {"done", "stop", "kill"};

    fprintf(out,
            "plan seed=%" PRIu64 " problem=%" PRIu32 " nodes=%" PRIu32 " garbage=%" PRIu32
            " end=%s step=%" PRIu64 " victim=%" PRIu32 " coordinator starts at %.3f s\n",
            plan->seed, plan->problem, plan->nodes, plan->garbage, ends[plan->end], plan->end_step,
            plan->victim, (double)plan->coordinator_start_ns / 1e9);
    for (uint32_t i = 0; i < plan->nodes; i++) {
        fprintf(out, "  node %" PRIu32 " starts at %.3f s, data=%d, slowness=%.0f\n", i,
                (double)plan->node[i].start_ns / 1e9, plan->node[i].has_data,
                plan->node[i].slowness);
        link_print("up  ", &plan->node[i].up, out);
        link_print("down", &plan->node[i].down, out);
    }
    for (uint32_t i = 0; i < plan->blackouts; i++)
        fprintf(out, "  blackout of node %" PRIu32 " from %.3f to %.3f s\n", plan->blackout[i].node,
                (double)plan->blackout[i].from_ns / 1e9, (double)plan->blackout[i].until_ns / 1e9);
}
