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
    uint64_t dropped;                                               /* by plan */
    uint64_t blackouts, stalls, garbage, damaged, repeated;
    uint64_t late_nodes, late_coordinators, without_data, with_wrong_data;
    uint64_t unlucky, killed_early, stand_ins, copied, refused;
    uint64_t retransmits, spurious, ptos, rejected; /* as the endpoints saw it */
    uint64_t deaths, releases;
    uint64_t stops, stops_early, done, too_few;
    uint64_t kills, leaves, freezes, partitions, late_used, waits, resumed;
    uint64_t steps, evals;
    uint64_t virtual_ms;
};

struct world_outcome {
    bool ok;
    char why[256];
    uint64_t trace;    /* hash of every datagram delivered, when and where */
    uint64_t taken_ns; /* virtual */
    uint64_t sent_up, sent_down;
};

/* Directories of data files: those of the problems, and others under the same names. */
struct world_files {
    const char *right, *wrong;
};

void world_run(const struct plan *plan, const struct problem *problem,
               const struct world_files *files, bool verbose, struct tally *tally,
               struct world_outcome *outcome);

#endif
