/* SPDX-License-Identifier: MIT */
#include "problem.h"

#include <cluster/text.h>
#include <coordinator/commit.h>
#include <node/leaves.h>

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct nn_dataset *problem_set(uint64_t count, uint64_t seed)
{
    struct nn_dataset *data;
    uint8_t sample[NODE_INPUTS + 4] = {0};

    ck_assert_int_eq(nn_dataset_open(&data, count, sizeof sample), 0);
    for (uint64_t id = 0; id < count; id++) {
        uint32_t words[4];
        uint32_t sum = 0;

        for (uint32_t i = 0; i < NODE_INPUTS; i++) {
            nn_philox(seed, id, i, words);
            sample[i] = (uint8_t)words[0];
            sum += sample[i];
        }
        sample[NODE_INPUTS] = (uint8_t)(sum / 64 % 5);
        nn_dataset_put(data, id, sample);
    }
    return data;
}

static void describe(struct body_set *out, const struct nn_dataset *data, uint8_t name)
{
    /* The data sets have no files: their names are digest enough. */
    memset(out->digest, name, sizeof out->digest);
    out->count = nn_dataset_count(data);
    out->sample_bytes = (uint32_t)nn_dataset_sample_bytes(data);
    text_format(out->images, sizeof out->images, "/nowhere/images-%u", name);
    text_format(out->labels, sizeof out->labels, "/nowhere/labels-%u", name);
}

void problem_open(struct problem *problem, const struct arena_config *config)
{
    struct nn_error error = {.key = ""};
    struct body_welcome welcome = {.seed = 7};
    char model[256];

    ck_assert_int_eq(nn_blas_open(NULL, &error), 0);
    nn_thread_init();
    text_format(model, sizeof model,
                "{\"input\": [%d], \"layers\": [{\"dense\": %" PRIu32
                "}, \"relu\", {\"dense\": 5}], \"loss\": \"cross_entropy\"}",
                NODE_INPUTS, config->hidden);
    ck_assert_msg(nn_model_open(&problem->model, model, strlen(model), &error) == 0, "%s",
                  error.text);
    problem->train = problem_set(config->samples, 1);
    problem->test = config->test_samples ? problem_set(config->test_samples, 2) : NULL;
    problem->schedule = (struct schedule){.samples = config->samples,
                                          .batch = config->batch,
                                          .leaf = config->leaf,
                                          .epochs = config->epochs,
                                          .drop_last = config->drop_last};
    problem->normalize = (struct nn_normalize){1.0 / 255, 0.5, 0.25};
    problem->optim = (struct nn_optim){.kind = NN_MOMENTUM, .lr = config->lr, .momentum = 0.9};
    welcome.parameters = nn_model_parameters(problem->model);
    welcome.epochs = config->epochs;
    welcome.batch = config->batch;
    welcome.leaf = config->leaf;
    welcome.eval_leaf = SCHEDULE_EVAL_LEAF;
    welcome.drop_last = config->drop_last;
    welcome.scale = problem->normalize.scale;
    welcome.mean = problem->normalize.mean;
    welcome.deviation = problem->normalize.deviation;
    welcome.model = model;
    welcome.model_len = (uint32_t)strlen(model);
    text_format(welcome.kernel, sizeof welcome.kernel, "%s", nn_blas_kernel());
    describe(&welcome.train, problem->train, 1);
    if (problem->test)
        describe(&welcome.test, problem->test, 2);
    problem->welcome_len = body_welcome_encode(&welcome, problem->welcome);
    ck_assert_int_eq(nn_fingerprint(problem->model, 7, config->leaf, &problem->fingerprint), 0);
}

void problem_close(struct problem *problem)
{
    nn_dataset_free(problem->train);
    nn_dataset_free(problem->test);
    nn_model_free(problem->model);
    free(problem);
}

/* ---------- the oracle ---------- */

static void local_eval(const struct problem *problem, struct leaves *leaves, const float *weights,
                       struct arena_result *out)
{
    uint64_t samples = nn_dataset_count(problem->test);
    uint32_t count = (uint32_t)schedule_eval_leaves(samples);
    struct nn_result *results = calloc(count, sizeof *results);
    struct partial *partials = calloc(count, sizeof *partials);

