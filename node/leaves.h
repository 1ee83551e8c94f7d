/* SPDX-License-Identifier: MIT */
#ifndef NODE_LEAVES_H
#define NODE_LEAVES_H

/*
 * Computes leaves: the gradient sum of one subtree, and the evaluation of test leaves.  Threads
 * take whole leaves; sums are added in tree order as siblings become complete, so the bits depend
 * neither on the number of threads nor on who is faster.
 *
 * One caller at a time.  Nothing is allocated after leaves_open.
 */

#include <cluster/schedule.h>
#include <cluster/tree.h>
#include <nn/nn.h>

struct leaves_config {
    const struct nn_model *model; /* this and the data are borrowed until leaves_free */
    const struct nn_dataset *train;
    const struct nn_dataset *test;
    struct schedule schedule;
    struct nn_normalize normalize;
    uint64_t seed;
    uint32_t threads;
};

struct leaves; /* opaque */

/* Negative nn_err; `error` says what was asked for. */
int leaves_open(struct leaves **out, const struct leaves_config *config, struct nn_error *error);
void leaves_free(struct leaves *leaves);

struct leaves_sum {
    double loss;       /* summed in tree order */
    uint64_t samples;  /* of the subtree */
    uint64_t correct;  /* predicted right, before the step */
    bool finite;       /* loss and gradient of every leaf are */
    uint32_t bad_leaf; /* the first that is not, when !finite */
};

/* The gradient sum of the subtree `span` of a step's tree into grad (parameters floats, 64-byte
 * aligned).  Every sample must be held: leaves_missing. */
void leaves_gradient(struct leaves *leaves, const float *weights, uint64_t step, struct span span,
                     float *grad, struct leaves_sum *sum);

/* Test leaves span.first ...: one result each. */
void leaves_evaluate(struct leaves *leaves, const float *weights, struct span span,
                     struct nn_result *results);

#endif
