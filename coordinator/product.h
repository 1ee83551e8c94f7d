/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_PRODUCT_H
#define COORDINATOR_PRODUCT_H

/*
 * The coordinator of a matrix product as a step function: inputs in, actions out (cluster/step.h).
 * No clock, socket, file or thread.
 *
 *     gather -> run -> end
 *
 * B goes to every node once, piece by piece; blocks of rows of A go to whoever has room for one,
 * and come back as rows of C.  The blocks of a node that is lost are given to the others.  A node
 * that comes late helps.  With none left it waits for one.
 */

#include <cluster/blocks.h>
#include <cluster/step.h>
#include <coordinator/coord.h>

struct product_config {
    uint64_t run_id;
    struct body_product shape; /* planned (cluster/blocks.h); its depth is set for each node */
    const float *a, *b;        /* borrowed, as the next: not before the host is gone */
    float *c;
    uint64_t fingerprint; /* nn_product_fingerprint here */
    uint32_t nodes;       /* wait for so many; at most COORD_NODES_MAX */
    uint64_t wait_ns;
    bool check; /* every block, by Freivalds' test; who computes wrong is named and leaves */
};

struct product; /* opaque */

/* NN_ENOMEM. */
int product_open(struct product **out, const struct product_config *config);
void product_free(struct product *product);

/* The host's view (struct host_client): state is a struct product. */
void product_step(void *state, const struct input *input, uint64_t now_ns, struct actions *out);
uint64_t product_deadline(const void *state);
void product_run(void *state, void *job);

/* As coord_fail and coord_drop: at the next call of product_step. */
void product_fail(struct product *product, enum exit_code code, const char *text);
void product_drop(struct product *product, const char *name);
bool product_is_gathering(const struct product *product);

struct product_status {
    uint64_t blocks, done;
    uint64_t again;            /* blocks given out more than once */
    uint32_t ready;            /* nodes now */
    uint32_t helped;           /* nodes that ever were ready */
    uint32_t wrong;            /* nodes that computed wrong (check) */
    uint64_t begun_ns, end_ns; /* all nodes were ready; the last block came in */
};

struct product_status product_status(const struct product *product);

#endif
