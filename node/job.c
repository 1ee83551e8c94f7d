/* SPDX-License-Identifier: MIT */
#include <node/job.h>

#include <cluster/text.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void engine_close(struct engine *engine)
{
    leaves_free(engine->leaves);
    nn_model_free(engine->model);
    memset(engine, 0, sizeof *engine);
}

static int open_leaves(struct job *job, struct nn_error *error)
{
    const struct body_welcome *welcome = &job->welcome;
    struct engine *engine = job->engine;
    const struct leaves_config config = {
        .model = engine->model,
        .train = engine->train,
        .test = engine->test,
        .schedule = engine->schedule,
        .normalize = {welcome->scale, welcome->mean, welcome->deviation},
        .seed = welcome->seed,
        .threads = job->threads,
    };

    return leaves_open(&engine->leaves, &config, error);
}

static int find_data(struct job *job, struct nn_error *error)
{
    uint32_t classes = (uint32_t)nn_model_outputs(job->engine->model);
    const struct body_welcome *welcome = &job->welcome;
    int err = data_find(job->store, &welcome->train, job->data_dir, classes, &job->engine->train,
                        &job->ready.has_train);

    job->ready.has_test = true;
    if (err == 0 && welcome->test.count > 0)
        err = data_find(job->store, &welcome->test, job->data_dir, classes, &job->engine->test,
                        &job->ready.has_test);
    if (err < 0)
        text_format(error->text, sizeof error->text, "not enough memory for the samples");
    return err;
}

/* What the coordinator says must fit together before anything relies on it. */
static int check(const struct job *job, struct nn_error *error)
{
    const struct body_welcome *welcome = &job->welcome;
    const struct engine *engine = job->engine;
    const struct nn_normalize normalize = {welcome->scale, welcome->mean, welcome->deviation};
    const char *wrong = NULL;

    if (welcome->parameters != nn_model_parameters(engine->model))
        wrong = "the model has another number of parameters here";
    else if (welcome->train.count == 0)
        wrong = "the run has no samples";
    else if (welcome->eval_leaf != SCHEDULE_EVAL_LEAF)
        wrong = "leaves of evaluation have another size here";
    else if (schedule_leaves_max(&engine->schedule) > TREE_LEAVES_MAX ||
             schedule_eval_leaves(welcome->test.count) > TREE_LEAVES_MAX)
        wrong = "a step of the run has too many leaves";
    else if (!nn_normalize_ok(&normalize))
        wrong = "normalized samples of the run are not finite";
    else if (welcome->train.sample_bytes != nn_model_inputs(engine->model) + 4 ||
             (welcome->test.count > 0 && welcome->test.sample_bytes != welcome->train.sample_bytes))
        wrong = "the samples have not the size of the model's input";
    if (!wrong)
        return 0;
    text_format(error->text, sizeof error->text, "%s", wrong);
    return NN_EINVAL;
}

static int prepare(struct job *job, struct nn_error *error)
{
    const struct body_welcome *welcome = &job->welcome;
    struct engine *engine = job->engine;
    int err = nn_blas_open(welcome->kernel, error);

    if (err < 0)
        return err;
    nn_thread_init();
    err = nn_model_open(&engine->model, job->model_text, welcome->model_len, error);
    if (err < 0)
        return err;
    engine->parameters = nn_model_parameters(engine->model);
    engine->schedule = (struct schedule){.samples = welcome->train.count,
                                         .batch = welcome->batch,
                                         .leaf = welcome->leaf,
                                         .epochs = welcome->epochs,
                                         .drop_last = welcome->drop_last};
    err = check(job, error);
    if (err == 0)
        err = nn_fingerprint(engine->model, welcome->seed, welcome->leaf, &job->ready.fingerprint);
    if (err == 0)
        err = find_data(job, error);
    if (err == 0)
        err = open_leaves(job, error);
    return err;
}

static void run_prepare(struct job *job)
{
    struct nn_error error = {.key = ""};

    job->err = prepare(job, &error);
    if (job->err == 0)
        return;
    if (error.text[0])
        text_format(job->why, sizeof job->why, "%s", error.text);
    else
        text_format(job->why, sizeof job->why, "cannot prepare the run (error %d)", job->err);
    engine_close(job->engine);
}

static void run_gradient(struct job *job)
{
    size_t floats = job->engine->parameters;
    struct leaves_sum sum;
    struct body_trailer trailer;

    leaves_gradient(job->engine->leaves, job->weights, job->step, job->span,
                    (float *)(void *)job->body, &sum);
    trailer = (struct body_trailer){
        .loss = sum.loss, .correct = (uint32_t)sum.correct, .finite = sum.finite};
    body_trailer_encode(&trailer, job->body + floats * sizeof(float));
    job->body_len = body_partial_len(floats);
    job->hash = nn_hash64(job->body, job->body_len);
    job->finite = sum.finite;
    job->bad_leaf = sum.bad_leaf;
}

static void run_evaluate(struct job *job)
{
    struct nn_result *results = calloc(job->span.count, sizeof *results);

    assert(results); /* a few kilobytes */
    leaves_evaluate(job->engine->leaves, job->weights, job->span, results);
    for (uint32_t i = 0; i < job->span.count; i++) {
        struct body_result result = {.loss = results[i].loss,
                                     .correct = (uint32_t)results[i].correct};

        body_evaluated_put(job->body, i, &result);
    }
    job->body_len = body_evaluated_len(job->span.count);
    job->hash = nn_hash64(job->body, job->body_len);
    free(results);
}

static void run_matrix_prepare(struct job *job)
{
    struct matrix_engine *engine = job->matrix;
    const struct body_product shape = engine->shape;
    struct nn_error error = {.key = ""};
    uint32_t hands = job->threads < shape.depth ? job->threads : shape.depth;

    job->err = nn_blas_open(shape.kernel, &error);
    if (job->err < 0) {
        text_format(job->why, sizeof job->why, "%s", error.text);
        return;
    }
    job->err = nn_product_fingerprint(&job->ready.fingerprint);
    if (job->err == 0)
        job->err = matrix_engine_open(engine, hands);
    if (job->err < 0) {
        text_format(job->why, sizeof job->why,
                    "not enough memory: a B of %llu x %llu and %u blocks of %llu rows are %.0f "
                    "bytes",
                    (unsigned long long)shape.inner, (unsigned long long)shape.cols, shape.depth,
                    (unsigned long long)shape.block_rows, matrix_engine_bytes(&shape));
    }
}

void job_run(struct job *job)
{
    nn_thread_init();
    switch (job->kind) {
    case JOB_PREPARE:
        run_prepare(job);
        break;
    case JOB_GRADIENT:
        run_gradient(job);
        break;
    case JOB_EVALUATE:
        run_evaluate(job);
        break;
    case JOB_MATRIX_PREPARE:
        run_matrix_prepare(job);
        break;
    case JOB_MATRIX_BLOCKS:
        matrix_compute(job->matrix, job->tasks, job->tasks_count);
        break;
    }
}
