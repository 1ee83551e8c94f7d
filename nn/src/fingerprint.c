/* SPDX-License-Identifier: MIT */
/*
 * Do two machines compute the same bits?  Ask both for the hash of everything they can compute,
 * from inputs that Philox gives both.  It goes through the same doors as training does.
 */
#include "gemm.h"
#include "init.h"
#include "loss.h"
#include "model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* K beyond every blocking factor of OpenBLAS's kernels, so that it is split. */
    TEST_M = 33,
    TEST_N = 61,
    TEST_K = 1100,
    TEST_CLASSES = 10,
    HASHES_MAX = 32
};

struct prints {
    uint64_t hashes[HASHES_MAX];
    size_t count;
};

static const uint64_t seed_test = UINT64_C(0x6772616477697265);

static void add(struct prints *prints, const void *bytes, size_t len)
{
    assert(prints->count < HASHES_MAX);

    prints->hashes[prints->count++] = nn_hash64(bytes, len);
}

static void fill(uint32_t tensor, float *out, size_t count)
{
    init_normal(&(struct init_stream){.seed = seed_test, .tensor = tensor}, 1.0, out, count);
}

static void print_products(struct prints *prints, const float *a, const float *b, float *c)
{
    for (int form = 0; form < 4; form++) {
        const struct gemm product = {.m = TEST_M,
                                     .n = TEST_N,
                                     .k = TEST_K,
                                     .transpose_a = (form & 1) != 0,
                                     .transpose_b = (form & 2) != 0};
        gemm(&product, a, b, c);
        add(prints, c, TEST_M * TEST_N * sizeof *c);
    }
}

/* Values from -12 to 12, where every branch of exp and tanh is taken. */
static void print_activations(struct prints *prints, float *x, float *dy)
{
    const struct kernels *kernels = kernels_best();
    const size_t count = (size_t)TEST_M * TEST_N;

    for (int act = ACT_NONE; act < ACT_COUNT; act++) {
        fill(1, x, count);
        fill(2, dy, count);
        for (size_t i = 0; i < count; i++)
            x[i] *= 4.0f;
        kernels->forward[act](x, dy, TEST_M, TEST_N);
        add(prints, x, count * sizeof *x);
        kernels->backward[act](dy, x, count);
        add(prints, dy, count * sizeof *dy);
    }
    kernels->column_sum(x, dy, TEST_M, TEST_N);
    add(prints, x, TEST_N * sizeof *x);
}

static void print_losses(struct prints *prints, float *output, float *delta)
{
    uint32_t labels[TEST_M];
    const struct loss_input input = {
        .output = output, .labels = labels, .count = TEST_M, .classes = TEST_CLASSES};

    fill(3, output, (size_t)TEST_M * TEST_CLASSES);
    for (uint32_t i = 0; i < TEST_M; i++)
        labels[i] = i % TEST_CLASSES;
    for (int kind = LOSS_CROSS_ENTROPY; kind <= LOSS_MSE; kind++) {
        struct nn_result result;
        loss_gradient((enum loss_kind)kind, &input, delta, &result);
        add(prints, delta, (size_t)TEST_M * TEST_CLASSES * sizeof *delta);
        add(prints, &result.loss, sizeof result.loss);
    }
}

static void print_optimisers(struct prints *prints, float *weights, float *gradient, float *state)
{
    const size_t count = (size_t)TEST_M * TEST_N;

    for (int kind = NN_SGD; kind <= NN_ADAM; kind++) {
        const struct nn_optim optim = {.kind = (enum nn_optim_kind)kind,
                                       .lr = 0.01,
                                       .momentum = 0.9,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .epsilon = 1e-8,
                                       .weight_decay = 1e-4};
        fill(4, weights, count);
        fill(5, gradient, count);
        memset(state, 0, 2 * count * sizeof *state);
        for (uint64_t step = 1; step <= 3; step++)
            nn_optim_apply(&optim, step, 7, count, weights, gradient, state);
        add(prints, weights, count * sizeof *weights);
    }
}

static int print_ops(struct prints *prints)
{
    /* One size for all three: the longest use is an operand of the products. */
    const size_t count = (size_t)TEST_K * TEST_N;
    float *a = nn_floats(count);
    float *b = nn_floats(count);
    float *c = nn_floats(count);
    int err = NN_ENOMEM;

    if (a == NULL || b == NULL || c == NULL)
        goto out;
    fill(0, a, count);
    fill(1, b, count);
    print_products(prints, a, b, c);
    print_activations(prints, a, b);
    print_losses(prints, a, b);
    print_optimisers(prints, a, b, c);
    init_uniform(&(struct init_stream){.seed = seed_test}, 1.0, a, count);
    add(prints, a, count * sizeof *a);
    err = 0;
out:
    nn_floats_free(a);
    nn_floats_free(b);
    nn_floats_free(c);
    return err;
}

/* One leaf of samples that nobody has to send. */
static int print_leaf(struct prints *prints, const struct nn_model *model, uint64_t seed,
                      size_t leaf)
{
    struct nn_scratch *scratch = NULL;
    float *weights = nn_floats(model->parameters);
    float *gradient = nn_floats(model->parameters);
    float *x = nn_floats(leaf * model->inputs);
    uint32_t *labels = calloc(leaf, sizeof *labels);
    struct nn_result result;
    int err = NN_ENOMEM;

    if (weights == NULL || gradient == NULL || x == NULL || labels == NULL)
        goto out;
    err = nn_scratch_open(&scratch, model, leaf);
    if (err < 0)
        goto out;
    nn_model_init(model, seed, weights);
    fill(6, x, leaf * model->inputs);
    for (size_t i = 0; i < leaf; i++)
        labels[i] = (uint32_t)(i % model->outputs);
    nn_gradient(scratch, weights, &(struct nn_batch){.x = x, .labels = labels, .count = leaf},
                gradient, &result);
    add(prints, weights, model->parameters * sizeof *weights);
    add(prints, gradient, model->parameters * sizeof *gradient);
    add(prints, &result.loss, sizeof result.loss);
out:
    nn_scratch_free(scratch);
    nn_floats_free(weights);
    nn_floats_free(gradient);
    nn_floats_free(x);
    free(labels);
    return err;
}

int nn_fingerprint(const struct nn_model *model, uint64_t seed, size_t leaf, uint64_t *out)
{
    struct prints prints = {.count = 0};
    int err = print_ops(&prints);

    if (err == 0)
        err = print_leaf(&prints, model, seed, leaf);
    if (err == 0)
        *out = nn_hash64(prints.hashes, prints.count * sizeof prints.hashes[0]);
    return err;
}
