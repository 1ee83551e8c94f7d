/* SPDX-License-Identifier: MIT */
/*
 * Every gradient of the library, as built and optimised, against central differences of a
 * reference network in double.
 */
#include "nn/nn.h"

#include "reference.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_MAX = 33, PARAMETERS_MAX = 4096 };

struct rig {
    struct nn_model *model;
    struct nn_scratch *scratch;
    float *weights, *gradient, *x;
    uint32_t labels[BATCH_MAX];
};

static float draw(uint64_t seed, uint64_t idx)
{
    uint32_t words[4];

    nn_philox(seed, idx, 0, words);
    return (float)(int32_t)words[0] * 0x1p-31f;
}

static void rig_open(struct rig *rig, const struct ref_net *net, size_t batch, uint64_t seed)
{
    char json[1024];
    struct nn_error error = {.text = ""};

    ck_assert_msg(nn_blas_open(NULL, &error) == 0, "%s", error.text);
    nn_thread_init();
    ref_json(net, json, sizeof json);
    ck_assert_msg(nn_model_open(&rig->model, json, strlen(json), &error) == 0, "%s: %s", error.key,
                  error.text);
    size_t parameters = nn_model_parameters(rig->model);
    ck_assert_uint_eq(parameters, ref_parameters(net));
    ck_assert_int_eq(nn_scratch_open(&rig->scratch, rig->model, batch), 0);
    rig->weights = nn_floats(parameters);
    rig->gradient = nn_floats(parameters);
    rig->x = nn_floats(batch * net->inputs);
    for (size_t i = 0; i < parameters; i++) {
        rig->weights[i] = 0.8f * draw(seed, i);
        rig->gradient[i] = 1e9f; /* what was there must not matter */
    }
    for (size_t i = 0; i < batch * net->inputs; i++)
        rig->x[i] = 2.0f * draw(seed + 1, i);
    for (size_t i = 0; i < batch; i++)
        rig->labels[i] = (uint32_t)((i * 7 + seed) % ref_outputs(net));
}

static void rig_close(struct rig *rig)
{
    nn_scratch_free(rig->scratch);
    nn_model_free(rig->model);
    nn_floats_free(rig->weights);
    nn_floats_free(rig->gradient);
    nn_floats_free(rig->x);
}

static double total(const struct ref_net *net, const double *weights, const struct rig *rig,
                    size_t batch)
{
    double sum = 0.0;

    for (size_t i = 0; i < batch; i++)
        sum += ref_loss(net, weights, rig->x + i * net->inputs, rig->labels[i]);
    return sum;
}

/* Entry idx.  The step is so small that only by chance would it cross a kink of relu, and the
 * seeds are fixed. */
static double difference(const struct ref_net *net, double *weights, size_t idx,
                         const struct rig *rig, size_t batch)
{
    const double step = 1e-5;
    double here = weights[idx];

    weights[idx] = here + step;
    double above = total(net, weights, rig, batch);
    weights[idx] = here - step;
    double below = total(net, weights, rig, batch);
    weights[idx] = here;
    return (above - below) / (2.0 * step);
}

static void check_net(const struct ref_net *net, size_t batch, uint64_t seed)
{
    struct rig rig;
    struct nn_result result, evaluated;
    static double weights[PARAMETERS_MAX];

    rig_open(&rig, net, batch, seed);
    size_t parameters = nn_model_parameters(rig.model);
    ck_assert_uint_le(parameters, PARAMETERS_MAX);
    for (size_t i = 0; i < parameters; i++)
        weights[i] = (double)rig.weights[i];
    const struct nn_batch leaf = {.x = rig.x, .labels = rig.labels, .count = batch};
    nn_gradient(rig.scratch, rig.weights, &leaf, rig.gradient, &result);
    double loss = total(net, weights, &rig, batch);
    ck_assert_double_eq_tol(result.loss, loss, 2e-6 * (double)batch + 2e-6 * fabs(loss));
    ck_assert_uint_eq(result.count, batch);
    ck_assert(result.finite);
    for (size_t i = 0; i < parameters; i++) {
        double expected = difference(net, weights, i, &rig, batch);
        double tolerance = 3e-5 + 1e-4 * fabs(expected);
        ck_assert_msg(fabs((double)rig.gradient[i] - expected) <= tolerance,
                      "seed %llu batch %zu parameter %zu: %.8g, by differences %.8g",
                      (unsigned long long)seed, batch, i, (double)rig.gradient[i], expected);
    }
    nn_evaluate(rig.scratch, rig.weights, &leaf, &evaluated);
    ck_assert_double_eq(evaluated.loss, result.loss);
    ck_assert_uint_eq(evaluated.correct, result.correct);
    rig_close(&rig);
}

