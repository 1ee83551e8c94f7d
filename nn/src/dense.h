/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_DENSE_H
#define NN_SRC_DENSE_H

/* y = act(x W' + b): one product, then bias and activation while y is in the cache. */
#include "model.h"

void dense_forward(const struct layer *layer, const float *weights, const float *x, size_t batch,
                   float *y);

struct dense_backward {
    size_t batch;
    const float *x; /* (batch, inputs) */
    const float *y; /* (batch, outputs) */
    float *dy;      /* (batch, outputs); destroyed */
    float *dx;      /* (batch, inputs), written; NULL: nobody needs it */
};

/* Writes this layer's part of grad: sums over the batch.  False if it is not finite. */
bool dense_backward(const struct layer *layer, const float *weights,
                    const struct dense_backward *pass, float *grad);

#endif
