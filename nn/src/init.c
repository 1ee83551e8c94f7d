/* SPDX-License-Identifier: MIT */
/* Kaiming (He et al. 2015, fan-in, gain sqrt 2) and Xavier (Glorot and Bengio 2010) from Philox. */
#include "init.h"

#include "elementary.h"
#include "model.h"

#include <assert.h>
#include <string.h>

enum { WORDS = 4 };

/* Philox counters are shared by all uses of randomness in a run; this one is initialisation. */
static const uint64_t purpose_init = (uint64_t)1 << 32;

static void draw(const struct init_stream *stream, size_t block, uint32_t words[WORDS])
{
    nn_philox(stream->seed, (uint64_t)block, purpose_init | stream->tensor, words);
}

/* In (0, 1): a logarithm is taken of it. */
static double open_unit(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

/* Box and Muller: two words make two normal numbers. */
static void normal_pair(const uint32_t words[2], double out[2])
{
    double radius = __builtin_sqrt(-2.0 * elementary_log(open_unit(words[0])));
    double sine, cosine;

    elementary_sincos((double)words[1] * 0x1p-32, &sine, &cosine);
    out[0] = radius * cosine;
    out[1] = radius * sine;
}

void init_normal(const struct init_stream *stream, double deviation, float *out, size_t count)
{
    for (size_t i = 0; i < count; i += WORDS) {
        uint32_t words[WORDS];
        double values[WORDS];
        draw(stream, i / WORDS, words);
        normal_pair(words, values);
        normal_pair(words + 2, values + 2);
        for (size_t j = 0; j < WORDS && i + j < count; j++)
            out[i + j] = (float)(deviation * values[j]);
    }
}

void init_uniform(const struct init_stream *stream, double limit, float *out, size_t count)
{
    for (size_t i = 0; i < count; i += WORDS) {
        uint32_t words[WORDS];
        draw(stream, i / WORDS, words);
        for (size_t j = 0; j < WORDS && i + j < count; j++)
            out[i + j] = (float)(limit * ((double)words[j] * 0x1p-31 - 1.0));
    }
}

void nn_model_init(const struct nn_model *model, uint64_t seed, float *weights)
{
    uint32_t tensor = 0;

    for (uint32_t i = 0; i < model->count; i++) {
        const struct layer *layer = &model->layers[i];
        if (layer->kind != LAYER_DENSE)
            continue;
        struct init_stream stream = {.seed = seed, .tensor = tensor++};
        double fan_in = (double)layer->inputs;
        double fans = fan_in + (double)layer->outputs;
        size_t count = layer->inputs * layer->outputs;
        if (layer->init == INIT_KAIMING)
            init_normal(&stream, __builtin_sqrt(2.0 / fan_in), weights + layer->weight, count);
        else
            init_uniform(&stream, __builtin_sqrt(6.0 / fans), weights + layer->weight, count);
        if (layer->has_bias)
            memset(weights + layer->bias, 0, layer->outputs * sizeof(float));
    }
}
