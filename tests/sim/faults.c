/* SPDX-License-Identifier: MIT */

/* What the plan does to members in mid-run. */

#include "state.h"

/* The place-th member whose process runs; PLAN_PROCESSES_MAX: there is none. */
static uint32_t victim_of(const struct world *world, uint32_t place)
{
    uint32_t found[2 * PLAN_PROCESSES_MAX];
    uint32_t count = 0;

    for (size_t at = 0; at < coord_nodes(world->coord); at++) {
        struct coord_node node = coord_node(world->coord, at);
        uint32_t idx = world_process(world, node.name);

        if (!node.lost && world->nodes[idx].running && !world->nodes[idx].exited &&
            world->frozen_until[idx] <= world->now)
            found[count++] = idx;
    }
    return count > 0 ? found[place % count] : PLAN_PROCESSES_MAX;
}

static void happen(struct world *world, const struct plan_fault *fault)
{
    uint32_t idx = victim_of(world, fault->victim);
    struct member *node = &world->nodes[idx % PLAN_PROCESSES_MAX];

    if (idx == PLAN_PROCESSES_MAX)
        return;
    switch (fault->kind) {
    case PLAN_KILL:
        world->tally->kills++;
        world->lost_ns = world->now;
        world_end_member(world, node);
        break;
    case PLAN_LEAVE:
        world->tally->leaves++;
        world->lost_ns = world->now;
        world->left[idx] = true;
        member_stop(node, world->now);
        break;
    case PLAN_FREEZE:
        world->tally->freezes++;
        world->frozen_until[idx] = world->now + fault->length_ns;
        if (node->watch.stalled_ns < fault->length_ns)
            node->watch.stalled_ns = fault->length_ns;
        break;
    case PLAN_PARTITION:
        world->tally->partitions++;
        world->dark_until[idx] = world->now + fault->length_ns;
        break;
    case PLAN_FAULT_KINDS:
        break;
    }
}

void faults_apply(struct world *world)
{
    if (world_is_gathering(world) || !world->coordinator.running || world->coordinator.exited)
        return;
    for (uint32_t i = 0; i < world->plan->faults; i++) {
        const struct plan_fault *fault = &world->plan->fault[i];

        if (world->fault_at[i] == 0 && world->steps >= fault->step)
            world->fault_at[i] = world->now + fault->delay_ns + 1;
        if (world->fault_done[i] || world->fault_at[i] == 0 || world->now < world->fault_at[i])
            continue;
        world->fault_done[i] = true;
        happen(world, fault);
    }
}

static void sooner(const struct world *world, uint64_t *at, uint64_t other)
{
    if (other > world->now && other < *at)
        *at = other;
}

uint64_t faults_next(const struct world *world)
{
    uint64_t at = UINT64_MAX;

    for (uint32_t i = 0; i < world->plan->faults; i++)
        sooner(world, &at, world->fault_at[i]);
    for (uint32_t i = 0; i < world->plan->processes; i++) {
        sooner(world, &at, world->frozen_until[i]);
        sooner(world, &at, world->dark_until[i]);
    }
    return at;
}
