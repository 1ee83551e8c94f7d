/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_RECORD_H
#define COORDINATOR_RECORD_H

/*
 * What a run reports while it goes: one record for each finished step and evaluation, and one when
 * the number of members changes.  Plain data; run directory and progress line read it.
 */

#include <coordinator/commit.h>

enum record_kind { RECORD_MEMBERS, RECORD_STEP, RECORD_EVAL };

struct record {
    enum record_kind kind;
    uint32_t nodes;              /* ready now; 0: in process */
    uint32_t wanted;             /* MEMBERS: wait for so many; 0: the run goes on */
    uint64_t step;               /* STEP: counts from 0; EVAL: steps done */
    uint32_t epoch;              /* counts from 0 */
    uint64_t samples;            /* STEP: of the step; EVAL: test samples */
    double loss;                 /* mean */
    uint64_t correct;            /* EVAL */
    uint64_t taken_ns;           /* STEP: from its start to its commit; EVAL: likewise */
    char hash[COMMIT_HASH_TEXT]; /* STEP: of the weights after it */
};

#endif
