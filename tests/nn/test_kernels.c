/* SPDX-License-Identifier: MIT */
#include "nn/src/kernels.h"

#include "nn/nn.h"
#include "nn/src/cpu.h"
#include "nn/src/elementary.h"
#include "suite.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { ROWS = 37, COLS = 53, COUNT = ROWS * COLS, BUILDS_MAX = 3 };

/* Every build of the loops that this processor can run. */
static size_t builds(const struct kernels *out[BUILDS_MAX])
{
    size_t count = 0;

    out[count++] = &kernels_base;
#if defined(__x86_64__)
    if (cpu_class_here() >= CPU_AVX2)
        out[count++] = &kernels_avx2;
    if (cpu_class_here() >= CPU_AVX512)
        out[count++] = &kernels_avx512;
#endif
    return count;
}

/* Magnitudes from 2^-20 to 2^7, both signs. */
static void fill(float *out, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t words[4];
        nn_philox(seed, i, 0, words);
        float mantissa = 1.0f + (float)(words[0] >> 9) * 0x1p-23f;
        int exponent = (int)(words[1] % 27) - 20;
        out[i] = ldexpf((words[2] & 1) != 0 ? mantissa : -mantissa, exponent);
    }
}

/* The distance to the exact value, in units of the last place of a float there. */
static double ulps(float got, double exact)
{
    int exponent;

    frexp(exact, &exponent);
    double unit = ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
    return fabs((double)got - exact) / unit;
}

START_TEST(kernels__same_bits_in_every_build)
{
    const struct kernels *build[BUILDS_MAX];
    size_t count = builds(build);
    const struct step_sgd sgd = {
        .gradient_scale = 0.03f, .decay = 1e-4f, .lr = 0.1f, .momentum = 0.9f};
    const struct step_adam adam = {.gradient_scale = 0.03f,
                                   .decay = 1e-4f,
                                   .beta1 = 0.9f,
                                   .rest1 = 0.1f,
                                   .beta2 = 0.999f,
                                   .rest2 = 0.001f,
                                   .step_size = 0.01f,
                                   .root_bias_correction = 0.3f,
                                   .epsilon = 1e-8f};
    uint64_t expected[2 * ACT_COUNT + 6] = {0};

    for (size_t b = 0; b < count; b++) {
        static float x[COUNT], y[COUNT], bias[COLS], state[2 * COUNT];
        uint64_t got[2 * ACT_COUNT + 6];
        size_t n = 0;
        fill(bias, COLS, 1);
        for (int act = ACT_NONE; act < ACT_COUNT; act++) {
            fill(y, COUNT, 2);
            fill(x, COUNT, 3);
            build[b]->forward[act](y, bias, ROWS, COLS);
            got[n++] = nn_hash64(y, sizeof y);
            build[b]->forward[act](y, NULL, ROWS, COLS);
            build[b]->backward[act](x, y, COUNT);
            got[n++] = nn_hash64(x, sizeof x);
        }
        fill(x, COUNT, 4);
        build[b]->column_sum(bias, x, ROWS, COLS);
        got[n++] = nn_hash64(bias, sizeof bias);
        got[n++] = build[b]->magnitude(x, COUNT);
        fill(y, COUNT, 5);
        build[b]->sgd(&sgd, COUNT, x, y);
        got[n++] = nn_hash64(x, sizeof x);
        memset(state, 0, sizeof state);
        build[b]->momentum(&sgd, COUNT, x, y, state);
        build[b]->momentum(&sgd, COUNT, x, y, state);
        got[n++] = nn_hash64(x, sizeof x);
        memset(state, 0, sizeof state);
        build[b]->adam(&adam, COUNT, x, y, state);
        build[b]->adam(&adam, COUNT, x, y, state);
        got[n++] = nn_hash64(x, sizeof x);
        build[b]->exponential(x, COUNT);
        got[n++] = nn_hash64(x, sizeof x);
        ck_assert_uint_eq(n, sizeof got / sizeof got[0]);
        for (size_t i = 0; i < n; i++) {
            if (b == 0)
                expected[i] = got[i];
            ck_assert_msg(got[i] == expected[i], "%s differs from %s in result %zu", build[b]->name,
                          build[0]->name, i);
        }
    }
    /* Of gcc and clang, optimised or not. */
    ck_assert_uint_eq(nn_hash64(expected, sizeof expected), UINT64_C(14901230824132219019));
}
END_TEST

START_TEST(kernels__tails_of_every_length)
{
    const struct kernels *build[BUILDS_MAX];
    size_t count = builds(build);

    for (size_t len = 0; len <= 70; len++) {
        float expected[71];
        for (size_t b = 0; b < count; b++) {
            float x[71];
            fill(x, 71, len);
            float guard = x[len];
            build[b]->exponential(x, len);
            ck_assert_float_eq(x[len], guard);
            if (b == 0)
                memcpy(expected, x, sizeof x);
            ck_assert_mem_eq(x, expected, len * sizeof *x);
        }
    }
}
END_TEST

typedef double exact_fn(double);

