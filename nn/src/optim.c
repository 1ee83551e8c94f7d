/* SPDX-License-Identifier: MIT */
/*
 * Optimisers with PyTorch's formulas.  All that depends on the step alone is computed here in
 * double and rounded once; the loops over the parameters live in kernels.c.
 */
#include "kernels.h"
#include "nn/nn.h"

#include <assert.h>

uint32_t nn_optim_vectors(const struct nn_optim *optim)
{
    switch (optim->kind) {
    case NN_SGD:
        return 0;
    case NN_MOMENTUM:
        return 1;
    case NN_ADAM:
        return 2;
    }
    assert(false);
    return 0;
}

/* By squaring: libm's pow may round differently in another version. */
static double power(double base, uint64_t exponent)
{
    double result = 1.0;

    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1)
            result *= base;
        base *= base;
    }
    return result;
}

/* The learning rate of a step. */
static double rate_at(const struct nn_optim *optim, uint64_t step)
{
    if (optim->rate == NN_RATE_CONSTANT)
        return optim->lr;
    assert(step <= optim->steps);
    return optim->lr * ((double)(optim->steps - step + 1) / (double)optim->steps);
}

static struct step_adam adam_step(const struct nn_optim *optim, uint64_t step, double scale)
{
    double correction1 = 1.0 - power(optim->beta1, step);
    double correction2 = 1.0 - power(optim->beta2, step);

    return (struct step_adam){.gradient_scale = (float)scale,
                              .decay = (float)optim->weight_decay,
                              .beta1 = (float)optim->beta1,
                              .rest1 = (float)(1.0 - optim->beta1),
                              .beta2 = (float)optim->beta2,
                              .rest2 = (float)(1.0 - optim->beta2),
                              .step_size = (float)(rate_at(optim, step) / correction1),
                              .root_bias_correction = (float)__builtin_sqrt(correction2),
                              .epsilon = (float)optim->epsilon};
}

/* NOLINTNEXTLINE(readability-function-size): seven arguments, as in the public header. */
void nn_optim_apply(const struct nn_optim *optim, uint64_t step, uint64_t samples, size_t count,
                    float *weights, const float *grad_sum, float *state)
{
    assert(step >= 1);
    assert(samples >= 1);
    assert(state != NULL || nn_optim_vectors(optim) == 0);

    const struct kernels *kernels = kernels_best();
    double scale = 1.0 / (double)samples;
    struct step_sgd sgd = {.gradient_scale = (float)scale,
                           .decay = (float)optim->weight_decay,
                           .lr = (float)rate_at(optim, step),
                           .momentum = (float)optim->momentum};

    switch (optim->kind) {
    case NN_SGD:
        kernels->sgd(&sgd, count, weights, grad_sum);
        break;
    case NN_MOMENTUM:
        kernels->momentum(&sgd, count, weights, grad_sum, state);
        break;
    case NN_ADAM: {
        struct step_adam adam = adam_step(optim, step, scale);
        kernels->adam(&adam, count, weights, grad_sum, state);
        break;
    }
    }
}
