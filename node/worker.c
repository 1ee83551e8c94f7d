/* SPDX-License-Identifier: MIT */
#include <node/worker.h>

#include <cluster/text.h>
#include <node/state.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t second_ns = 1000000000;
static const uint64_t retry_max_ns = 5 * 1000000000ull;

int worker_open(struct worker **out, const struct worker_config *config)
{
    struct worker *worker = calloc(1, sizeof *worker);

    assert(body_name_ok(config->name));
    if (!worker)
        return NN_ENOMEM;
    worker->config = *config;
    worker->retry_ns = second_ns;
    *out = worker;
    return 0;
}

void worker_free(struct worker *worker)
{
    if (!worker)
        return;
    buffers_free(worker);
    engine_close(&worker->engine);
    matrix_engine_close(&worker->matrix.engine);
    free(worker);
}

void worker_send(struct worker *worker, struct message head, const void *body, size_t body_len,
                 void *user)
{
    struct action *action = actions_add(worker->out, ACT_SEND);

    head.run_id = worker->run_id;
    head.body_len = (uint32_t)body_len;
    action->conn = worker->conn;
    action->head = head;
    action->body = body;
    action->body_len = body_len;
    action->user = user;
}

void worker_event(struct worker *worker, const char *text)
{
    text_format(actions_add(worker->out, ACT_EVENT)->text, ACTION_TEXT_MAX, "%s", text);
}

void worker_leave(struct worker *worker, enum worker_exit code, const char *text)
{
    struct action *action = actions_add(worker->out, ACT_EXIT);

    worker->exiting = true;
    action->code = (int)code;
    text_format(action->text, sizeof action->text, "%s", text);
}

static bool is_alone(const struct worker *worker)
{
    return worker->state != WORKER_PREPARING && worker->state != WORKER_READY;
}

void worker_give_up(struct worker *worker, const char *why)
{
    char text[ACTION_TEXT_MAX];

    text_format(text, sizeof text, "disconnect reason=\"%s\"", why);
    worker_event(worker, text);
    actions_add(worker->out, ACT_ABORT)->conn = worker->conn;
    if (!is_alone(worker))
        worker->alone_since = worker->now;
    worker->state = WORKER_CLOSING;
}

/* ---------- connecting ---------- */

static void connect_now(struct worker *worker)
{
    struct action *action = actions_add(worker->out, ACT_CONNECT);

    action->peer = worker->config.peer;
    worker->state = WORKER_CONNECTING;
}

static uint64_t patience_ends(const struct worker *worker)
{
    uint64_t wait = worker->config.wait_ns;

    return wait > UINT64_MAX - worker->alone_since ? UINT64_MAX : worker->alone_since + wait;
}

static void on_time(struct worker *worker)
{
    char text[ACTION_TEXT_MAX], addr[RDT_ADDR_TEXT_MAX];

    if (!worker->begun) {
        worker->begun = true;
        worker->alone_since = worker->now;
        rdt_addr_format(&worker->config.peer, addr);
        text_format(text, sizeof text, "connecting coordinator=%s", addr);
        worker_event(worker, text);
        connect_now(worker);
        return;
    }
    if (is_alone(worker) && worker->now >= patience_ends(worker)) {
        rdt_addr_format(&worker->config.peer, addr);
        text_format(text, sizeof text, "no coordinator at %s within %llu s", addr,
                    (unsigned long long)(worker->config.wait_ns / second_ns));
        worker_leave(worker, WORKER_NOT_STARTED, text);
        return;
    }
    if (worker->state == WORKER_IDLE && worker->now >= worker->retry_at)
        connect_now(worker);
}

static void on_connected(struct worker *worker, const struct input *input)
{
    struct body_join join = {.instance = worker->config.instance,
                             .threads = worker->config.threads};

    if (worker->state != WORKER_CONNECTING)
        return;
    worker->conn = input->conn;
    worker->state = WORKER_JOINING;
    worker->run_id = 0;
    memcpy(join.name, worker->config.name, sizeof join.name);
    worker_send(worker, (struct message){.kind = MSG_JOIN}, worker->join_body,
                body_join_encode(&join, worker->join_body), NULL);
}

