/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_LOSS_H
#define NN_SRC_LOSS_H

/*
 * The end of the forward and the start of the backward pass.
 *
 * cross_entropy: -log softmax(output)[label].  mse: the mean over the outputs of the squared
 * distance to the one-hot label.  Both are summed over the samples, in order, in double.
 */
#include "model.h"

struct loss_input {
    const float *output; /* (count, classes) */
    const uint32_t *labels;
    size_t count, classes;
};

/* Fills loss, correct and count; finite tells of the loss alone.  delta (count, classes) is the
 * gradient by the output, of the sum.  It may not overlap the output. */
void loss_gradient(enum loss_kind kind, const struct loss_input *input, float *delta,
                   struct nn_result *result);

#endif
