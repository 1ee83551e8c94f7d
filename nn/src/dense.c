/* SPDX-License-Identifier: MIT */
#include "dense.h"

#include "gemm.h"

#include <float.h>
#include <string.h>

void dense_forward(const struct layer *layer, const float *weights, const float *x, size_t batch,
                   float *y)
{
    const struct gemm product = {
        .m = batch, .n = layer->outputs, .k = layer->inputs, .transpose_b = true};

    gemm(&product, x, weights + layer->weight, y);
    kernels_best()->forward[layer->activation](y, layer->has_bias ? weights + layer->bias : NULL,
                                               batch, layer->outputs);
}

static double largest(const float *x, size_t count)
{
    uint32_t bits = kernels_best()->magnitude(x, count);
    float value;

    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static bool all_finite(const float *x, size_t count)
{
    return kernels_best()->magnitude(x, count) < INFINITY_BITS;
}

/*
 * The gradient is much larger than what it is computed from, so it is looked at only when a bound
 * on its entries, batch max|dy| max|x|, does not settle the matter.
 */
static bool is_finite(const struct layer *layer, const struct dense_backward *pass,
                      const float *grad)
{
    double dy = largest(pass->dy, pass->batch * layer->outputs);
    double x = largest(pass->x, pass->batch * layer->inputs);
    double bound = (double)pass->batch * dy * (x > 1.0 ? x : 1.0);

    /* Half of the range leaves room for rounding; a NaN fails the comparison. */
    if (bound < (double)FLT_MAX / 2.0)
        return true;
    return all_finite(grad + layer->weight, layer->inputs * layer->outputs) &&
           (!layer->has_bias || all_finite(grad + layer->bias, layer->outputs));
}

bool dense_backward(const struct layer *layer, const float *weights,
                    const struct dense_backward *pass, float *grad)
{
    const struct kernels *kernels = kernels_best();
    const struct gemm for_weight = {
        .m = layer->outputs, .n = layer->inputs, .k = pass->batch, .transpose_a = true};
    const struct gemm for_input = {.m = pass->batch, .n = layer->inputs, .k = layer->outputs};

    kernels->backward[layer->activation](pass->dy, pass->y, pass->batch * layer->outputs);
    gemm(&for_weight, pass->dy, pass->x, grad + layer->weight);
    if (layer->has_bias)
        kernels->column_sum(grad + layer->bias, pass->dy, pass->batch, layer->outputs);
    if (pass->dx != NULL)
        gemm(&for_input, pass->dy, weights + layer->weight, pass->dx);
    return is_finite(layer, pass, grad);
}
