/* SPDX-License-Identifier: MIT */
#include "activation.h"

#include <string.h>

void activation_forward(const struct layer *layer, const float *x, size_t batch, float *y)
{
    memcpy(y, x, batch * layer->outputs * sizeof *y);
    kernels_best()->forward[layer->activation](y, NULL, batch, layer->outputs);
}

void activation_backward(const struct layer *layer, const float *y, size_t batch, float *dy)
{
    kernels_best()->backward[layer->activation](dy, y, batch * layer->outputs);
}
