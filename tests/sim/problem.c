/* SPDX-License-Identifier: MIT */
#include "problem.h"

#include "plan.h"

#include <coordinator/commit.h>
#include <node/leaves.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, COLUMNS = 4, CLASSES = 3, TEST_SAMPLES = 300, RUN_ID = 7 };

struct kind {
    const char *model;
    uint64_t samples;
    uint32_t batch, leaf, epochs;
    bool drop_last;
    enum nn_optim_kind optim;
};

/* Batches that leaves divide and do not, odd and prime sample counts, trees of 1 to 11 leaves. */
static const struct kind kinds[PROBLEMS] = {
    {"{\"input\":[12],\"layers\":[{\"dense\":7},\"relu\",{\"dense\":3}],\"loss\":\"cross_"
     "entropy\"}",
     96, 16, 2, 1, false, NN_SGD},
    {"{\"input\":[12],\"layers\":[{\"dense\":7},\"sigmoid\",{\"dense\":3}],\"loss\":\"mse\"}", 61,
     16, 4, 1, false, NN_MOMENTUM},
    {"{\"input\":[12],\"layers\":[{\"dense\":5},\"tanh\",{\"dense\":3}],\"loss\":\"cross_"
     "entropy\"}",
     53, 9, 2, 1, false, NN_ADAM},
    {"{\"input\":[12],\"layers\":[{\"dense\":3}],\"loss\":\"cross_entropy\"}", 47, 11, 1, 1, false,
     NN_SGD},
    {"{\"input\":[12],\"layers\":[{\"dense\":9},\"relu\",{\"dense\":9},\"relu\",{\"dense\":3}],"
     "\"loss\":\"cross_entropy\"}",
     64, 32, 4, 2, false, NN_ADAM},
    {"{\"input\":[12],\"layers\":[{\"dense\":7},\"relu\",{\"dense\":3}],\"loss\":\"cross_"
     "entropy\"}",
     37, 8, 8, 2, true, NN_MOMENTUM},
    /* 29 000 parameters: WEIGHTS and PARTIAL are larger than what rdt takes unannounced. */
    {"{\"input\":[12],\"layers\":[{\"dense\":160},\"relu\",{\"dense\":160},\"relu\",{\"dense\":3}],"
     "\"loss\":\"cross_entropy\"}",
     30, 15, 3, 1, false, NN_SGD},
    {"{\"input\":[12],\"layers\":[{\"dense\":6},\"relu\",{\"dense\":3}],\"loss\":\"cross_"
     "entropy\"}",
     1, 16, 2, 3, false, NN_SGD},
};

static void put_be(FILE *file, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(value >> shift & 0xff), file);
}

/* A class shifts where the bright bytes are, so there is something to learn. */
static void write_set(const char *images, const char *labels, uint64_t count, uint64_t seed)
{
    FILE *x = fopen(images, "wb");
    FILE *y = fopen(labels, "wb");

    assert(x);
    assert(y);
    put_be(x, 0x803);
    put_be(x, (uint32_t)count);
    put_be(x, ROWS);
    put_be(x, COLUMNS);
    put_be(y, 0x801);
    put_be(y, (uint32_t)count);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t label = (uint32_t)(plan_random(&seed) % CLASSES);

        fputc((int)label, y);
        for (uint32_t k = 0; k < ROWS * COLUMNS; k++)
            fputc((int)(plan_random(&seed) % 128 + (k % CLASSES == label ? 100 : 0)), x);
    }
    fclose(x);
    fclose(y);
}

static struct nn_dataset *make_set(const char *dir, const char *name, uint64_t count, uint64_t seed,
                                   struct body_set *body)
{
    char images[512];
    char labels[512];
    struct nn_dataset *data;
    struct nn_digest digest;
    struct nn_error error;

