/* SPDX-License-Identifier: MIT */
/*
 * The build compiles this file once for each instruction set, with KERNELS naming the table and
 * always optimised and without contraction of a * b + c.
 */
#include "kernels.h"

#include "approx.h"

#define NAME_OF(x)   #x
#define STRING_OF(x) NAME_OF(x)

static inline float relu(float x)
{
    /* A NaN stays one: it must reach the loss and be seen. */
    return x < 0.0f ? 0.0f : x;
}

static inline float identity(float x)
{
    return x;
}

/* One loop for each activation, so that the call inside it becomes vector code. */
#define FORWARD(function, act)                                                                     \
    static void function(float *restrict y, const float *restrict bias, size_t rows, size_t cols)  \
    {                                                                                              \
        if (bias == NULL) {                                                                        \
            for (size_t i = 0; i < rows * cols; i++)                                               \
                y[i] = act(y[i]);                                                                  \
            return;                                                                                \
        }                                                                                          \
        for (size_t i = 0; i < rows; i++) {                                                        \
            float *restrict row = y + i * cols;                                                    \
            for (size_t j = 0; j < cols; j++)                                                      \
                row[j] = act(row[j] + bias[j]);                                                    \
        }                                                                                          \
    }

FORWARD(forward_none, identity)
FORWARD(forward_relu, relu)
FORWARD(forward_sigmoid, approx_sigmoid)
FORWARD(forward_tanh, approx_tanh)

/* NOLINTNEXTLINE(readability-non-const-parameter): one signature for all in the table */
static void backward_none(float *restrict dy, const float *restrict y, size_t count)
{
    (void)dy;
    (void)y;
    (void)count;
}

static void backward_relu(float *restrict dy, const float *restrict y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

static void backward_sigmoid(float *restrict dy, const float *restrict y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

static void backward_tanh(float *restrict dy, const float *restrict y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = dy[i] * (1.0f - y[i] * y[i]);
}

static void column_sum(float *restrict sum, const float *restrict m, size_t rows, size_t cols)
{
    for (size_t j = 0; j < cols; j++)
        sum[j] = 0.0f;
    for (size_t i = 0; i < rows; i++) {
        const float *restrict row = m + i * cols;
        for (size_t j = 0; j < cols; j++)
            sum[j] += row[j];
    }
}

static uint32_t magnitude(const float *x, size_t count)
{
    uint32_t largest = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_of_float(x[i]) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

static void exponential(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = approx_exp(x[i]);
}

static void sgd(const struct step_sgd *step, size_t count, float *restrict w,
                const float *restrict g)
{
    const struct step_sgd s = *step;

    for (size_t i = 0; i < count; i++) {
        float gradient = g[i] * s.gradient_scale + s.decay * w[i];
        w[i] = w[i] - s.lr * gradient;
    }
}

static void momentum(const struct step_sgd *step, size_t count, float *restrict w,
                     const float *restrict g, float *restrict velocity)
{
    const struct step_sgd s = *step;

    for (size_t i = 0; i < count; i++) {
        float gradient = g[i] * s.gradient_scale + s.decay * w[i];
        velocity[i] = s.momentum * velocity[i] + gradient;
        w[i] = w[i] - s.lr * velocity[i];
    }
}

static inline float square_root(float x)
{
    return __builtin_sqrtf(x);
}

static void adam(const struct step_adam *step, size_t count, float *restrict w,
                 const float *restrict g, float *moments)
{
    const struct step_adam s = *step;
    float *restrict first = moments;
    float *restrict second = moments + count;

    for (size_t i = 0; i < count; i++) {
        float gradient = g[i] * s.gradient_scale + s.decay * w[i];
        first[i] = s.beta1 * first[i] + s.rest1 * gradient;
        second[i] = s.beta2 * second[i] + s.rest2 * (gradient * gradient);
        float denominator = square_root(second[i]) / s.root_bias_correction + s.epsilon;
        w[i] = w[i] - s.step_size * (first[i] / denominator);
    }
}

const struct kernels KERNELS = {
    .name = STRING_OF(KERNELS),
    .forward = {forward_none, forward_relu, forward_sigmoid, forward_tanh},
    .backward = {backward_none, backward_relu, backward_sigmoid, backward_tanh},
    .column_sum = column_sum,
    .magnitude = magnitude,
    .exponential = exponential,
    .sgd = sgd,
    .momentum = momentum,
    .adam = adam,
};
