/* SPDX-License-Identifier: MIT */
#include <node/state.h>

#include <assert.h>
#include <string.h>

static uint8_t *take_bytes(size_t len)
{
    return (uint8_t *)nn_floats((len + sizeof(float) - 1) / sizeof(float));
}

static void free_bytes(uint8_t **bytes)
{
    nn_floats_free((float *)(void *)*bytes);
    *bytes = NULL;
}

static size_t weights_len(const struct worker *worker)
{
    return MESSAGE_HEADER + worker->parameters * sizeof(float);
}

int buffers_open(struct worker *worker)
{
    if (worker->parameters == worker->engine.parameters)
        return 0;
    buffers_free(worker);
    worker->parameters = worker->engine.parameters;
    for (size_t i = 0; i < 2; i++) {
        worker->weights[i].buf = take_bytes(weights_len(worker));
        if (!worker->weights[i].buf) {
            buffers_free(worker);
            return NN_ENOMEM;
        }
    }
    return 0;
}

void buffers_free(struct worker *worker)
{
    for (size_t i = 0; i < 2; i++)
        free_bytes(&worker->weights[i].buf);
    for (size_t i = 0; i < OUTS_MAX; i++)
        free_bytes(&worker->outs[i].bytes);
    worker->parameters = 0;
}

void buffers_lost(struct worker *worker)
{
    for (size_t i = 0; i < 2; i++) {
        worker->weights[i].state = WEIGHTS_EMPTY;
        worker->weights[i].step = 0;
    }
}

static void post(struct worker *worker, struct weights *weights, uint64_t step)
{
    struct action *action = actions_add(worker->out, ACT_POST);

    weights->state = WEIGHTS_POSTED;
    weights->step = step;
    action->conn = worker->conn;
    action->head = (struct message){.kind = MSG_WEIGHTS, .step = step};
    action->buf = weights->buf;
    action->cap = weights_len(worker);
    action->user = weights;
}

static struct weights *weights_of(struct worker *worker, uint64_t step)
{
    for (size_t i = 0; i < 2; i++)
        if (worker->weights[i].state != WEIGHTS_EMPTY && worker->weights[i].step == step)
            return &worker->weights[i];
    return NULL;
}

/* From this step on the coordinator sends us the weights of every step.  Small ones may have
 * overtaken the news. */
void weights_expect(struct worker *worker, uint64_t first_step)
{
    if (first_step > worker->newest)
        worker->newest = first_step;
    for (uint64_t step = first_step; step < first_step + 2; step++)
        for (size_t i = 0; i < 2 && !weights_of(worker, step); i++)
            if (worker->weights[i].state == WEIGHTS_EMPTY)
                post(worker, &worker->weights[i], step);
}

static bool in_use(const struct worker *worker, const struct weights *weights)
{
    return worker->busy && worker->job.kind != JOB_PREPARE &&
           worker->job.weights == (const float *)(const void *)(weights->buf + MESSAGE_HEADER);
}

/* A message that began to come before its landing was posted never gets there: nothing else has its
 * tag, so the buffer is ours again. */
static void unpost(struct worker *worker, const struct weights *weights)
{
    struct action *action = actions_add(worker->out, ACT_UNPOST);

    action->conn = worker->conn;
    action->head = (struct message){.kind = MSG_WEIGHTS, .step = weights->step};
}

static struct weights *oldest_unused(struct worker *worker)
{
    struct weights *best = NULL;

    for (size_t i = 0; i < 2; i++) {
        struct weights *weights = &worker->weights[i];

        if (weights->state == WEIGHTS_POSTED || in_use(worker, weights))
            continue;
        if (!best || weights->step < best->step)
            best = weights;
    }
    return best;
}

/* Weights of a small model that came before we had a landing for them: rdt pooled them.  They take
 * the place that is kept for them by now, or that of the oldest ones. */
static struct weights *copy_in(struct worker *worker, const struct input *input)
{
    struct weights *weights = weights_of(worker, input->head.step);

    if (weights && weights->state == WEIGHTS_POSTED)
        unpost(worker, weights);
    else
        weights = oldest_unused(worker);
    if (weights)
        memcpy(weights->buf + MESSAGE_HEADER, input->body, input->body_len);
    return weights;
}

void weights_arrived(struct worker *worker, const struct input *input)
{
    struct weights *weights = input->user;

    if (input->body_len != worker->parameters * sizeof(float)) {
        worker_give_up(worker, "weights of another length");
        return;
    }
    if (!weights)
        weights = copy_in(worker, input);
    if (!weights) {
        worker_give_up(worker, "weights of a step that nobody is ready for");
        return;
    }
    weights->state = WEIGHTS_HELD;
    weights->step = input->head.step;
    if (weights->step > worker->newest)
        worker->newest = weights->step;
}

/* Weights older than the newest are of no use to anyone: their place is for the next ones. */
void weights_recycle(struct worker *worker)
{
    uint64_t next = worker->newest + 1;

    if (weights_of(worker, next))
        return;
    for (size_t i = 0; i < 2; i++) {
        struct weights *weights = &worker->weights[i];

        if (weights->state != WEIGHTS_HELD || weights->step >= worker->newest ||
            in_use(worker, weights))
            continue;
        post(worker, weights, next);
        return;
    }
}

const float *weights_held(const struct worker *worker, uint64_t step)
{
    for (size_t i = 0; i < 2; i++)
        if (worker->weights[i].state == WEIGHTS_HELD && worker->weights[i].step == step)
            return (const float *)(const void *)(worker->weights[i].buf + MESSAGE_HEADER);
    return NULL;
}

struct out *outs_take(struct worker *worker)
{
    size_t len = body_partial_len(worker->parameters);

    if (len < BODY_MAX)
        len = BODY_MAX;
    for (size_t i = 0; i < OUTS_MAX; i++) {
        struct out *out = &worker->outs[i];

        if (out->state != OUT_FREE)
            continue;
        if (!out->bytes)
            out->bytes = take_bytes(len);
        return out->bytes ? out : NULL;
    }
    return NULL;
}
