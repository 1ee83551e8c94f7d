/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

/*
 * One run of a whole cluster in virtual time, after a plan, held against the oracle of its problem.
 */

#include "plan.h"
#include "problem.h"

/* What happened, summed over runs: a fault that never happens is a fault that is not tested. */
struct tally {
    uint64_t datagrams;
    uint64_t lost, duplicated, reordered, corrupted, queue_dropped; /* by the links */
    uint64_t blackouts, garbage, damaged, late_nodes, nodes_without_data;
    uint64_t retransmits, spurious, ptos, rejected; /* as the endpoints saw it */
    uint64_t stops, kills, done;
    uint64_t steps, evals;
    uint64_t virtual_ms;
};

struct world_outcome {
    bool ok;
    char why[256];
    uint64_t trace; /* hash of every datagram delivered, when and where */
};

/* data_dir: where the problem's files are. */
void world_run(const struct plan *plan, const struct problem *problem, const char *data_dir,
               bool verbose, struct tally *tally, struct world_outcome *outcome);

#endif