static void on_closed(struct worker *worker, const struct input *input)
{
    char text[ACTION_TEXT_MAX];

    if (!is_alone(worker)) {
        text_format(text, sizeof text, "lost coordinator reason=%s",
                    rdt_closed_name(input->reason));
        worker_event(worker, text);
        worker->alone_since = worker->now;
        worker->retry_ns = second_ns;
    }
    worker->state = WORKER_IDLE;
    worker->conn = (struct rdt_conn){.slot = 0};
    worker->wants_engine = false;
    worker->assignments_count = 0;
    worker->stale = worker->busy;
    buffers_lost(worker);
    worker->retry_at = worker->now + worker->retry_ns;
    worker->retry_ns *= 2;
    if (worker->retry_ns > retry_max_ns)
        worker->retry_ns = retry_max_ns;
}

/* ---------- messages ---------- */

static void on_welcome(struct worker *worker, const struct input *input)
{
    struct body_welcome welcome;

    if (worker->state != WORKER_JOINING)
        return;
    if (input->head.aux == PURPOSE_PRODUCT) {
        matrix_welcome(worker, input);
        return;
    }
    worker->matrix.on = false;
    if (!body_welcome_decode(&welcome, input->body, input->body_len)) {
        worker_give_up(worker, "the coordinator's description of the run cannot be read");
        return;
    }
    worker->run_id = input->head.run_id;
    memcpy(worker->model_text, welcome.model, welcome.model_len);
    worker->welcome = welcome;
    worker->welcome.model = worker->model_text;
    worker->newest = input->head.step;
    worker->wants_engine = true;
    worker->state = WORKER_PREPARING;
}

static void on_refuse(struct worker *worker, const struct input *input)
{
    char reason[BODY_TEXT_MAX], text[ACTION_TEXT_MAX + 32];

    if (!body_refuse_decode(reason, input->body, input->body_len))
        return;
    text_format(text, sizeof text, "refused by the coordinator: %s", reason);
    if (input->head.aux)
        worker_leave(worker, WORKER_NOT_STARTED, text);
    else
        worker_give_up(worker, text); /* another run may want us */
}

static void on_message(struct worker *worker, const struct input *input)
{
    enum message_kind kind = input->head.kind;

    if (kind == MSG_WELCOME) {
        on_welcome(worker, input);
        return;
    }
    if (kind == MSG_REFUSE) {
        on_refuse(worker, input);
        return;
    }
    if (kind == MSG_BYE) {
        worker_leave(worker, WORKER_DONE, "the run is over");
        return;
    }
    if (worker->state != WORKER_READY || input->head.run_id != worker->run_id)
        return;
    if (worker->matrix.on)
        matrix_message(worker, input);
    else if (kind == MSG_WEIGHTS)
        weights_arrived(worker, input);
    else if (kind == MSG_SAMPLES)
        work_samples(worker, input);
    else if (kind == MSG_STEP || kind == MSG_EVAL)
        work_assign(worker, &input->head);
}

/* ---------- jobs ---------- */

static void start_prepare(struct worker *worker)
{
    struct job *job = &worker->job;

    worker->wants_engine = false;
    engine_close(&worker->engine);
    matrix_engine_close(&worker->matrix.engine);
    memset(&job->ready, 0, sizeof job->ready);
    job->kind = JOB_PREPARE;
    job->engine = &worker->engine;
    memcpy(job->model_text, worker->model_text, worker->welcome.model_len);
    job->welcome = worker->welcome;
    job->welcome.model = job->model_text;
    job->threads = worker->config.threads;
    job->data_dir = worker->config.data_dir;
    job->store = worker->config.store;
    worker->busy = true;
    worker->stale = false;
    actions_add(worker->out, ACT_COMPUTE)->job = job;
}

