/* SPDX-License-Identifier: MIT */
#ifndef TESTS_COORDINATOR_YARD_H
#define TESTS_COORDINATOR_YARD_H

/*
 * A product over real nodes in one thread, without rdt: whatever is under way - messages, releases,
 * jobs - is taken in an order drawn from a seed.  Control messages keep their order; buffers behave
 * as rdt's do: a bulk message lands where it was posted, a small one is pooled, a large one waits.
 */

#include <coordinator/product.h>

struct plan {
    uint64_t seed;
    uint64_t rows, inner, cols;
    enum body_op op;
    uint64_t block_rows; /* 0: as planned */
    uint32_t nodes, wanted;
    uint32_t kills; /* of nodes, at random moments */
    bool late;      /* as many new ones come afterwards */
    bool check;
    uint32_t liar;   /* this node flips a bit of every block; 0: none */
    bool other_bits; /* its fingerprint is wrong instead */
    bool stop;       /* the user does, at a random moment */
};

struct yard_result {
    int code;
    char text[ACTION_TEXT_MAX];
    char events[16 * 1024]; /* of the coordinator, one after the other */
    float *c, *want;        /* what came out, and the same blocks computed in one place */
    struct product_status status;
};

/* Runs to the coordinator's exit; asserts that it comes.  Free the result. */
void yard_run(const struct plan *plan, struct yard_result *out);
void yard_free(struct yard_result *result);

#endif
