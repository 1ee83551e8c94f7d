/* SPDX-License-Identifier: MIT */
#ifndef NN_TABLE_H
#define NN_TABLE_H

/*
 * The JSON header of a safetensors file: which tensor lies where.  Parsing trusts nothing: the
 * header of a file somebody sent must not make us read or allocate beyond its own size.
 */

#include "nn/nn.h"

struct table {
    struct nn_tensor *tensors; /* in the order of their data */
    uint32_t count;
    size_t floats; /* of all tensors */
};

/* Parses len bytes of JSON that describe data_len bytes of data.  The tensors must be f32 and
 * cover the data exactly.  NN_EFORMAT: error names path and tensor.  Release with table_fini. */
int table_parse(struct table *out, const char *json, size_t len, uint64_t data_len,
                const char *path, struct nn_error *error);
void table_fini(struct table *table);

/* NULL when there is none of that name. */
const struct nn_tensor *table_find(const struct table *table, const char *name);

#endif
