/* SPDX-License-Identifier: MIT */
#include <node/matrix.h>

#include <cluster/text.h>
#include <node/state.h>

#include <assert.h>
#include <string.h>

static const uint64_t second_ns = 1000000000;

void matrix_welcome(struct worker *worker, const struct input *input)
{
    struct matrix *matrix = &worker->matrix;

    if (!body_product_decode(&matrix->shape, input->body, input->body_len)) {
        worker_give_up(worker, "the coordinator's description of the product cannot be read");
        return;
    }
    matrix->on = true;
    worker->run_id = input->head.run_id;
    worker->wants_engine = true;
    worker->state = WORKER_PREPARING;
}

void matrix_prepare(struct worker *worker)
{
    struct matrix *matrix = &worker->matrix;
    struct job *job = &worker->job;

    worker->wants_engine = false;
    matrix_engine_close(&matrix->engine);
    matrix->engine.shape = matrix->shape;
    job->kind = JOB_MATRIX_PREPARE;
    job->matrix = &matrix->engine;
    job->threads = worker->config.threads;
    memset(&job->ready, 0, sizeof job->ready);
    worker->busy = true;
    worker->stale = false;
    actions_add(worker->out, ACT_COMPUTE)->job = job;
}

/* ---------- landings ---------- */

static void post(struct worker *worker, struct message head, uint8_t *buf, uint64_t floats)
{
    struct action *action = actions_add(worker->out, ACT_POST);

    action->conn = worker->conn;
    action->head = head;
    action->buf = buf;
    action->cap = MESSAGE_HEADER + floats * sizeof(float);
    action->user = buf;
}

static void post_piece(struct worker *worker, uint64_t idx)
{
    struct matrix_engine *engine = &worker->matrix.engine;

    /* A short last one may have come before its landing. */
    if (idx >= engine->pieces || engine->here[idx])
        return;
    post(worker, (struct message){.kind = MSG_OPERAND, .step = idx},
         engine->stages[idx % MATRIX_STAGES], blocks_piece_floats(&engine->shape, idx));
}

static void post_slot(struct worker *worker, uint32_t idx, uint64_t serial)
{
    struct matrix *matrix = &worker->matrix;
    const struct body_product *shape = &matrix->shape;
    struct matrix_slot *slot = &matrix->slots[idx];

    slot->serial = serial;
    slot->has_a = false;
    slot->has_b = shape->op == BODY_MULTIPLY;
    post(worker, (struct message){.kind = MSG_BLOCK, .step = serial}, matrix->engine.a[idx],
         shape->block_rows * shape->inner);
    if (shape->op == BODY_COMBINE)
        post(worker, (struct message){.kind = MSG_OPERAND, .step = serial},
             matrix->engine.b_rows[idx], shape->block_rows * shape->cols);
}

static void prepared(struct worker *worker)
{
    struct matrix *matrix = &worker->matrix;
    char text[ACTION_TEXT_MAX];

    if (worker->job.err < 0) {
        worker_send(worker, (struct message){.kind = MSG_LEAVE}, NULL, 0, NULL);
        worker_leave(worker, WORKER_NOT_STARTED, worker->job.why);
        return;
    }
    worker->state = WORKER_READY;
    worker->retry_ns = second_ns;
    matrix->pieces_here = 0;
    memset(matrix->slots, 0, sizeof matrix->slots);
    for (uint64_t i = 0; i < MATRIX_STAGES; i++)
        post_piece(worker, i);
    for (uint32_t i = 0; i < matrix->shape.depth; i++)
        post_slot(worker, i, i);
    worker_send(worker, (struct message){.kind = MSG_READY}, worker->ready_body,
                body_ready_encode(&worker->job.ready, worker->ready_body), NULL);
    text_format(text, sizeof text, "joined run=%016llx kernel=%s product=%llux%llux%llu",
                (unsigned long long)worker->run_id, nn_blas_kernel(),
                (unsigned long long)matrix->shape.rows, (unsigned long long)matrix->shape.inner,
                (unsigned long long)matrix->shape.cols);
    worker_event(worker, text);
}

/* ---------- messages ---------- */

static void piece_arrived(struct worker *worker, const struct input *input)
{
    struct matrix_engine *engine = &worker->matrix.engine;
    uint64_t idx = input->head.step;

    if (idx >= engine->pieces || engine->here[idx] ||
        input->body_len != blocks_piece_floats(&engine->shape, idx) * sizeof(float)) {
        worker_give_up(worker, "a piece of B that does not fit the product");
        return;
    }
    memcpy(engine->b + idx * BODY_PIECE_FLOATS, input->body, input->body_len);
    engine->here[idx] = true;
    worker->matrix.pieces_here++;
    if (input->user)
        post_piece(worker, idx + MATRIX_STAGES);
}