    leaves_evaluate(leaves, weights, (struct span){0, count}, results);
    out->correct = 0;
    for (uint32_t i = 0; i < count; i++) {
        partials[i] = (struct partial){.span = {i, 1}, .loss = results[i].loss};
        out->correct += results[i].correct;
    }
    out->eval_loss = tree_sum_loss(count, partials, count) / (double)samples;
    out->evals++;
    free(results);
    free(partials);
}

static void local_steps(const struct problem *problem, struct leaves *leaves,
                        struct committer *committer, struct arena_result *out)
{
    size_t parameters = nn_model_parameters(problem->model);
    float *weights[2] = {nn_floats(parameters), nn_floats(parameters)};
    float *grad = nn_floats(parameters);

    nn_model_init(problem->model, 7, weights[0]);
    for (uint64_t t = 0; t < schedule_steps(&problem->schedule); t++) {
        struct schedule_step step = schedule_step(&problem->schedule, t);
        struct partial partial = {.span = {0, step.leaves}, .floats = grad};
        struct commit commit = {.step = t,
                                .samples = step.slice.count,
                                .leaves = step.leaves,
                                .partials = &partial,
                                .partials_count = 1,
                                .weights = weights[t % 2],
                                .next = weights[(t + 1) % 2]};
        struct leaves_sum sum;

        leaves_gradient(leaves, commit.weights, t, partial.span, grad, &sum);
        partial.loss = sum.loss;
        commit_run(committer, &commit);
        ck_assert(commit.finite);
        ck_assert_uint_eq(sum.samples, step.slice.count);
        out->steps++;
        out->last_loss = commit.loss;
        memcpy(out->hash, commit.hash, sizeof out->hash);
        if (step.last_of_epoch && problem->test)
            local_eval(problem, leaves, commit.next, out);
    }
    nn_floats_free(weights[0]);
    nn_floats_free(weights[1]);
    nn_floats_free(grad);
}

void arena_local(const struct arena_config *config, uint32_t threads, struct arena_result *out)
{
    struct problem *problem = calloc(1, sizeof *problem);
    struct leaves_config leaves_config;
    struct committer *committer;
    struct leaves *leaves;
    struct nn_error error;

    ck_assert_ptr_nonnull(problem);
    memset(out, 0, sizeof *out);
    problem_open(problem, config);
    leaves_config = (struct leaves_config){.model = problem->model,
                                           .train = problem->train,
                                           .test = problem->test,
                                           .schedule = problem->schedule,
                                           .normalize = problem->normalize,
                                           .seed = 7,
                                           .threads = threads};
    ck_assert_int_eq(leaves_open(&leaves, &leaves_config, &error), 0);
    ck_assert_int_eq(
        committer_open(&committer, nn_model_parameters(problem->model), &problem->optim), 0);
    local_steps(problem, leaves, committer, out);
    leaves_free(leaves);
    committer_free(committer);
    problem_close(problem);
}

/* ---------- results ---------- */

uint64_t problem_draw(uint64_t *random)
{
    uint64_t z = *random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void result_record(struct arena_result *result, const struct record *record)
{
    if (record->kind == RECORD_EVAL) {
        result->evals++;
        result->eval_loss = record->loss;
        result->correct = record->correct;
    }
    if (record->kind != RECORD_STEP)
        return;
    result->records_in_order &= record->step == result->records;
    result->records++;
    result->last_loss = record->loss;
    memcpy(result->last_hash, record->hash, sizeof result->last_hash);
}

void result_event(struct arena_result *result, const char *text)
{
    size_t slot = result->events_count++ % ARENA_EVENTS_MAX;

    text_format(result->events[slot], ACTION_TEXT_MAX, "%s", text);
}

bool arena_said(const struct arena_result *result, const char *text)
{
    for (size_t i = 0; i < result->events_count && i < ARENA_EVENTS_MAX; i++)
        if (strstr(result->events[i], text))
            return true;
    return false;
}
