/* SPDX-License-Identifier: MIT */
#ifndef NODE_DATA_H
#define NODE_DATA_H

/*
 * Where a node finds a set of samples: in its own --data directory, at the path of the run's
 * configuration, or among what it already holds; a set is known by the digest of its contents, so a
 * wrong file is never used.  Else an empty set is made, to be filled by SAMPLES.
 */

#include <cluster/body.h>
#include <nn/nn.h>

enum { DATA_STORE_MAX = 4 };

/* The sets this process holds, kept from one run to the next. */
struct data_store {
    struct nn_dataset *sets[DATA_STORE_MAX];
    struct nn_digest digests[DATA_STORE_MAX];
    uint32_t oldest;
};

/* classes: of the model.  has_all: every sample is here.  The set belongs to the store. */
int data_find(struct data_store *store, const struct body_set *want, const char *dir,
              uint32_t classes, struct nn_dataset **out, bool *has_all);
void data_store_close(struct data_store *store);

#endif
