/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_SCHEDULE_H
#define CLUSTER_SCHEDULE_H

/*
 * Which samples make up which leaf of which step.  Pure arithmetic over positions of an epoch; the
 * order of samples (position -> id) is nn's.  A step has the same leaves for any number of nodes.
 */

#include <stdbool.h>
#include <stdint.h>

/* Test samples are evaluated in leaves of this many, so sums of losses add in one order too. */
enum { SCHEDULE_EVAL_LEAF = 256 };

struct schedule {
    uint64_t samples; /* of the training set */
    uint32_t batch;   /* samples of a step; the last of an epoch may be short */
    uint32_t leaf;    /* samples of a leaf; the last of a step may be short */
    uint32_t epochs;
    bool drop_last; /* leave the short last batch of an epoch out */
};

/* Samples at consecutive positions of an epoch. */
struct slice {
    uint64_t position;
    uint32_t count;
};

struct schedule_step {
    uint32_t epoch;
    bool last_of_epoch;
    struct slice slice;
    uint32_t leaves;
};

uint64_t schedule_epoch_steps(const struct schedule *schedule);
uint64_t schedule_steps(const struct schedule *schedule);

/* Step counts from 0, below schedule_steps. */
struct schedule_step schedule_step(const struct schedule *schedule, uint64_t step);
struct slice schedule_leaf(const struct schedule *schedule, uint64_t step, uint32_t leaf);

/* Leaves of a full batch: no step has more. */
uint32_t schedule_leaves_max(const struct schedule *schedule);

/* Test samples: the number of leaves, and one of them. */
uint64_t schedule_eval_leaves(uint64_t samples);
struct slice schedule_eval_leaf(uint64_t samples, uint32_t leaf);

#endif