/* Nothing was posted for it, it came twice, or its other half is of other rows. */
static bool is_out_of_place(const struct matrix_slot *slot, const struct input *input, bool is_a,
                            bool combines)
{
    const struct message *head = &input->head;

    if (!input->user || slot->serial != head->step || (is_a ? slot->has_a : slot->has_b))
        return true;
    return combines && (is_a ? slot->has_b : slot->has_a) && slot->first != head->aux;
}

/* Rows of A, or of B: both name the first row. */
static void rows_arrived(struct worker *worker, const struct input *input, uint64_t width)
{
    struct matrix *matrix = &worker->matrix;
    const struct body_product *shape = &matrix->shape;
    struct matrix_slot *slot = &matrix->slots[input->head.step % shape->depth];
    bool is_a = input->head.kind == MSG_BLOCK;
    uint64_t first = input->head.aux;
    struct block block;

    if (is_out_of_place(slot, input, is_a, shape->op == BODY_COMBINE) || first >= shape->rows ||
        first % shape->block_rows != 0) {
        worker_give_up(worker, "a block that nobody is ready for");
        return;
    }
    block = blocks_at(shape, first / shape->block_rows);
    if (input->body_len != block.rows * width * sizeof(float)) {
        worker_give_up(worker, "a block of another size");
        return;
    }
    slot->first = block.first;
    slot->rows = block.rows;
    if (is_a)
        slot->has_a = true;
    else
        slot->has_b = true;
}

void matrix_message(struct worker *worker, const struct input *input)
{
    const struct body_product *shape = &worker->matrix.shape;

    if (input->head.kind == MSG_BLOCK)
        rows_arrived(worker, input, shape->inner);
    else if (input->head.kind == MSG_OPERAND && shape->op == BODY_MULTIPLY)
        piece_arrived(worker, input);
    else if (input->head.kind == MSG_OPERAND)
        rows_arrived(worker, input, shape->cols);
}

void matrix_released(struct matrix_slot *slot)
{
    assert(slot->lent);
    slot->lent = false;
}

/* ---------- computing ---------- */

/* The block that came first among those that can be computed; NULL: none. */
static struct matrix_slot *next_slot(struct matrix *matrix)
{
    struct matrix_slot *best = NULL;

    for (uint32_t i = 0; i < matrix->shape.depth; i++) {
        struct matrix_slot *slot = &matrix->slots[i];

        if (!slot->has_a || !slot->has_b || slot->computing || slot->lent)
            continue;
        if (!best || slot->serial < best->serial)
            best = slot;
    }
    return best;
}

void matrix_advance(struct worker *worker)
{
    struct matrix *matrix = &worker->matrix;
    struct job *job = &worker->job;
    struct matrix_slot *slot;

    if (worker->busy || matrix->pieces_here < matrix->engine.pieces)
        return;
    job->tasks_count = 0;
    while (job->tasks_count < crew_hands(matrix->engine.crew) && (slot = next_slot(matrix))) {
        slot->computing = true;
        job->tasks[job->tasks_count++] =
            (struct matrix_task){(uint32_t)(slot - matrix->slots), slot->rows};
    }
    if (job->tasks_count == 0)
        return;
    job->kind = JOB_MATRIX_BLOCKS;
    job->matrix = &matrix->engine;
    worker->busy = true;
    worker->stale = false;
    actions_add(worker->out, ACT_COMPUTE)->job = job;
}

static void send_result(struct worker *worker, const struct matrix_task *task)
{
    struct matrix *matrix = &worker->matrix;
    struct matrix_slot *slot = &matrix->slots[task->slot];
    const struct message head = {.kind = MSG_RESULT, .step = slot->serial, .aux = slot->first};

    slot->computing = false;
    slot->lent = true;
    /* First the landing: the result makes the coordinator send the next block. */
    post_slot(worker, task->slot, slot->serial + matrix->shape.depth);
    worker_send(worker, head, matrix->engine.c[task->slot],
                task->rows * matrix->shape.cols * sizeof(float), slot);
}

void matrix_computed(struct worker *worker)
{
    const struct job *job = &worker->job;

    if (worker->stale)
        return;
    if (job->kind == JOB_MATRIX_PREPARE) {
        prepared(worker);
        return;
    }
    if (worker->state != WORKER_READY)
        return;
    for (uint32_t i = 0; i < job->tasks_count; i++)
        send_result(worker, &job->tasks[i]);
}
