/* SPDX-License-Identifier: MIT */
#include "nn/src/init.h"

#include "nn/nn.h"
#include "suite.h"

#include <math.h>
#include <string.h>

enum { COUNT = 100000 };

struct moments {
    double mean, deviation, largest;
};

static struct moments measure(const float *x, size_t count)
{
    struct moments m = {0};

    for (size_t i = 0; i < count; i++) {
        m.mean += (double)x[i];
        m.deviation += (double)x[i] * (double)x[i];
        m.largest = fmax(m.largest, fabs((double)x[i]));
    }
    m.mean /= (double)count;
    m.deviation = sqrt(m.deviation / (double)count - m.mean * m.mean);
    return m;
}

static struct nn_model *open_model(const char *json)
{
    struct nn_model *model;
    struct nn_error error = {.text = ""};

    ck_assert_msg(nn_model_open(&model, json, strlen(json), &error) == 0, "%s", error.text);
    return model;
}

START_TEST(init__normal_has_its_moments)
{
    static float x[COUNT];

    init_normal(&(struct init_stream){.seed = 1}, 0.5, x, COUNT);
    struct moments m = measure(x, COUNT);
    ck_assert_double_eq_tol(m.mean, 0.0, 0.005);
    ck_assert_double_eq_tol(m.deviation, 0.5, 0.005);
    size_t within = 0;
    for (size_t i = 0; i < COUNT; i++)
        within += fabsf(x[i]) < 0.5f; /* 68.27 % of a normal distribution */
    ck_assert_double_eq_tol((double)within / COUNT, 0.6827, 0.005);
    ck_assert_double_gt(m.largest, 4.0 * 0.5 * 0.95);
}
END_TEST

START_TEST(init__uniform_fills_its_interval)
{
    static float x[COUNT];

    init_uniform(&(struct init_stream){.seed = 1}, 0.25, x, COUNT);
    struct moments m = measure(x, COUNT);
    ck_assert_double_eq_tol(m.mean, 0.0, 0.003);
    ck_assert_double_eq_tol(m.deviation, 0.25 / sqrt(3.0), 0.002);
    ck_assert_double_le(m.largest, 0.25);
    ck_assert_double_gt(m.largest, 0.2499);
}
END_TEST

/* A longer tensor begins with a shorter one: values depend on their index alone. */
START_TEST(init__prefixes_agree)
{
    float shorter[7], longer[64];

    init_normal(&(struct init_stream){.seed = 9, .tensor = 2}, 1.0, shorter, 7);
    init_normal(&(struct init_stream){.seed = 9, .tensor = 2}, 1.0, longer, 64);
    ck_assert_mem_eq(shorter, longer, sizeof shorter);
    init_normal(&(struct init_stream){.seed = 9, .tensor = 3}, 1.0, longer, 64);
    ck_assert_mem_ne(shorter, longer, sizeof shorter);
}
END_TEST

START_TEST(init__kaiming_before_relu_else_xavier)
{
    struct nn_model *model =
        open_model("{\"input\":[400],\"layers\":[{\"dense\":300},\"relu\",{\"dense\":200},\"tanh\","
                   "{\"dense\":100,\"init\":\"kaiming\"}],\"loss\":\"mse\"}");
    float *weights = nn_floats(nn_model_parameters(model));

    for (size_t i = 0; i < nn_model_parameters(model); i++)
        weights[i] = 7.0f; /* what was there must not matter */
    nn_model_init(model, 3, weights);
    struct nn_tensor first = nn_model_tensor(model, 0);
    struct nn_tensor second = nn_model_tensor(model, 2);
    struct nn_tensor third = nn_model_tensor(model, 4);
    ck_assert_double_eq_tol(measure(weights + first.offset, first.count).deviation,
                            sqrt(2.0 / 400.0), 0.001);
    struct moments xavier = measure(weights + second.offset, second.count);
    ck_assert_double_eq_tol(xavier.deviation, sqrt(2.0 / 500.0), 0.001);
    ck_assert_double_le(xavier.largest, sqrt(6.0 / 500.0) + 1e-7);
    struct moments kaiming = measure(weights + third.offset, third.count);
    ck_assert_double_eq_tol(kaiming.deviation, sqrt(2.0 / 200.0), 0.002);
    for (uint32_t i = 1; i < nn_model_tensors(model); i += 2) {
        struct nn_tensor bias = nn_model_tensor(model, i);
        ck_assert_double_eq(measure(weights + bias.offset, bias.count).largest, 0.0);
    }
    nn_floats_free(weights);
    nn_model_free(model);
}
END_TEST

/* The bits are part of the promise: a run of last year can be repeated. */
START_TEST(init__golden_bits)
{
    struct nn_model *model = open_model(
        "{\"input\":[784],\"layers\":[{\"dense\":200},\"sigmoid\",{\"dense\":50},\"relu\","
        "{\"dense\":10}],\"loss\":\"cross_entropy\"}");
    size_t count = nn_model_parameters(model);
    float *weights = nn_floats(count);
    char hash[17];

    nn_model_init(model, 42, weights);
    nn_weights_hash(weights, count, hash);
    ck_assert_str_eq(hash, "8d3cad09dd838c9e");
    nn_model_init(model, 43, weights);
    nn_weights_hash(weights, count, hash);
    ck_assert_str_ne(hash, "8d3cad09dd838c9e");
    nn_floats_free(weights);
    nn_model_free(model);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        init__normal_has_its_moments,
        init__uniform_fills_its_interval,
        init__prefixes_agree,
        init__kaiming_before_relu_else_xavier,
        init__golden_bits,
    };

    return RUN_SUITE("init", tests);
}