static double exact_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* The worst error of an activation over [from, to], in units in the last place. */
static double worst(int act, exact_fn *exact, float from, float to)
{
    enum { STEPS = 400000 };
    double largest = 0.0;

    for (int i = 0; i <= STEPS; i++) {
        float x = from + (to - from) * (float)i / (float)STEPS;
        float y = x;
        if (act == ACT_COUNT)
            kernels_best()->exponential(&y, 1);
        else
            kernels_best()->forward[act](&y, NULL, 1, 1);
        double error = ulps(y, exact((double)x));
        largest = error > largest ? error : largest;
    }
    return largest;
}

START_TEST(kernels__within_two_units_of_the_last_place)
{
    ck_assert_double_le(worst(ACT_COUNT, exp, -87.0f, 88.5f), 2.0);
    ck_assert_double_le(worst(ACT_COUNT, exp, -1.0f, 1.0f), 1.5);
    ck_assert_double_le(worst(ACT_TANH, tanh, -12.0f, 12.0f), 2.0);
    ck_assert_double_le(worst(ACT_TANH, tanh, -0.7f, 0.7f), 2.0);
    ck_assert_double_le(worst(ACT_SIGMOID, exact_sigmoid, -20.0f, 20.0f), 3.0);
}
END_TEST

START_TEST(kernels__ends_of_the_range)
{
    float x[] = {0.0f, -INFINITY, INFINITY, -200.0f, 200.0f, NAN};

    kernels_best()->exponential(x, 6);
    ck_assert_float_eq(x[0], 1.0f);
    ck_assert_float_eq(x[1], 0.0f);
    ck_assert(isinf(x[2]) && x[2] > 0.0f);
    ck_assert_float_eq(x[3], 0.0f);
    ck_assert(isinf(x[4]));
    ck_assert(isnan(x[5]));

    float s[] = {-INFINITY, INFINITY, -200.0f, 200.0f, NAN};
    kernels_best()->forward[ACT_SIGMOID](s, NULL, 1, 5);
    ck_assert_float_eq(s[0], 0.0f);
    ck_assert_float_eq(s[1], 1.0f);
    ck_assert_float_eq(s[2], 0.0f);
    ck_assert_float_eq(s[3], 1.0f);
    ck_assert(isnan(s[4]));

    float t[] = {-INFINITY, INFINITY, -200.0f, 200.0f, NAN};
    kernels_best()->forward[ACT_TANH](t, NULL, 1, 5);
    ck_assert_float_eq(t[0], -1.0f);
    ck_assert_float_eq(t[1], 1.0f);
    ck_assert_float_eq(t[2], -1.0f);
    ck_assert_float_eq(t[3], 1.0f);
    ck_assert(isnan(t[4]));

    float r[] = {-1.0f, 0.0f, 2.0f, NAN};
    kernels_best()->forward[ACT_RELU](r, NULL, 1, 4);
    ck_assert_float_eq(r[0], 0.0f);
    ck_assert_float_eq(r[2], 2.0f);
    ck_assert(isnan(r[3]));
}
END_TEST

START_TEST(kernels__magnitude_sees_what_is_not_finite)
{
    const struct kernels *build[BUILDS_MAX];
    size_t count = builds(build);

    for (size_t b = 0; b < count; b++) {
        for (size_t i = 0; i < COLS; i++) {
            float x[COLS];
            fill(x, COLS, 9);
            ck_assert_uint_lt(build[b]->magnitude(x, COLS), INFINITY_BITS);
            x[i] = (i & 1) != 0 ? -INFINITY : NAN;
            ck_assert_uint_ge(build[b]->magnitude(x, COLS), INFINITY_BITS);
        }
    }
    const float largest = FLT_MAX;
    ck_assert_uint_lt(kernels_best()->magnitude(&largest, 1), INFINITY_BITS);
    ck_assert_uint_eq(kernels_best()->magnitude(&largest, 0), 0);
}
END_TEST

START_TEST(elementary__close_to_libm)
{
    for (int i = 1; i < 20000; i++) {
        double x = ldexp((double)i, (i % 97) - 48);
        ck_assert_double_le(fabs(elementary_log(x) - log(x)), 1e-15 * fmax(1.0, fabs(log(x))));
        double turns = (double)i / 20000.0;
        double angle = turns * 6.283185307179586;
        double s, c;
        elementary_sincos(turns, &s, &c);
        ck_assert_double_le(fabs(s - sin(angle)), 1e-15);
        ck_assert_double_le(fabs(c - cos(angle)), 1e-15);
    }
    ck_assert_double_eq(elementary_log(1.0), 0.0);
    ck_assert(isinf(elementary_log((double)INFINITY)));
    ck_assert(isnan(elementary_log((double)NAN)));
    ck_assert_double_lt(elementary_log(0.0), -1e300);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        kernels__same_bits_in_every_build,           kernels__tails_of_every_length,
        kernels__within_two_units_of_the_last_place, kernels__ends_of_the_range,
        kernels__magnitude_sees_what_is_not_finite,  elementary__close_to_libm,
    };

    return RUN_SUITE("kernels", tests);
}