    snprintf(images, sizeof images, "%s/%s-images", dir, name);
    snprintf(labels, sizeof labels, "%s/%s-labels", dir, name);
    write_set(images, labels, count, seed);
    if (nn_dataset_read_idx(&data, images, labels, 0, CLASSES, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    digest = nn_dataset_digest(data);
    memcpy(body->digest, digest.bytes, sizeof body->digest);
    body->count = count;
    body->sample_bytes = (uint32_t)nn_dataset_sample_bytes(data);
    /* Only a node with --data finds it. */
    snprintf(body->images, sizeof body->images, "/nowhere/%s-images", name);
    snprintf(body->labels, sizeof body->labels, "/nowhere/%s-labels", name);
    return data;
}

/* ---------- the oracle ---------- */

static void oracle_eval(struct problem *problem, struct leaves *leaves, const float *weights)
{
    uint32_t count = (uint32_t)schedule_eval_leaves(TEST_SAMPLES);
    struct nn_result results[8];
    struct partial partials[8];
    uint64_t at = problem->evals++;

    assert(count <= 8);
    leaves_evaluate(leaves, weights, (struct span){0, count}, results);
    for (uint32_t i = 0; i < count; i++) {
        partials[i] = (struct partial){.span = {i, 1}, .loss = results[i].loss};
        problem->eval_correct[at] += results[i].correct;
    }
    problem->eval_loss[at] = tree_sum_loss(count, partials, count) / TEST_SAMPLES;
}

static void oracle_run(struct problem *problem, struct leaves *leaves)
{
    const struct coord_config *config = &problem->coord;
    size_t parameters = nn_model_parameters(problem->model);
    float *weights[2] = {nn_floats(parameters), nn_floats(parameters)};
    float *sum = nn_floats(parameters);
    struct committer *committer;

    assert(schedule_steps(&config->schedule) <= PROBLEM_STEPS_MAX);
    if (committer_open(&committer, parameters, &config->optim) < 0 || !sum)
        abort();
    nn_model_init(problem->model, config->seed, weights[0]);
    for (uint64_t step = 0; step < schedule_steps(&config->schedule); step++) {
        struct schedule_step what = schedule_step(&config->schedule, step);
        struct span whole = {0, what.leaves};
        struct leaves_sum result;
        struct partial partial = {.span = whole, .floats = sum};
        struct commit commit = {.step = step,
                                .samples = what.slice.count,
                                .leaves = what.leaves,
                                .partials = &partial,
                                .partials_count = 1,
                                .weights = weights[step % 2],
                                .next = weights[(step + 1) % 2]};

        leaves_gradient(leaves, weights[step % 2], step, whole, sum, &result);
        partial.loss = result.loss;
        commit_run(committer, &commit);
        assert(commit.finite);
        memcpy(problem->hashes[step], commit.hash, sizeof commit.hash);
        if (what.last_of_epoch)
            oracle_eval(problem, leaves, weights[(step + 1) % 2]);
    }
    committer_free(committer);
    nn_floats_free(weights[0]);
    nn_floats_free(weights[1]);
    nn_floats_free(sum);
}

static void oracle(struct problem *problem, const struct nn_normalize *normalize)
{
    struct leaves_config config = {.model = problem->model,
                                   .train = problem->train,
                                   .test = problem->test,
                                   .schedule = problem->coord.schedule,
                                   .normalize = *normalize,
                                   .seed = problem->coord.seed,
                                   .threads = 1};
    struct leaves *leaves;
    struct nn_error error;

    if (leaves_open(&leaves, &config, &error) < 0)
        abort();
    oracle_run(problem, leaves);
    leaves_free(leaves);
}

/* ---------- a problem ---------- */

static struct nn_optim optim_of(enum nn_optim_kind kind)
{
    struct nn_optim optim = {.kind = kind,
                             .lr = kind == NN_ADAM ? 0.01 : 0.1,
                             .momentum = 0.9,
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .epsilon = 1e-8};

    return optim;
}

static void make_welcome(struct problem *problem, struct body_welcome *welcome,
                         const struct kind *kind)
{
    const struct coord_config *coord = &problem->coord;
    size_t kernel = strlen(nn_blas_kernel());

    welcome->parameters = nn_model_parameters(problem->model);
    welcome->seed = coord->seed;
    welcome->epochs = kind->epochs;
    welcome->batch = kind->batch;
    welcome->leaf = kind->leaf;
    welcome->eval_leaf = SCHEDULE_EVAL_LEAF;
    welcome->drop_last = kind->drop_last;
    assert(kernel < sizeof welcome->kernel);
    memcpy(welcome->kernel, nn_blas_kernel(), kernel + 1);
    welcome->model = kind->model;
    welcome->model_len = (uint32_t)strlen(kind->model);
    problem->welcome = malloc(BODY_MAX);
    assert(problem->welcome);
    problem->coord.welcome_len = body_welcome_encode(welcome, problem->welcome);
    problem->coord.welcome = problem->welcome;
}

void problem_open(struct problem *problem, uint32_t idx, const char *dir)
{
    const struct kind *kind = &kinds[idx];
    static struct body_welcome welcome;
    struct coord_config *coord = &problem->coord;
    struct nn_error error;
    char name[32];

    memset(problem, 0, sizeof *problem);
    memset(&welcome, 0, sizeof welcome);
    if (nn_model_open(&problem->model, kind->model, strlen(kind->model), &error) < 0) {
        fprintf(stderr, "%s: %s\n", error.key, error.text);
        abort();
    }
    snprintf(name, sizeof name, "train%u", (unsigned)idx);
    problem->train = make_set(dir, name, kind->samples, 100 + idx, &welcome.train);
    snprintf(name, sizeof name, "test%u", (unsigned)idx);
    problem->test = make_set(dir, name, TEST_SAMPLES, 200 + idx, &welcome.test);
    welcome.scale = 1.0 / 255;
    welcome.mean = 0.25;
    welcome.deviation = 0.5;
    coord->run_id = RUN_ID;
    coord->model = problem->model;
    coord->train = problem->train;
    coord->test = problem->test;
    coord->schedule = (struct schedule){.samples = kind->samples,
                                        .batch = kind->batch,
                                        .leaf = kind->leaf,
                                        .epochs = kind->epochs,
                                        .drop_last = kind->drop_last};
    coord->optim = optim_of(kind->optim);
    coord->seed = 1000 + idx;
    if (nn_fingerprint(problem->model, coord->seed, kind->leaf, &coord->fingerprint) < 0)
        abort();
    make_welcome(problem, &welcome, kind);
    oracle(problem, &(struct nn_normalize){welcome.scale, welcome.mean, welcome.deviation});
}

void problem_write_others(uint32_t idx, const char *dir)
{
    char images[512];
    char labels[512];

    for (int set = 0; set < 2; set++) {
        snprintf(images, sizeof images, "%s/%s%u-images", dir, set ? "test" : "train",
                 (unsigned)idx);
        snprintf(labels, sizeof labels, "%s/%s%u-labels", dir, set ? "test" : "train",
                 (unsigned)idx);
        write_set(images, labels, set ? TEST_SAMPLES : kinds[idx].samples, 300 + idx);
    }
}

void problem_close(struct problem *problem)
{
    free(problem->welcome);
    nn_dataset_free(problem->train);
    nn_dataset_free(problem->test);
    nn_model_free(problem->model);
}
