/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

/* A leaf is a pure function: same bits wherever its operands lie, whoever computes it, however
 * often, in whatever scratch. */
#include "nn/nn.h"

#include "nn/src/cpu.h"
#include "suite.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAF = 32, INPUTS = 113, SLACK = 16, THREADS = 2, LEAVES = 8 };

static const char json[] = "{\"input\":[113],\"layers\":[{\"dense\":67},\"relu\",{\"dense\":45},"
                           "\"tanh\",{\"dense\":10}],\"loss\":\"cross_entropy\"}";

static struct nn_model *model;
static float *weights;

static void open_all(void)
{
    struct nn_error error = {.text = ""};

    ck_assert_msg(nn_blas_open(NULL, &error) == 0, "%s", error.text);
    nn_thread_init();
    ck_assert_int_eq(nn_model_open(&model, json, strlen(json), &error), 0);
    weights = nn_floats(nn_model_parameters(model));
    nn_model_init(model, 7, weights);
}

static void close_all(void)
{
    nn_floats_free(weights);
    nn_model_free(model);
}

struct place {
    size_t x, weights, gradient; /* floats behind a cache line */
    size_t samples_max;          /* of the scratch */
};

/* The hash of gradient and loss of leaf `number`. */
static uint64_t compute(uint32_t number, size_t count, const struct place *place)
{
    size_t parameters = nn_model_parameters(model);
    struct nn_scratch *scratch;
    uint32_t labels[LEAF];
    struct nn_result result;
    float *x = nn_floats(LEAF * INPUTS + SLACK);
    float *w = nn_floats(parameters + SLACK);
    float *g = nn_floats(parameters + SLACK);
    int err = nn_scratch_open(&scratch, model, place->samples_max);

    if (err < 0)
        abort();
    memcpy(w + place->weights, weights, parameters * sizeof *w);
    for (size_t i = 0; i < count * INPUTS; i++) {
        uint32_t words[4];
        nn_philox(number, i, 0, words);
        x[place->x + i] = (float)(words[0] >> 8) * 0x1p-24f;
    }
    for (uint32_t i = 0; i < count; i++)
        labels[i] = (i * 3 + number) % 10;
    const struct nn_batch batch = {.x = x + place->x, .labels = labels, .count = count};
    uint64_t hashes[2] = {0, 0};
    for (int repeat = 0; repeat < 3; repeat++) {
        nn_gradient(scratch, w + place->weights, &batch, g + place->gradient, &result);
        uint64_t hash = nn_hash64(g + place->gradient, parameters * sizeof *g);
        if (repeat > 0 && hash != hashes[0])
            abort();
        hashes[0] = hash;
    }
    memcpy(&hashes[1], &result.loss, sizeof hashes[1]);
    nn_scratch_free(scratch);
    nn_floats_free(x);
    nn_floats_free(w);
    nn_floats_free(g);
    return nn_hash64(hashes, sizeof hashes);
}

START_TEST(leaf__bits_do_not_depend_on_place)
{
    open_all();
    for (size_t count = 1; count <= LEAF; count += 31) {
        uint64_t expected = compute(0, count, &(struct place){.samples_max = LEAF});
        for (size_t offset = 1; offset < SLACK; offset += 3) {
            const struct place places[] = {
                {.x = offset, .samples_max = LEAF},
                {.weights = offset, .samples_max = LEAF},
                {.gradient = offset, .samples_max = count},
                {.x = offset, .weights = SLACK - offset, .gradient = 5, .samples_max = 2 * LEAF},
            };
            for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
                ck_assert_uint_eq(compute(0, count, &places[i]), expected);
        }
    }
    close_all();
}
END_TEST

struct worker {
    pthread_t thread;
    uint32_t first;
    uint64_t hashes[LEAVES];
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    nn_thread_init();
    for (uint32_t i = 0; i < LEAVES; i++) {
        uint32_t number = (worker->first + i) % LEAVES;
        worker->hashes[number] = compute(number, LEAF, &(struct place){.samples_max = LEAF});
    }
    return NULL;
}

START_TEST(leaf__threads_in_parallel_give_the_bits_of_one)
{
    uint64_t expected[LEAVES];
    struct worker workers[THREADS];

    open_all();
    for (uint32_t i = 0; i < LEAVES; i++) {
        expected[i] = compute(i, LEAF, &(struct place){.samples_max = LEAF});
        for (uint32_t j = 0; j < i; j++)
            ck_assert_uint_ne(expected[i], expected[j]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i].first = i * (LEAVES / THREADS);
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
        ck_assert_mem_eq(workers[i].hashes, expected, sizeof expected);
    }
    close_all();
}
END_TEST

static uint64_t fingerprint(const char *description, uint64_t seed, size_t leaf)
{
    struct nn_model *other;
    uint64_t out = 0;

    ck_assert_int_eq(nn_model_open(&other, description, strlen(description), NULL), 0);
    ck_assert_int_eq(nn_fingerprint(other, seed, leaf, &out), 0);
    nn_model_free(other);
    return out;
}

START_TEST(fingerprint__same_again_and_different_for_what_differs)
{
    static const char format[] = "{\"input\":[9],\"layers\":[{\"dense\":%d},\"%s\",{\"dense\":4}],"
                                 "\"loss\":\"%s\"}";
    char others[4][128];

    snprintf(others[0], sizeof others[0], format, 8, "relu", "mse");
    snprintf(others[1], sizeof others[1], format, 8, "tanh", "mse");
    snprintf(others[2], sizeof others[2], format, 8, "relu", "cross_entropy");
    snprintf(others[3], sizeof others[3], format, 7, "relu", "mse");
    open_all();
    uint64_t expected = fingerprint(others[0], 1, LEAF);
    ck_assert_uint_eq(fingerprint(others[0], 1, LEAF), expected);
    ck_assert_uint_ne(fingerprint(others[0], 2, LEAF), expected);
    ck_assert_uint_ne(fingerprint(others[0], 1, LEAF - 1), expected);
    for (int i = 1; i < 4; i++)
        ck_assert_uint_ne(fingerprint(others[i], 1, LEAF), expected);
    close_all();
}
END_TEST

/* BLAS is opened once in a process, so each kernel gets a process of its own. */
static uint64_t fingerprint_in_child(const char *kernel)
{
    int ends[2];
    uint64_t out = 0;
    int status;

    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (nn_blas_open(kernel, NULL) < 0)
            _exit(1);
        nn_thread_init();
        out = fingerprint(json, 1, LEAF);
        _exit(write(ends[1], &out, sizeof out) == (ssize_t)sizeof out ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(read(ends[0], &out, sizeof out), (int)sizeof out);
    close(ends[0]);
    close(ends[1]);
    return out;
}

/* A machine whose kernel adds in another order must be found out. */
START_TEST(fingerprint__tells_kernels_apart)
{
    uint64_t plain = fingerprint_in_child("Prescott");

    ck_assert_uint_eq(fingerprint_in_child("Prescott"), plain);
    if (cpu_class_here() >= CPU_AVX2)
        ck_assert_uint_ne(fingerprint_in_child("Haswell"), plain);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        leaf__bits_do_not_depend_on_place,
        leaf__threads_in_parallel_give_the_bits_of_one,
        fingerprint__same_again_and_different_for_what_differs,
        fingerprint__tells_kernels_apart,
    };

    return RUN_SUITE("leaf", tests);
}
