/* SPDX-License-Identifier: MIT */
#include "nn/nn.h"

#include "suite.h"

#include <math.h>
#include <string.h>

enum { COUNT = 4, STEPS = 3 };

static const float start[COUNT] = {0.5f, -1.25f, 2.0f, 0.0f};
static const float gradients[STEPS][COUNT] = {
    {0.1f, -0.2f, 0.3f, 0.05f}, {0.4f, 0.1f, -0.6f, 0.0f}, {-0.3f, 0.2f, 0.1f, -0.7f}};

/* lr 0.1, decay 0.01; momentum 0.9; betas 0.9 and 0.99. */
static struct nn_optim optim_of(enum nn_optim_kind kind)
{
    return (struct nn_optim){.kind = kind,
                             .lr = 0.1,
                             .momentum = 0.9,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .epsilon = 1e-8,
                             .weight_decay = 0.01};
}

/* PyTorch 1.13's weights after the three steps above, computed by it in double. */
static const double pytorch[][COUNT] = {
    [NN_SGD] = {0.478561489, -1.25628373, 2.01400597, 0.065009995},
    [NN_MOMENTUM] = {0.424175389, -1.22785948, 2.01154357, 0.056468995},
    [NN_ADAM] = {0.29239647, -1.13741267, 1.94654016, -0.105796236},
};

START_TEST(optim__agrees_with_pytorch)
{
    for (int kind = NN_SGD; kind <= NN_ADAM; kind++) {
        const struct nn_optim optim = optim_of((enum nn_optim_kind)kind);
        float weights[COUNT];
        float state[2 * COUNT] = {0};
        memcpy(weights, start, sizeof weights);
        for (uint64_t step = 1; step <= STEPS; step++) {
            float sum[COUNT]; /* of five samples: the optimiser divides */
            for (int i = 0; i < COUNT; i++)
                sum[i] = 5.0f * gradients[step - 1][i];
            nn_optim_apply(&optim, step, 5, COUNT, weights, sum, state);
        }
        for (int i = 0; i < COUNT; i++)
            ck_assert_double_eq_tol((double)weights[i], pytorch[kind][i], 1e-6);
    }
}
END_TEST

/* Four steps of 8, 6, 4 and 2 tenths. */
START_TEST(optim__linear_rate_falls_to_a_last_small_step)
{
    const struct nn_optim optim = {.kind = NN_SGD, .lr = 0.8, .rate = NN_RATE_LINEAR, .steps = 4};
    const float one = 1.0f;
    float weight = 0.0f;

    nn_optim_apply(&optim, 1, 1, 1, &weight, &one, NULL);
    ck_assert_double_eq_tol((double)weight, -0.8, 1e-6);
    nn_optim_apply(&optim, 2, 1, 1, &weight, &one, NULL);
    ck_assert_double_eq_tol((double)weight, -1.4, 1e-6);
    nn_optim_apply(&optim, 4, 1, 1, &weight, &one, NULL);
    ck_assert_double_eq_tol((double)weight, -1.6, 1e-6);
}
END_TEST

START_TEST(optim__states_its_state)
{
    struct nn_optim optim = optim_of(NN_SGD);

    ck_assert_uint_eq(nn_optim_vectors(&optim), 0);
    optim.kind = NN_MOMENTUM;
    ck_assert_uint_eq(nn_optim_vectors(&optim), 1);
    optim.kind = NN_ADAM;
    ck_assert_uint_eq(nn_optim_vectors(&optim), 2);
}
END_TEST

/* A server may own a range of the vector: the result must not depend on where it is cut. */
START_TEST(optim__parts_equal_the_whole)
{
    enum { LENGTH = 1000 };
    static float whole[LENGTH], parts[LENGTH], gradient[LENGTH], state[2 * LENGTH];

    for (int kind = NN_SGD; kind <= NN_ADAM; kind++) {
        const struct nn_optim optim = optim_of((enum nn_optim_kind)kind);
        for (size_t i = 0; i < LENGTH; i++) {
            gradient[i] = (float)((i * 2654435761u) % 1999) * 1e-3f - 1.0f;
            whole[i] = parts[i] = (float)i * 1e-3f;
        }
        memset(state, 0, sizeof state);
        nn_optim_apply(&optim, 1, 3, LENGTH, whole, gradient, state);
        for (size_t from = 0, len = 1; from < LENGTH; from += len, len = len % 61 + 7) {
            size_t count = from + len < LENGTH ? len : LENGTH - from;
            float fresh[2 * 80] = {0};
            nn_optim_apply(&optim, 1, 3, count, parts + from, gradient + from, fresh);
        }
        ck_assert_mem_eq(whole, parts, sizeof whole);
    }
}
END_TEST

START_TEST(optim__late_steps_of_adam_stay_finite)
{
    const struct nn_optim optim = optim_of(NN_ADAM);
    float weight = 1.0f;
    float gradient = 1e-3f;
    float state[2] = {0.0f, 0.0f};

    nn_optim_apply(&optim, UINT64_C(1) << 40, 1, 1, &weight, &gradient, state);
    ck_assert(isfinite(weight));
    ck_assert_float_lt(weight, 1.0f);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        optim__agrees_with_pytorch, optim__states_its_state, optim__parts_equal_the_whole,
        optim__late_steps_of_adam_stay_finite, optim__linear_rate_falls_to_a_last_small_step};

    return RUN_SUITE("optim", tests);
}
