/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_PRODUCT_CHECK_H
#define COORDINATOR_PRODUCT_CHECK_H

/*
 * Is this block of C right?  Freivalds: C r = A (B r) for a random r costs O(n^2) where the product
 * costs O(n^3).  A block that fails is computed here once more: since blocks have the same bits on
 * every machine, what differs from that is wrong, and what does not was merely rounded far.
 */

#include <cluster/blocks.h>

struct checker; /* opaque */

struct checker_config {
    const struct body_product *shape; /* borrowed, as the matrices */
    const float *a, *b;
    uint64_t seed; /* of r: nobody who computes may know it */
};

/* NN_ENOMEM. */
int checker_open(struct checker **out, const struct checker_config *config);
void checker_free(struct checker *checker);

struct check_job {
    struct block block;
    float *c;   /* (rows, cols): made right if it is wrong */
    bool right; /* out: it was */
};

/* On the compute thread. */
void check_run(struct checker *checker, struct check_job *job);

#endif
