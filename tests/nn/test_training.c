/* SPDX-License-Identifier: MIT */
/* The pieces together: a network learns, with every optimiser, to the same bits each time. */
#include "nn/nn.h"

#include "suite.h"

#include <string.h>

enum { SAMPLES = 64, INPUTS = 8, CLASSES = 4, STEPS = 300 };

/* Which quadrant the first two inputs lie in; the others are noise.  No linear model can tell. */
static void make_samples(float *x, uint32_t *labels)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        for (size_t j = 0; j < INPUTS; j++) {
            uint32_t words[4];
            nn_philox(77, i, j, words);
            x[i * INPUTS + j] = (float)(int32_t)words[0] * 0x1p-31f;
        }
        labels[i] = (x[i * INPUTS] > 0.0f ? 1u : 0u) ^ (x[i * INPUTS + 1] > 0.0f ? 3u : 0u);
    }
}

/* Trains on all samples as one leaf; the last result is returned. */
static struct nn_result train(const char *json, const struct nn_optim *optim, char hash[17])
{
    struct nn_model *model;
    struct nn_scratch *scratch;
    struct nn_error error = {.text = ""};
    uint32_t labels[SAMPLES];
    struct nn_result result;

    ck_assert_msg(nn_blas_open(NULL, &error) == 0, "%s", error.text);
    nn_thread_init();
    ck_assert_msg(nn_model_open(&model, json, strlen(json), &error) == 0, "%s", error.text);
    size_t count = nn_model_parameters(model);
    float *x = nn_floats((size_t)SAMPLES * INPUTS);
    float *weights = nn_floats(count);
    float *gradient = nn_floats(count);
    float *state = nn_floats(nn_optim_vectors(optim) * count);
    ck_assert_int_eq(nn_scratch_open(&scratch, model, SAMPLES), 0);
    make_samples(x, labels);
    nn_model_init(model, 1, weights);
    const struct nn_batch batch = {.x = x, .labels = labels, .count = SAMPLES};
    for (uint64_t step = 1; step <= STEPS; step++) {
        nn_gradient(scratch, weights, &batch, gradient, &result);
        ck_assert(result.finite);
        nn_optim_apply(optim, step, SAMPLES, count, weights, gradient, state);
    }
    nn_weights_hash(weights, count, hash);
    nn_scratch_free(scratch);
    nn_model_free(model);
    nn_floats_free(x);
    nn_floats_free(weights);
    nn_floats_free(gradient);
    nn_floats_free(state);
    return result;
}

static const struct nn_optim optims[] = {
    {.kind = NN_SGD, .lr = 1.0},
    {.kind = NN_MOMENTUM, .lr = 0.2, .momentum = 0.9},
    {.kind = NN_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
};

START_TEST(training__learns_with_every_optimiser_and_activation)
{
    static const char *const models[] = {
        "{\"input\":[8],\"layers\":[{\"dense\":64},\"relu\",{\"dense\":4}],"
        "\"loss\":\"cross_entropy\"}",
        "{\"input\":[8],\"layers\":[{\"dense\":64},\"tanh\",{\"dense\":4}],"
        "\"loss\":\"cross_entropy\"}",
        "{\"input\":[8],\"layers\":[{\"dense\":64},\"tanh\",{\"dense\":4}],\"loss\":\"mse\"}",
    };

    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        for (size_t j = 0; j < sizeof optims / sizeof optims[0]; j++) {
            char first[17], second[17];
            struct nn_result result = train(models[i], &optims[j], first);
            ck_assert_msg(result.correct >= SAMPLES - 2, "model %zu optimiser %zu: %u of %d", i, j,
                          (unsigned)result.correct, SAMPLES);
            train(models[i], &optims[j], second);
            ck_assert_str_eq(first, second);
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {training__learns_with_every_optimiser_and_activation};

    return RUN_SUITE("training", tests);
}
