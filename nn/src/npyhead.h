/* SPDX-License-Identifier: MIT */
#ifndef NN_NPYHEAD_H
#define NN_NPYHEAD_H

/*
 * What the header of a .npy file says of its elements.
 */

#include "nn/nn.h"

struct npy {
    size_t rows, cols; /* both at least 1; one dimension is a row */
    size_t item;       /* bytes of an element: 4 or 8 */
    bool fortran;      /* columns one after the other */
};

/* text ends with NUL.  NN_EFORMAT: error names path and what is allowed. */
int npyhead_parse(struct npy *out, const char *text, const char *path, struct nn_error *error);

#endif
