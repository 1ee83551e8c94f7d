/* SPDX-License-Identifier: MIT */
#include "loss.h"

#include "elementary.h"

#include <assert.h>
#include <math.h>

static size_t arg_max(const float *row, size_t classes)
{
    size_t best = 0;

    for (size_t j = 1; j < classes; j++) {
        if (row[j] > row[best])
            best = j;
    }
    return best;
}

/* log sum exp(z) - z[label], with the largest taken out so that nothing overflows. */
static double cross_entropy(const struct loss_input *in, float *delta)
{
    const size_t classes = in->classes;
    double loss = 0.0;

    for (size_t i = 0; i < in->count; i++) {
        const float *row = in->output + i * classes;
        float largest = row[arg_max(row, classes)];
        for (size_t j = 0; j < classes; j++)
            delta[i * classes + j] = row[j] - largest;
    }
    kernels_best()->exponential(delta, in->count * classes);
    for (size_t i = 0; i < in->count; i++) {
        const float *row = in->output + i * classes;
        float *out = delta + i * classes;
        double sum = 0.0;
        for (size_t j = 0; j < classes; j++)
            sum += (double)out[j];
        float inverse = (float)(1.0 / sum);
        for (size_t j = 0; j < classes; j++)
            out[j] *= inverse;
        double margin = (double)row[arg_max(row, classes)] - (double)row[in->labels[i]];
        loss += elementary_log(sum) + margin;
        out[in->labels[i]] -= 1.0f;
    }
    return loss;
}

static double mean_square(const struct loss_input *in, float *delta)
{
    const size_t classes = in->classes;
    float scale = (float)(2.0 / (double)classes);
    double loss = 0.0;

    for (size_t i = 0; i < in->count; i++) {
        const float *row = in->output + i * classes;
        float *out = delta + i * classes;
        double sum = 0.0;
        for (size_t j = 0; j < classes; j++) {
            float distance = row[j] - (j == in->labels[i] ? 1.0f : 0.0f);
            out[j] = scale * distance;
            sum += (double)distance * (double)distance;
        }
        loss += sum / (double)classes;
    }
    return loss;
}

void loss_gradient(enum loss_kind kind, const struct loss_input *input, float *delta,
                   struct nn_result *result)
{
    struct nn_result r = {.count = input->count};

    for (size_t i = 0; i < input->count; i++) {
        assert(input->labels[i] < input->classes);
        if (arg_max(input->output + i * input->classes, input->classes) == input->labels[i])
            r.correct++;
    }
    switch (kind) {
    case LOSS_CROSS_ENTROPY:
        r.loss = cross_entropy(input, delta);
        break;
    case LOSS_MSE:
        r.loss = mean_square(input, delta);
        break;
    }
    r.finite = isfinite(r.loss);
    *result = r;
}
