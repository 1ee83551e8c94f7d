/* SPDX-License-Identifier: MIT */
#include <coordinator/local.h>

#include <cluster/text.h>
#include <node/leaves.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct local {
    struct session *session;
    struct leaves *leaves;
    struct committer *committer;
    float *weights[2];
    float *grad;
    struct nn_result *results; /* of the test leaves */
    struct partial *partials;
    uint64_t step;
    char why[ACTION_TEXT_MAX];
};

static volatile sig_atomic_t stop_asked;

static void on_signal(int signal_number)
{
    if (stop_asked)
        _exit(128 + signal_number);
    stop_asked = 1;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int open_leaves(const struct setup *setup, uint32_t threads, struct leaves **out,
                       struct nn_error *error)
{
    const struct leaves_config config = {.model = setup->model,
                                         .train = setup->train,
                                         .test = setup->test,
                                         .schedule = setup->schedule,
                                         .normalize = setup->normalize,
                                         .seed = setup->config.train.seed,
                                         .threads = threads};

    return leaves_open(out, &config, error);
}

static uint32_t eval_leaves(const struct setup *setup)
{
    return setup->test ? (uint32_t)schedule_eval_leaves(nn_dataset_count(setup->test)) : 0;
}

static int open_local(struct local *local, uint32_t threads)
{
    const struct setup *setup = &local->session->setup;
    size_t parameters = nn_model_parameters(setup->model);
    struct nn_error error = {.key = ""};

    text_format(local->why, sizeof local->why, "not enough memory for %zu parameters", parameters);
    local->weights[0] = nn_floats(parameters);
    local->weights[1] = nn_floats(parameters);
    local->grad = nn_floats(parameters);
    local->results = calloc(eval_leaves(setup) + 1, sizeof *local->results);
    local->partials = calloc(eval_leaves(setup) + 1, sizeof *local->partials);
    if (!local->weights[0] || !local->weights[1] || !local->grad || !local->results ||
        !local->partials || committer_open(&local->committer, parameters, &setup->optim) < 0)
        return EXIT_OTHER;
    if (open_leaves(setup, threads, &local->leaves, &error) < 0) {
        text_format(local->why, sizeof local->why, "%s", error.text);
        return EXIT_OTHER;
    }
    nn_model_init(setup->model, setup->config.train.seed, local->weights[0]);
    return 0;
}

static void close_local(struct local *local)
{
    leaves_free(local->leaves);
    committer_free(local->committer);
    nn_floats_free(local->weights[0]);
    nn_floats_free(local->weights[1]);
    nn_floats_free(local->grad);
    free(local->results);
    free(local->partials);
}

static void evaluate(struct leaves *leaves, const struct setup *setup, const float *weights,
                     struct nn_result *results, struct partial *partials, struct record *record)
{
    uint32_t count = eval_leaves(setup);

    leaves_evaluate(leaves, weights, (struct span){0, count}, results);
    record->kind = RECORD_EVAL;
    record->samples = nn_dataset_count(setup->test);
    record->correct = 0;
    for (uint32_t i = 0; i < count; i++) {
        partials[i] = (struct partial){.span = {i, 1}, .loss = results[i].loss};
        record->correct += results[i].correct;
    }
    record->loss = tree_sum_loss(count, partials, count) / (double)record->samples;
}

static int one_step(struct local *local)
{
    struct session *session = local->session;
    struct schedule_step step = schedule_step(&session->setup.schedule, local->step);
    uint64_t begun = now_ns();
    struct partial partial = {.span = {0, step.leaves}, .floats = local->grad};
    struct commit commit = {.step = local->step,
                            .samples = step.slice.count,
                            .leaves = step.leaves,
                            .partials = &partial,
                            .partials_count = 1,
                            .weights = local->weights[local->step % 2],
                            .next = local->weights[(local->step + 1) % 2]};
    struct record record = {.kind = RECORD_STEP, .step = local->step, .epoch = step.epoch};
    struct leaves_sum sum;

    leaves_gradient(local->leaves, commit.weights, local->step, partial.span, local->grad, &sum);
    partial.loss = sum.loss;
    if (!sum.finite) {
        text_format(local->why, sizeof local->why,
                    "step %llu: loss or gradient is not finite (this process, leaf %u): lower "
                    "train.optimizer.lr, look at the data",
                    (unsigned long long)local->step, sum.bad_leaf);
        return EXIT_NUMERIC;
    }
    commit_run(local->committer, &commit);
    if (!commit.finite) {
        text_format(local->why, sizeof local->why,
                    "step %llu: the new weights are not finite (loss %g): lower train.optimizer.lr",
                    (unsigned long long)local->step, commit.loss);
        return EXIT_NUMERIC;
    }
    local->step++;
    record.samples = commit.samples;
    record.loss = commit.loss;
    record.taken_ns = now_ns() - begun;
    memcpy(record.hash, commit.hash, sizeof record.hash);
    session_record(session, &record, now_ns());
    return 0;
}

static int all_steps(struct local *local)
{
    struct session *session = local->session;
    const struct setup *setup = &session->setup;
    uint64_t steps = schedule_steps(&setup->schedule);

    while (local->step < steps) {
        uint64_t begun;
        int code = one_step(local);

        if (code != 0)
            return code;
        if (session->dir.failed) {
            text_format(local->why, sizeof local->why, "%s", session->dir.why);
            return EXIT_OTHER;
        }
        if (stop_asked) {
            text_format(local->why, sizeof local->why, "stopped by the user");
            return EXIT_STOPPED;
        }
        begun = now_ns();
        if (setup->test && session->last_step.step + 1 == local->step &&
            schedule_step(&setup->schedule, local->step - 1).last_of_epoch) {
            struct record record = {.step = local->step, .epoch = session->last_step.epoch};

            evaluate(local->leaves, setup, local->weights[local->step % 2], local->results,
                     local->partials, &record);
            record.taken_ns = now_ns() - begun;
            session_record(session, &record, now_ns());
        }
    }
    return EXIT_DONE;
}

int local_train(struct session *session, uint32_t threads)
{
    struct local local = {.session = session};
    struct sigaction action = {.sa_handler = on_signal};
    int code = open_local(&local, threads);

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL); /* the terminal has gone */
    if (code == 0) {
        session_event(session, "view view=1 nodes=0 reason=in-process");
        code = all_steps(&local);
        code = session_end(session, code, local.why, local.weights[local.step % 2], local.step);
    } else {
        fprintf(stderr, "gradwire-coordinator: %s\n", local.why);
        rundir_discard(&session->dir);
    }
    close_local(&local);
    return code;
}

int local_evaluate(const struct setup *setup, const float *weights, uint32_t threads, double *loss,
                   uint64_t *correct)
{
    uint32_t count = eval_leaves(setup);
    struct nn_result *results = calloc(count + 1, sizeof *results);
    struct partial *partials = calloc(count + 1, sizeof *partials);
    struct leaves *leaves = NULL;
    struct nn_error error;
    struct record record = {.step = 0};
    int err = NN_ENOMEM;

    if (results && partials)
        err = open_leaves(setup, threads, &leaves, &error);
    if (err == 0) {
        evaluate(leaves, setup, weights, results, partials, &record);
        *loss = record.loss;
        *correct = record.correct;
    }
    leaves_free(leaves);
    free(results);
    free(partials);
    return err;
}
