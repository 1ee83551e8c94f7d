/* SPDX-License-Identifier: MIT */
#ifndef NODE_MATRIX_H
#define NODE_MATRIX_H

/*
 * The node's part in a matrix product: B is gathered piece by piece, blocks of rows of A land where
 * they were posted, several are computed at once - each by one thread, in one call of BLAS - and
 * their rows of C go back.  Private to node/.
 */

#include <cluster/blocks.h>
#include <nn/nn.h>
#include <node/compute.h>

enum { MATRIX_STAGES = 8 }; /* landings for pieces of B */

/* What a product needs on this machine: taken and freed with the compute thread idle, or on it. */
struct matrix_engine {
    struct body_product shape;
    float *b; /* (inner, cols), MULTIPLY */
    uint64_t pieces;
    bool *here; /* a piece of B */
    uint8_t *stages[MATRIX_STAGES];
    uint8_t *a[BODY_DEPTH_MAX];      /* header and rows of A */
    uint8_t *b_rows[BODY_DEPTH_MAX]; /* the same of B, COMBINE */
    float *c[BODY_DEPTH_MAX];        /* rows of C */
    struct crew *crew;
};

/* Takes the memory for engine->shape.  NN_ENOMEM, also when it is more than the machine has: the
 * kernel would promise it and kill us later. */
int matrix_engine_open(struct matrix_engine *engine, uint32_t threads);
double matrix_engine_bytes(const struct body_product *shape);
void matrix_engine_close(struct matrix_engine *engine);

/* Computes these slots' rows of C. */
struct matrix_task {
    uint32_t slot;
    uint64_t rows;
};

void matrix_compute(struct matrix_engine *engine, const struct matrix_task *tasks, uint32_t count);

struct matrix_slot {
    uint64_t serial; /* number of the block that lands here next, or has landed */
    uint64_t first, rows;
    bool has_a, has_b, computing;
    bool lent; /* its C is on its way */
};

/* The step function's side: part of struct worker. */
struct matrix {
    bool on; /* the run at hand is a product */
    struct body_product shape;
    struct matrix_engine engine;
    uint64_t pieces_here;
    struct matrix_slot slots[BODY_DEPTH_MAX];
};

struct worker;
struct input;

void matrix_welcome(struct worker *worker, const struct input *input);
void matrix_prepare(struct worker *worker);
void matrix_computed(struct worker *worker);
void matrix_message(struct worker *worker, const struct input *input);
void matrix_released(struct matrix_slot *slot);
void matrix_advance(struct worker *worker);

#endif
