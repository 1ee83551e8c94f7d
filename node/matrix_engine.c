/* SPDX-License-Identifier: MIT */
#include <cluster/message.h>
#include <node/matrix.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint8_t *take_landing(uint64_t floats)
{
    return (uint8_t *)nn_floats(floats + MESSAGE_HEADER / sizeof(float));
}

static void free_landing(uint8_t *bytes)
{
    nn_floats_free((float *)(void *)bytes);
}

static bool take_slot(struct matrix_engine *engine, uint32_t slot)
{
    const struct body_product *shape = &engine->shape;

    engine->a[slot] = take_landing(shape->block_rows * shape->inner);
    engine->c[slot] = nn_floats(shape->block_rows * shape->cols);
    if (shape->op == BODY_COMBINE)
        engine->b_rows[slot] = take_landing(shape->block_rows * shape->cols);
    return engine->a[slot] && engine->c[slot] &&
           (engine->b_rows[slot] || shape->op == BODY_MULTIPLY);
}

static bool take_b(struct matrix_engine *engine)
{
    const struct body_product *shape = &engine->shape;

    engine->pieces = blocks_pieces(shape);
    if (engine->pieces == 0)
        return true;
    engine->b = nn_floats(shape->inner * shape->cols);
    engine->here = calloc(engine->pieces, sizeof *engine->here);
    if (!engine->b || !engine->here)
        return false;
    for (uint32_t i = 0; i < MATRIX_STAGES && i < engine->pieces; i++) {
        engine->stages[i] = take_landing(blocks_piece_floats(shape, i));
        if (!engine->stages[i])
            return false;
    }
    return true;
}

double matrix_engine_bytes(const struct body_product *shape)
{
    double rows = (double)shape->block_rows, blocks = rows * (double)shape->inner;
    double all = 0;

    blocks += rows * (double)shape->cols * (shape->op == BODY_COMBINE ? 2 : 1);
    if (shape->op == BODY_MULTIPLY)
        all = (double)shape->inner * (double)shape->cols;
    return sizeof(float) * (all + blocks * shape->depth);
}

int matrix_engine_open(struct matrix_engine *engine, uint32_t threads)
{
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    bool taken = matrix_engine_bytes(&engine->shape) <= machine;

    taken = taken && take_b(engine);
    for (uint32_t slot = 0; taken && slot < engine->shape.depth; slot++)
        taken = take_slot(engine, slot);
    if (taken && crew_open(&engine->crew, threads, nn_thread_init) == 0)
        return 0;
    matrix_engine_close(engine);
    return NN_ENOMEM;
}

void matrix_engine_close(struct matrix_engine *engine)
{
    crew_free(engine->crew);
    nn_floats_free(engine->b);
    free(engine->here);
    for (uint32_t i = 0; i < MATRIX_STAGES; i++)
        free_landing(engine->stages[i]);
    for (uint32_t slot = 0; slot < BODY_DEPTH_MAX; slot++) {
        free_landing(engine->a[slot]);
        free_landing(engine->b_rows[slot]);
        nn_floats_free(engine->c[slot]);
    }
    memset(engine, 0, sizeof *engine);
}

static const float *floats_of(const uint8_t *landing)
{
    return (const float *)(const void *)(landing + MESSAGE_HEADER);
}

static void compute_one(const struct matrix_engine *engine, const struct matrix_task *task)
{
    const struct body_product *shape = &engine->shape;
    const float *a = floats_of(engine->a[task->slot]);
    float *c = engine->c[task->slot];

    if (shape->op == BODY_MULTIPLY) {
        nn_matmul(task->rows, shape->cols, shape->inner, a, engine->b, c);
    } else {
        const struct nn_combination combination = {
            .count = task->rows * shape->cols, .x = shape->x, .y = shape->y};

        nn_combine(&combination, a, floats_of(engine->b_rows[task->slot]), c);
    }
}

struct round {
    const struct matrix_engine *engine;
    const struct matrix_task *tasks;
    uint32_t count;
};

static void work(void *arg, uint32_t hand)
{
    const struct round *round = arg;

    if (hand < round->count)
        compute_one(round->engine, &round->tasks[hand]);
}

void matrix_compute(struct matrix_engine *engine, const struct matrix_task *tasks, uint32_t count)
{
    struct round round = {engine, tasks, count};

    assert(count <= crew_hands(engine->crew));
    crew_run(engine->crew, work, &round);
}