/* Each op alone and in company, odd shapes, a single sample among them. */
START_TEST(gradient__every_op_against_differences)
{
    static const struct ref_net nets[] = {
        {.inputs = 5, .layers = {{'d', 3}}, .count = 1, .loss = 'c'},
        {.inputs = 5, .layers = {{'n', 3}}, .count = 1, .loss = 'm'},
        {.inputs = 7, .layers = {{'d', 5}, {'r', 0}, {'d', 3}}, .count = 3, .loss = 'c'},
        {.inputs = 7, .layers = {{'d', 5}, {'s', 0}, {'d', 3}}, .count = 3, .loss = 'c'},
        {.inputs = 7, .layers = {{'d', 5}, {'t', 0}, {'d', 3}}, .count = 3, .loss = 'c'},
        {.inputs = 7, .layers = {{'d', 5}, {'r', 0}, {'n', 3}, {'s', 0}}, .count = 4, .loss = 'm'},
        {.inputs = 1, .layers = {{'d', 1}, {'t', 0}, {'d', 2}}, .count = 3, .loss = 'c'},
        {.inputs = 3,
         .layers = {{'t', 0}, {'d', 4}, {'s', 0}, {'t', 0}, {'d', 2}},
         .count = 5,
         .loss = 'c'},
        {.inputs = 3,
         .layers = {{'r', 0}, {'s', 0}, {'d', 4}, {'d', 3}, {'r', 0}, {'r', 0}},
         .count = 6,
         .loss = 'm'},
        {.inputs = 19,
         .layers = {{'d', 17}, {'s', 0}, {'d', 13}, {'t', 0}, {'d', 11}, {'r', 0}, {'d', 10}},
         .count = 7,
         .loss = 'c'},
    };
    static const size_t batches[] = {1, 2, 5, 33};

    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        for (size_t j = 0; j < sizeof batches / sizeof batches[0]; j++)
            check_net(&nets[i], batches[j], 100 * i + j);
    }
}
END_TEST

/* Networks drawn at random; the seed that fails is in the message. */
START_TEST(gradient__random_networks)
{
    for (uint64_t seed = 1000; seed < 1030; seed++) {
        struct ref_net net = {.loss = (seed & 1) != 0 ? 'c' : 'm'};
        uint32_t words[4];
        nn_philox(seed, 0, 1, words);
        net.inputs = 1 + words[0] % 23;
        net.count = 2 + words[1] % 5;
        for (size_t i = 0; i < net.count; i++) {
            nn_philox(seed, i + 1, 1, words);
            net.layers[i].kind = "ddnrst"[words[0] % 6];
            net.layers[i].units = 2 + words[1] % 15;
        }
        net.layers[net.count - 1] = (struct ref_layer){.kind = 'd', .units = 2 + words[2] % 9};
        check_net(&net, 1 + words[3] % BATCH_MAX, seed);
    }
}
END_TEST

static const struct ref_net small = {
    .inputs = 6, .layers = {{'d', 9}, {'r', 0}, {'d', 4}}, .count = 3, .loss = 'c'};

START_TEST(gradient__is_the_sum_over_samples)
{
    struct rig rig;
    struct nn_result result;
    double sum[PARAMETERS_MAX] = {0};
    double loss = 0.0;
    uint64_t correct = 0;

    rig_open(&rig, &small, BATCH_MAX, 5);
    size_t parameters = nn_model_parameters(rig.model);
    for (size_t i = 0; i < BATCH_MAX; i++) {
        const struct nn_batch one = {
            .x = rig.x + i * small.inputs, .labels = rig.labels + i, .count = 1};
        nn_gradient(rig.scratch, rig.weights, &one, rig.gradient, &result);
        for (size_t j = 0; j < parameters; j++)
            sum[j] += (double)rig.gradient[j];
        loss += result.loss;
        correct += result.correct;
    }
    const struct nn_batch all = {.x = rig.x, .labels = rig.labels, .count = BATCH_MAX};
    nn_gradient(rig.scratch, rig.weights, &all, rig.gradient, &result);
    for (size_t j = 0; j < parameters; j++)
        ck_assert_double_eq_tol((double)rig.gradient[j], sum[j], 1e-5);
    ck_assert_double_eq_tol(result.loss, loss, 1e-5);
    ck_assert_uint_eq(result.correct, correct);
    ck_assert_uint_gt(correct, 0);
    ck_assert_uint_lt(correct, BATCH_MAX);
    rig_close(&rig);
}
END_TEST

