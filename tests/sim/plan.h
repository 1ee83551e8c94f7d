/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

/*
 * What a seed decides: how many nodes, when they start, what the links do to their datagrams, what
 * breaks and when.  Nothing is drawn later, so a plan can be printed and a seed replayed.
 */

#include <rdt/link.h>

#include <stdio.h>

enum {
    PLAN_NODES_MAX = 7,
    PLAN_PROCESSES_MAX = PLAN_NODES_MAX + 3, /* with those the run does not need */
    PLAN_BLACKOUTS_MAX = 3,
    PLAN_FAULTS_MAX = 3
};

#define PLAN_NEVER UINT64_MAX

enum plan_end {
    PLAN_DONE, /* the run is left alone: exit 0 while there are nodes enough */
    PLAN_STOP  /* SIGTERM to the coordinator: exit 4 */
};

/* What happens to a member in mid-run. */
enum plan_fault_kind {
    PLAN_KILL,      /* it vanishes */
    PLAN_LEAVE,     /* SIGTERM */
    PLAN_FREEZE,    /* it does not run for `length_ns`, and goes on then */
    PLAN_PARTITION, /* nothing gets through to it or from it for `length_ns` */
    PLAN_FAULT_KINDS
};

struct plan_fault {
    enum plan_fault_kind kind;
    uint64_t step;     /* when so many are done ... */
    uint64_t delay_ns; /* ... and then so much later */
    uint64_t length_ns;
    uint32_t victim; /* its place among the members of that moment */
};

/* What lies under the names of the data files in a node's directory. */
enum plan_data { PLAN_DATA_NONE, PLAN_DATA_RIGHT, PLAN_DATA_WRONG };

struct plan_node {
    uint64_t start_ns;
    uint64_t start_step; /* not before so many steps are done */
    uint64_t kill_ns;    /* it vanishes, unless the run has begun by then; PLAN_NEVER */
    uint32_t identity;   /* two processes with one identity: somebody copied a machine */
    enum plan_data data;
    double slowness;                  /* virtual nanoseconds of compute for each float it touches */
    uint64_t stall_from_ns, stall_ns; /* the process does not run: SIGSTOP, a busy machine */
    struct rdt_link_config up, down;
};

struct plan_blackout {
    uint64_t from_ns, until_ns;
    uint32_t node;
};

/* Datagrams of one direction that are lost whatever the link says. */
struct plan_drop {
    uint64_t first; /* counted from 1; 0: none */
    uint64_t count;
};

struct plan {
    uint64_t seed;
    uint32_t problem;
    uint32_t nodes;     /* the run waits for so many */
    uint32_t min_nodes; /* it goes on with so many */
    uint32_t processes; /* nodes that are started: one may stand in for another, or be too many */
    uint64_t coordinator_start_ns;
    struct plan_node node[PLAN_PROCESSES_MAX];
    uint32_t blackouts;
    struct plan_blackout blackout[PLAN_BLACKOUTS_MAX];
    uint32_t garbage;  /* random, damaged or repeated datagrams, one every 7 ms */
    uint64_t epoch_ns; /* where the monotonic clock starts */
    enum plan_end end;
    uint64_t end_step; /* PLAN_STOP: 0 for `end_ns` instead */
    uint64_t end_ns;
    uint32_t faults;
    struct plan_fault fault[PLAN_FAULTS_MAX];
    struct plan_drop drop_up, drop_down;
};

void plan_make(struct plan *plan, uint64_t seed, uint32_t problems);
void plan_print(const struct plan *plan, FILE *out);

/* `nodes` nodes over links without a fault; every second one has no data. */
void plan_make_perfect(struct plan *plan, uint32_t problem, uint32_t nodes);

/* splitmix64. */
uint64_t plan_random(uint64_t *state);

#endif