static void on_prepared(struct worker *worker)
{
    const struct job *job = &worker->job;
    char text[ACTION_TEXT_MAX];

    if (job->err < 0) {
        worker_send(worker, (struct message){.kind = MSG_LEAVE}, NULL, 0, NULL);
        worker_leave(worker, WORKER_NOT_STARTED, job->why);
        return;
    }
    if (buffers_open(worker) < 0) {
        worker_send(worker, (struct message){.kind = MSG_LEAVE}, NULL, 0, NULL);
        worker_leave(worker, WORKER_NOT_STARTED, "not enough memory for the weights of the run");
        return;
    }
    worker->state = WORKER_READY;
    worker->retry_ns = second_ns;
    worker_send(worker, (struct message){.kind = MSG_READY}, worker->ready_body,
                body_ready_encode(&job->ready, worker->ready_body), NULL);
    text_format(text, sizeof text, "joined run=%016llx kernel=%s train_data=%s test_data=%s",
                (unsigned long long)worker->run_id, nn_blas_kernel(),
                job->ready.has_train ? "own" : "sent", job->ready.has_test ? "own" : "sent");
    worker_event(worker, text);
}

static void on_computed(struct worker *worker)
{
    worker->busy = false;
    if (worker->job.kind == JOB_MATRIX_PREPARE || worker->job.kind == JOB_MATRIX_BLOCKS)
        matrix_computed(worker);
    else if (worker->job.kind != JOB_PREPARE)
        work_done(worker);
    else if (!worker->stale)
        on_prepared(worker);
}

static void on_released(const struct worker *worker, const struct input *input)
{
    struct out *out = input->user;

    if (!out)
        return;
    if (worker->matrix.on) {
        matrix_released(input->user);
        return;
    }
    assert(out->state == OUT_SENDING);
    out->state = OUT_FREE;
}

static bool is_ours(const struct worker *worker, const struct input *input)
{
    return worker->conn.generation == input->conn.generation &&
           worker->conn.slot == input->conn.slot;
}

static void dispatch(struct worker *worker, const struct input *input)
{
    switch (input->kind) {
    case IN_TIME:
        on_time(worker);
        break;
    case IN_CONNECTED:
        on_connected(worker, input);
        break;
    case IN_CLOSED:
        if (worker->state == WORKER_CONNECTING || is_ours(worker, input))
            on_closed(worker, input);
        break;
    case IN_MESSAGE:
        if (is_ours(worker, input) && worker->state != WORKER_CLOSING)
            on_message(worker, input);
        break;
    case IN_RELEASED:
        on_released(worker, input);
        break;
    case IN_COMPUTED:
        on_computed(worker);
        break;
    case IN_STOP:
        if (worker->conn.generation != 0 && worker->state != WORKER_CLOSING)
            worker_send(worker, (struct message){.kind = MSG_LEAVE}, NULL, 0, NULL);
        worker_leave(worker, WORKER_STOPPED, "stopped by the user");
        break;
    }
}

void worker_step(void *state, const struct input *input, uint64_t now_ns, struct actions *out)
{
    struct worker *worker = state;

    worker->out = out;
    worker->now = now_ns;
    dispatch(worker, input);
    if (worker->exiting)
        return;
    if (worker->wants_engine && !worker->busy && worker->matrix.on)
        matrix_prepare(worker);
    else if (worker->wants_engine && !worker->busy)
        start_prepare(worker);
    if (worker->state == WORKER_READY && worker->matrix.on)
        matrix_advance(worker);
    else if (worker->state == WORKER_READY)
        work_advance(worker);
}

uint64_t worker_deadline(const void *state)
{
    const struct worker *worker = state;
    uint64_t deadline = UINT64_MAX;

    if (!worker->begun)
        return 0;
    if (worker->exiting)
        return UINT64_MAX;
    if (is_alone(worker))
        deadline = patience_ends(worker);
    if (worker->state == WORKER_IDLE && worker->retry_at < deadline)
        deadline = worker->retry_at;
    return deadline;
}

void worker_run(void *state, void *job)
{
    (void)state; /* the job holds all it needs */
    job_run(job);
}
