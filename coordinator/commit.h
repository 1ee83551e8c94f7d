/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_COMMIT_H
#define COORDINATOR_COMMIT_H

/*
 * Commits a step: adds the partials in tree order, applies the optimiser once, hashes the new
 * weights.  The same code in process and over nodes.  A job for a compute thread.
 */

#include <cluster/tree.h>
#include <nn/nn.h>

struct committer; /* gradient, optimiser state, room to add in; opaque */

/* NN_ENOMEM. */
int committer_open(struct committer **out, size_t parameters, const struct nn_optim *optim);
void committer_free(struct committer *committer);

enum { COMMIT_HASH_TEXT = 17 };

struct commit {
    /* in */
    uint64_t step;                  /* counts from 0 */
    uint64_t samples;               /* of the step */
    uint32_t leaves;                /* of the step's tree */
    const struct partial *partials; /* sorted, covering the tree */
    size_t partials_count;
    const float *weights;
    float *next; /* the weights after the step; whole only when finite */
    /* out */
    double loss; /* mean over the samples */
    bool finite; /* gradient, loss and the new weights are; else nothing may be kept */
    char hash[COMMIT_HASH_TEXT];
};

/* Optimiser state moves on only when the outcome is finite: the caller ends the run otherwise. */
void commit_run(struct committer *committer, struct commit *commit);

#endif
