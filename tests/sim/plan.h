/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

/*
 * What a seed decides: how many nodes, when they start, what the links do to their datagrams, what
 * breaks and when.  Nothing is drawn later, so a plan can be printed and a seed replayed.
 */

#include <rdt/link.h>

#include <stdio.h>

enum { PLAN_NODES_MAX = 7, PLAN_BLACKOUTS_MAX = 3 };

enum plan_end {
    PLAN_DONE, /* the run is left alone: exit 0 */
    PLAN_STOP, /* SIGTERM to the coordinator after `end_step` steps: exit 4 */
    PLAN_KILL  /* node `victim` vanishes after `end_step` steps: exit 6 */
};

struct plan_node {
    uint64_t start_ns;
    bool has_data;
    double slowness; /* virtual nanoseconds of compute for each float it touches */
    struct rdt_link_config up, down;
};

struct plan_blackout {
    uint64_t from_ns, until_ns;
    uint32_t node;
};

struct plan {
    uint64_t seed;
    uint32_t problem;
    uint32_t nodes;
    uint64_t coordinator_start_ns;
    struct plan_node node[PLAN_NODES_MAX];
    uint32_t blackouts;
    struct plan_blackout blackout[PLAN_BLACKOUTS_MAX];
    uint32_t garbage;  /* random or damaged datagrams thrown at the coordinator, one every 7 ms */
    uint64_t epoch_ns; /* where the monotonic clock starts */
    enum plan_end end;
    uint64_t end_step;
    uint32_t victim;
};

void plan_make(struct plan *plan, uint64_t seed, uint32_t problems);
void plan_print(const struct plan *plan, FILE *out);

/* splitmix64. */
uint64_t plan_random(uint64_t *state);

#endif