/* Equal outputs: the first counts. */
START_TEST(gradient__first_of_equals_is_the_answer)
{
    struct rig rig;
    struct nn_result result;

    rig_open(&rig, &small, 4, 1);
    memset(rig.weights, 0, nn_model_parameters(rig.model) * sizeof *rig.weights);
    for (uint32_t label = 0; label < 4; label++) {
        for (int i = 0; i < 4; i++)
            rig.labels[i] = label;
        nn_evaluate(rig.scratch, rig.weights,
                    &(struct nn_batch){.x = rig.x, .labels = rig.labels, .count = 4}, &result);
        ck_assert_uint_eq(result.correct, label == 0 ? 4 : 0);
        ck_assert_double_eq_tol(result.loss, 4.0 * log(4.0), 1e-12);
    }
    rig_close(&rig);
}
END_TEST

static bool is_finite_with(struct rig *rig, float *place, float value)
{
    const struct nn_batch batch = {.x = rig->x, .labels = rig->labels, .count = 5};
    struct nn_result result;
    float before = *place;

    *place = value;
    nn_gradient(rig->scratch, rig->weights, &batch, rig->gradient, &result);
    *place = before;
    return result.finite;
}

START_TEST(gradient__tells_what_is_not_finite)
{
    struct rig rig;

    rig_open(&rig, &small, 5, 3);
    ck_assert(is_finite_with(&rig, &rig.x[0], 0.5f));
    for (size_t i = 0; i < 5 * small.inputs; i++) {
        ck_assert(!is_finite_with(&rig, &rig.x[i], NAN));
        ck_assert(!is_finite_with(&rig, &rig.x[i], INFINITY));
    }
    for (size_t i = 0; i < nn_model_parameters(rig.model); i++) {
        ck_assert(!is_finite_with(&rig, &rig.weights[i], NAN));
        ck_assert(is_finite_with(&rig, &rig.weights[i], 3.0f));
    }
    rig_close(&rig);
}
END_TEST

START_TEST(gradient__evaluation_tells_it_too)
{
    struct rig rig;
    struct nn_result result;

    rig_open(&rig, &small, 5, 3);
    const struct nn_batch batch = {.x = rig.x, .labels = rig.labels, .count = 5};
    nn_evaluate(rig.scratch, rig.weights, &batch, &result);
    ck_assert(result.finite);
    rig.weights[0] = INFINITY;
    nn_evaluate(rig.scratch, rig.weights, &batch, &result);
    ck_assert(!result.finite);
    rig_close(&rig);
}
END_TEST

/* Outputs, loss and deltas are finite, and only the product of the last step is not. */
START_TEST(gradient__overflow_of_the_weight_gradient_is_seen)
{
    static const struct ref_net net = {.inputs = 1, .layers = {{'n', 2}}, .count = 1, .loss = 'm'};
    struct rig rig;
    struct nn_result result;

    rig_open(&rig, &net, 2, 3);
    rig.labels[0] = rig.labels[1] = 0;
    rig.x[0] = rig.x[1] = FLT_MAX / 4.0f;
    rig.weights[0] = rig.weights[1] = 16.0f / (FLT_MAX / 4.0f);
    const struct nn_batch batch = {.x = rig.x, .labels = rig.labels, .count = 2};
    nn_evaluate(rig.scratch, rig.weights, &batch, &result);
    ck_assert(result.finite);
    nn_gradient(rig.scratch, rig.weights, &batch, rig.gradient, &result);
    ck_assert(isinf(rig.gradient[0]));
    ck_assert(!result.finite);
    /* Large and still finite: the bound does not settle it, the gradient itself does. */
    rig.x[0] = FLT_MAX / 8.0f;
    rig.x[1] = -rig.x[0];
    rig.weights[0] = rig.weights[1] = 0.0f;
    nn_gradient(rig.scratch, rig.weights, &batch, rig.gradient, &result);
    ck_assert(result.finite);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        gradient__every_op_against_differences,
        gradient__random_networks,
        gradient__is_the_sum_over_samples,
        gradient__first_of_equals_is_the_answer,
        gradient__tells_what_is_not_finite,
        gradient__evaluation_tells_it_too,
        gradient__overflow_of_the_weight_gradient_is_seen,
    };

    return RUN_SUITE("gradient", tests);
}
