/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_STATE_H
#define TESTS_SIM_STATE_H

/* What the parts of one simulated run share: world.c (processes, verdict) and network.c. */

#include "member.h"
#include "world.h"

#include <node/worker.h>

enum { TRAIN_MAX = 65507 };

/* One direction of a link, since something valid came out of it. */
struct quiet {
    bool heard; /* ever */
    uint64_t since_ns;
    uint64_t datagrams; /* put in for a connection that there is */
};

struct world {
    const struct plan *plan;
    const struct problem *problem;
    const struct world_files *files;
    bool verbose;
    struct tally *tally;
    struct world_outcome *outcome;
    uint64_t now;
    struct coord *coord;
    struct member coordinator;
    struct worker *workers[PLAN_PROCESSES_MAX];
    struct data_store stores[PLAN_PROCESSES_MAX];
    struct member nodes[PLAN_PROCESSES_MAX];
    bool started[PLAN_PROCESSES_MAX], killed[PLAN_PROCESSES_MAX];
    struct rdt_link *up[PLAN_PROCESSES_MAX], *down[PLAN_PROCESSES_MAX];
    bool dark[PLAN_PROCESSES_MAX], stalled[PLAN_PROCESSES_MAX];
    struct quiet quiet_up[PLAN_PROCESSES_MAX], quiet_down[PLAN_PROCESSES_MAX];
    bool unlucky; /* a link lost many datagrams in a row, for as long as death takes */
    uint64_t sent_up, sent_down; /* datagrams */
    uint64_t steps, evals;       /* recorded */
    bool end_due, end_done;      /* of plan->end */
    bool fault_done[PLAN_FAULTS_MAX];
    uint64_t fault_at[PLAN_FAULTS_MAX]; /* 0: its step is not done yet */
    uint64_t frozen_until[PLAN_PROCESSES_MAX], dark_until[PLAN_PROCESSES_MAX];
    bool left[PLAN_PROCESSES_MAX];
    uint32_t left_at_end; /* nodes, before the coordinator said goodbye */
    uint64_t lost_ns;     /* when a node was last killed or told to leave; 0: never */
    uint64_t garbage_left, garbage_next, random;
    uint8_t sample[2048]; /* a datagram that went to `sample_to`, for damaged copies */
    struct rdt_arrival sample_arrival;
    struct member *sample_to;
};

__attribute__((format(printf, 2, 3))) void world_fail(struct world *world, const char *format, ...);

/* Folds bytes into the trace. */
void world_fold(struct world *world, const void *bytes, size_t len);

struct rdt_addr world_node_addr(uint32_t idx);
struct rdt_addr world_coordinator_addr(void);

/* ---------- faults.c ---------- */

void faults_apply(struct world *world);
/* The next moment at which one begins or ends; UINT64_MAX: none. */
uint64_t faults_next(const struct world *world);
void world_end_member(struct world *world, struct member *member);
bool world_is_gathering(const struct world *world);
/* The process of a node that the coordinator knows. */
uint32_t world_process(const struct world *world, const char *name);

/* ---------- network.c ---------- */

void network_open(struct world *world);
void network_close(struct world *world);
void network_change(struct world *world); /* blackouts that begin or end now */
void network_judge(struct world *world);  /* sets `unlucky`; also done as time passes */
void network_deliver(struct world *world);
void network_throw_garbage(struct world *world);

/* Sends what a member has to send: node `idx`, or the coordinator. */
void network_send_up(struct world *world, uint32_t idx);
void network_send_down(struct world *world);

#endif
