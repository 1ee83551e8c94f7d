/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_ACTIVATION_H
#define NN_SRC_ACTIVATION_H

/* An activation that no dense layer carries along: behind another one, or at the input. */
#include "model.h"

void activation_forward(const struct layer *layer, const float *x, size_t batch, float *y);

/* dy (batch, outputs) becomes dx in place. */
void activation_backward(const struct layer *layer, const float *y, size_t batch, float *dy);

#endif
