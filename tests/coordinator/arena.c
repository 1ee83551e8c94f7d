/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include "problem.h"

#include <cluster/message.h>
#include <cluster/text.h>

#include <assert.h>
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROCS = ARENA_NODES_MAX + 1,
    CONNS = 256,
    POSTS = 4096,
    POOLED_MAX = 65536,
};

static const uint64_t ms = 1000000;

enum item_kind {
    ITEM_MESSAGE,
    ITEM_RELEASED,
    ITEM_CLOSED,
    ITEM_CONNECTED,
    ITEM_COMPUTED,
    ITEM_CLOSE
};

struct item {
    struct item *next;
    uint64_t at, seq;
    enum item_kind kind;
    uint32_t proc; /* who gets it; MESSAGE: the receiver */
    uint32_t conn;
    struct message head;
    const void *lent; /* MESSAGE, RELEASED: the sender's bytes, and what they were */
    uint8_t *copy;
    size_t len;
    void *user;
    int status;
    enum rdt_closed reason;
    void *job;
    bool ran;
    uint64_t flush_until;
};

struct post {
    uint32_t proc, conn;
    uint64_t tag;
    uint8_t *buf;
    size_t cap;
    void *user;
};

struct proc {
    void *state;
    void (*step)(void *, const struct input *, uint64_t, struct actions *);
    uint64_t (*deadline)(const void *);
    void (*run)(void *, void *);
    bool gone;
    int code;
};

struct conn {
    uint32_t proc[2]; /* connecting node, coordinator */
    bool open;
    uint64_t control_at[2]; /* by receiver's side: control is ordered */
};

struct arena {
    const struct arena_config *config;
    struct arena_result *result;
    uint64_t now, seq, random;
    struct proc procs[PROCS];
    uint32_t procs_count;
    struct conn conns[CONNS];
    uint32_t conns_count;
    struct post posts[POSTS];
    size_t posts_count;
    struct item *items;
    struct actions actions;
    bool stop_due;
};

static uint64_t soon(struct arena *arena)
{
    /* Mostly quick, sometimes very late: a retransmission or two. */
    return problem_draw(&arena->random) % 10 == 0 ? problem_draw(&arena->random) % (50 * ms)
                                                  : problem_draw(&arena->random) % ms;
}

static struct item *add(struct arena *arena, enum item_kind kind, uint32_t proc, uint32_t conn,
                        uint64_t at)
{
    struct item *item = calloc(1, sizeof *item);

    ck_assert_ptr_nonnull(item);
    item->kind = kind;
    item->proc = proc;
    item->conn = conn;
    item->at = at;
    item->seq = arena->seq++;
    item->next = arena->items;
    arena->items = item;
    return item;
}

static void drop(struct arena *arena, struct item *item)
{
    struct item **at = &arena->items;

    while (*at != item)
        at = &(*at)->next;
    *at = item->next;
    free(item->copy);
    free(item);
}

static struct item *first_item(struct arena *arena)
{
    struct item *best = NULL;

    for (struct item *item = arena->items; item; item = item->next)
        if (!best || item->at < best->at || (item->at == best->at && item->seq < best->seq))
            best = item;
    return best;
}

static void feed(struct arena *arena, uint32_t idx, struct input *input);

static struct rdt_conn handle(uint32_t conn)
{
    return (struct rdt_conn){.slot = conn, .generation = conn + 1};
}

static uint32_t other_end(const struct conn *conn, uint32_t proc)
{
    return conn->proc[conn->proc[0] == proc];
}

/* Everything under way is released, then both ends hear of it. */
static void close_conn(struct arena *arena, uint32_t idx, enum rdt_closed here, uint32_t closer)
{
    struct conn *conn = &arena->conns[idx];

    if (!conn->open)
        return;
    conn->open = false;
    for (struct item *item = arena->items; item; item = item->next) {
        if (item->conn != idx || (item->kind != ITEM_MESSAGE && item->kind != ITEM_RELEASED))
            continue;
        if (item->kind == ITEM_MESSAGE) {
            item->kind = ITEM_RELEASED;
            item->proc = other_end(conn, item->proc);
            item->status = RDT_ABORTED;
        }
        item->at = arena->now;
    }
    for (size_t i = arena->posts_count; i-- > 0;)
        if (arena->posts[i].conn == idx)
            arena->posts[i] = arena->posts[--arena->posts_count];
    for (size_t side = 0; side < 2; side++) {
        struct item *item = add(arena, ITEM_CLOSED, conn->proc[side], idx, arena->now);

        item->reason = conn->proc[side] == closer ? here : RDT_CLOSED_PEER;
        if (here == RDT_CLOSED_DEAD)
            item->reason = here;
    }
}

static void act_send(struct arena *arena, uint32_t proc, const struct action *action)
{
    uint32_t idx = action->conn.slot;
    struct conn *conn = &arena->conns[idx];
    bool control = message_channel(action->head.kind) == CHANNEL_CONTROL;
    uint64_t at = arena->now + soon(arena);
    uint32_t to = other_end(conn, proc);
    struct item *item;

    if (control) {
        size_t side = conn->proc[1] == to;

        at = at > conn->control_at[side] ? at : conn->control_at[side] + 1;
        conn->control_at[side] = at;
    }
    item = add(arena, conn->open ? ITEM_MESSAGE : ITEM_RELEASED, conn->open ? to : proc, idx, at);
    item->status = conn->open ? 0 : RDT_ABORTED;
    item->head = action->head;
    item->lent = action->body;
    item->len = action->body_len;
    item->user = action->user;
    item->copy = malloc(action->body_len + 1);
    ck_assert_uint_eq(action->head.body_len, action->body_len);
    if (action->body_len > 0)
        memcpy(item->copy, action->body, action->body_len);
}

static void act_post(struct arena *arena, uint32_t proc, const struct action *action)
{
    struct post post = {.proc = proc,
                        .conn = action->conn.slot,
                        .tag = message_tag(&action->head),
                        .buf = action->buf,
                        .cap = action->cap,
                        .user = action->user};

    for (size_t i = 0; i < arena->posts_count; i++)
        ck_assert_msg(arena->posts[i].buf != post.buf, "a buffer is posted twice");
    ck_assert_uint_lt(arena->posts_count, POSTS);
    arena->posts[arena->posts_count++] = post;
}

static void act_compute(struct arena *arena, uint32_t proc, const struct action *action)
{
    struct item *item = add(arena, ITEM_COMPUTED, proc, 0, arena->now + soon(arena));

    item->job = action->job;
    /* At the start or at the end: what the job reads must hold still meanwhile. */
    item->ran = problem_draw(&arena->random) % 2;
    if (item->ran)
        arena->procs[proc].run(arena->procs[proc].state, item->job);
}

static void take_record(struct arena *arena, const struct record *record)
{
    result_record(arena->result, record);
    if (record->kind == RECORD_STEP && arena->config->stop &&
        record->step == arena->config->stop_at_step)
        arena->stop_due = true;
}

static void exit_proc(struct arena *arena, uint32_t proc, const struct action *action)
{
    arena->procs[proc].gone = true;
    arena->procs[proc].code = action->code;
    if (proc == 0)
        text_format(arena->result->text, ACTION_TEXT_MAX, "%s", action->text);
    for (uint32_t i = 0; i < arena->conns_count; i++)
        if (arena->conns[i].proc[0] == proc || arena->conns[i].proc[1] == proc)
            close_conn(arena, i, RDT_CLOSED_LOCAL, proc);
}

static void act_connect(struct arena *arena, uint32_t proc)
{
    uint32_t idx = arena->conns_count++;

    ck_assert_uint_lt(idx, CONNS);
    arena->conns[idx] = (struct conn){.proc = {proc, 0}, .open = true};
    add(arena, ITEM_CONNECTED, 0, idx, arena->now + soon(arena));
}

static void perform(struct arena *arena, uint32_t proc)
{
    for (size_t i = 0; i < arena->actions.count; i++) {
        const struct action *action = &arena->actions.items[i];

        switch (action->kind) {
        case ACT_CONNECT:
            act_connect(arena, proc);
            break;
        case ACT_CLOSE:
            add(arena, ITEM_CLOSE, proc, action->conn.slot, arena->now)->flush_until =
                arena->now + action->flush_ns;
            break;
        case ACT_ABORT:
            close_conn(arena, action->conn.slot, RDT_CLOSED_LOCAL, proc);
            break;
        case ACT_SEND:
            act_send(arena, proc, action);
            break;
        case ACT_POST:
            act_post(arena, proc, action);
            break;
        case ACT_UNPOST:
            ck_abort_msg("nobody takes posts back");
            break;
        case ACT_COMPUTE:
            act_compute(arena, proc, action);
            break;
        case ACT_EVENT:
            if (proc == 0)
                result_event(arena->result, action->text);
            break;
        case ACT_RECORD:
            take_record(arena, action->record);
            break;
        case ACT_EXIT:
            exit_proc(arena, proc, action);
            break;
        }
    }
    arena->actions.count = 0;
}

static void feed(struct arena *arena, uint32_t idx, struct input *input)
{
    struct proc *proc = &arena->procs[idx];

    if (proc->gone)
        return;
    arena->actions.count = 0;
    proc->step(proc->state, input, arena->now, &arena->actions);
    perform(arena, idx);
    if (arena->stop_due && !arena->procs[0].gone) {
        struct input stop = {.kind = IN_STOP};

        arena->stop_due = false;
        feed(arena, 0, &stop);
    }
}

/* The kill switch: the node never sees this message, and nothing of it is heard again. */
static bool killed(struct arena *arena, const struct item *item)
{
    uint32_t victim = arena->config->nodes;

    if (!arena->config->kill || item->proc != victim || item->head.kind != MSG_STEP ||
        item->head.step != arena->config->kill_at_step)
        return false;
    arena->procs[victim].gone = true;
    return true;
}

static bool deliver(struct arena *arena, struct item *item)
{
    struct input input = {.kind = IN_MESSAGE, .conn = handle(item->conn), .head = item->head};
    uint64_t tag = message_tag(&item->head);
    uint32_t proc = item->proc;

    input.body = item->copy;
    input.body_len = item->len;
    for (size_t i = 0; i < arena->posts_count && tag != 0; i++) {
        struct post post = arena->posts[i];

        if (post.proc != proc || post.conn != item->conn || post.tag != tag)
            continue;
        ck_assert_uint_le(item->len + MESSAGE_HEADER, post.cap);
        arena->posts[i] = arena->posts[--arena->posts_count];
        message_encode(&item->head, post.buf);
        memcpy(post.buf + MESSAGE_HEADER, item->copy, item->len);
        input.body = post.buf + MESSAGE_HEADER;
        input.user = post.user;
        break;
    }
    if (!input.user && item->len + MESSAGE_HEADER > POOLED_MAX)
        return false; /* waits for a post */
    if (arena->config->liar > 0 && item->head.kind == MSG_READY &&
        arena->conns[item->conn].proc[0] == arena->config->liar)
        item->copy[0] ^= 1;
    /* The acknowledgement may be late. */
    item->kind = ITEM_RELEASED;
    item->proc = other_end(&arena->conns[item->conn], proc);
    item->at = arena->now + soon(arena);
    feed(arena, proc, &input);
    return true;
}

static void release(struct arena *arena, struct item *item)
{
    struct input input = {.kind = IN_RELEASED,
                          .conn = handle(item->conn),
                          .user = item->user,
                          .status = item->status};
    uint32_t proc = item->proc;

    if (!arena->procs[proc].gone && item->len > 0 && item->head.kind != MSG_READY)
        ck_assert_msg(memcmp(item->lent, item->copy, item->len) == 0,
                      "the body of a %s changed while it was lent", message_name(item->head.kind));
    drop(arena, item);
    feed(arena, proc, &input);
}

static void connected(struct arena *arena, struct item *item)
{
    struct conn *conn = &arena->conns[item->conn];
    struct input input = {.kind = IN_CONNECTED, .conn = handle(item->conn), .incoming = true};
    uint32_t idx = item->conn;

    drop(arena, item);
    if (arena->procs[0].gone) {
        close_conn(arena, idx, RDT_CLOSED_TIMEOUT, conn->proc[0]);
        return;
    }
    input.peer = rdt_addr_v4(10, 0, 0, (uint8_t)conn->proc[0], 1);
    feed(arena, 0, &input);
    input.incoming = false;
    if (conn->open)
        feed(arena, conn->proc[0], &input);
}

static bool is_busy(const struct arena *arena, uint32_t conn)
{
    for (const struct item *item = arena->items; item; item = item->next)
        if (item->conn == conn && (item->kind == ITEM_MESSAGE || item->kind == ITEM_RELEASED))
            return true;
    return false;
}

static void computed(struct arena *arena, struct item *item)
{
    struct input input = {.kind = IN_COMPUTED, .job = item->job};
    struct proc *proc = &arena->procs[item->proc];
    uint32_t idx = item->proc;

    if (!item->ran && !proc->gone)
        proc->run(proc->state, item->job);
    drop(arena, item);
    feed(arena, idx, &input);
}

static void happen(struct arena *arena, struct item *item)
{
    struct input input;
    uint32_t proc = item->proc;

    switch (item->kind) {
    case ITEM_MESSAGE:
        if (killed(arena, item)) {
            add(arena, ITEM_CLOSE, 0, item->conn, arena->now)->flush_until = arena->now + 2500 * ms;
            drop(arena, item);
        } else if (!deliver(arena, item)) {
            item->at += ms / 10;
        }
        break;
    case ITEM_RELEASED:
        release(arena, item);
        break;
    case ITEM_CLOSED:
        input =
            (struct input){.kind = IN_CLOSED, .conn = handle(item->conn), .reason = item->reason};
        drop(arena, item);
        feed(arena, proc, &input);
        break;
    case ITEM_CONNECTED:
        connected(arena, item);
        break;
    case ITEM_COMPUTED:
        computed(arena, item);
        break;
    case ITEM_CLOSE:
        if (is_busy(arena, item->conn) && arena->now < item->flush_until) {
            item->at += ms / 10;
            break;
        }
        close_conn(arena, item->conn,
                   arena->procs[other_end(&arena->conns[item->conn], proc)].gone ? RDT_CLOSED_DEAD
                                                                                 : RDT_CLOSED_LOCAL,
                   proc);
        drop(arena, item);
        break;
    }
}

static bool all_gone(const struct arena *arena)
{
    for (uint32_t i = 0; i < arena->procs_count; i++)
        if (!arena->procs[i].gone)
            return false;
    return true;
}

/* One thing happens: the earliest. */
static void turn(struct arena *arena)
{
    struct item *item = first_item(arena);
    uint64_t at = item ? item->at : UINT64_MAX;
    uint32_t due = PROCS;

    for (uint32_t i = 0; i < arena->procs_count; i++) {
        const struct proc *proc = &arena->procs[i];

        if (!proc->gone && proc->deadline(proc->state) <= at) {
            at = proc->deadline(proc->state);
            due = i;
        }
    }
    ck_assert_msg(at != UINT64_MAX, "nothing will ever happen again: a hang");
    if (at > arena->now)
        arena->now = at;
    ck_assert_msg(arena->now < 4000 * 1000 * ms, "an hour of virtual time: a hang");
    if (due < PROCS) {
        struct input input = {.kind = IN_TIME};

        feed(arena, due, &input);
    } else {
        happen(arena, item);
    }
}

/* ---------- the run ---------- */

static void add_coord(struct arena *arena, const struct problem *problem)
{
    const struct arena_config *config = arena->config;
    const struct coord_config coord = {.run_id = 99,
                                       .welcome = problem->welcome,
                                       .welcome_len = problem->welcome_len,
                                       .model = problem->model,
                                       .train = problem->train,
                                       .test = problem->test,
                                       .schedule = problem->schedule,
                                       .optim = problem->optim,
                                       .seed = 7,
                                       .fingerprint = problem->fingerprint,
                                       .nodes = config->wanted ? config->wanted : config->nodes,
                                       .wait_ns = 60 * 1000 * ms};
    struct coord *state;

    ck_assert_int_eq(coord_open(&state, &coord), 0);
    arena->procs[arena->procs_count++] = (struct proc){.state = state,
                                                       .step = coord_step,
                                                       .deadline = coord_deadline,
                                                       .run = coord_run,
                                                       .code = -1};
}

static void add_worker(struct arena *arena, const struct arena_config *config,
                       struct data_store *store, uint32_t idx)
{
    struct worker_config worker = {
        .instance = 1000 + idx, .threads = 1 + idx % 2, .store = store, .wait_ns = UINT64_MAX};
    struct worker *state;

    memset(store, 0, sizeof *store);
    if (idx + config->without_data < config->nodes) {
        store->sets[0] = problem_set(config->samples, 1);
        memset(store->digests[0].bytes, 1, sizeof store->digests[0].bytes);
        store->oldest = 1;
        if (config->test_samples) {
            store->sets[1] = problem_set(config->test_samples, 2);
            memset(store->digests[1].bytes, 2, sizeof store->digests[1].bytes);
            store->oldest = 2;
        }
    }
    text_format(worker.name, sizeof worker.name, "n%u", idx + 1);
    ck_assert_int_eq(worker_open(&state, &worker), 0);
    arena->procs[arena->procs_count++] = (struct proc){.state = state,
                                                       .step = worker_step,
                                                       .deadline = worker_deadline,
                                                       .run = worker_run,
                                                       .code = -1};
}

static void finish(struct arena *arena)
{
    struct arena_result *out = arena->result;
    struct coord *coord = arena->procs[0].state;

    out->code = arena->procs[0].code;
    for (uint32_t i = 1; i < arena->procs_count; i++)
        out->node_codes[i - 1] = arena->procs[i].code;
    for (size_t i = 0; i < coord_nodes(coord); i++)
        out->samples_sent += coord_node(coord, i).samples_sent;
    out->steps = coord_steps(coord);
    while (arena->items)
        drop(arena, arena->items);
    coord_free(coord);
    for (uint32_t i = 1; i < arena->procs_count; i++)
        worker_free(arena->procs[i].state);
}

void arena_run(const struct arena_config *config, struct arena_result *out)
{
    struct arena *arena = calloc(1, sizeof *arena);
    struct problem *problem = calloc(1, sizeof *problem);
    struct data_store stores[ARENA_NODES_MAX];

    ck_assert_ptr_nonnull(arena);
    ck_assert_ptr_nonnull(problem);
    memset(out, 0, sizeof *out);
    out->records_in_order = true;
    problem_open(problem, config);
    arena->config = config;
    arena->result = out;
    arena->random = config->seed;
    add_coord(arena, problem);
    for (uint32_t i = 0; i < config->nodes; i++)
        add_worker(arena, config, &stores[i], i);
    while (!arena->procs[0].gone)
        turn(arena);
    nn_weights_hash(coord_weights(arena->procs[0].state), nn_model_parameters(problem->model),
                    out->hash);
    /* Nodes leave when they hear BYE; who lost the coordinator otherwise goes on asking. */
    for (int i = 0; i < 1000 && arena->items && !all_gone(arena); i++)
        turn(arena);
    finish(arena);
    for (uint32_t i = 0; i < config->nodes; i++)
        data_store_close(&stores[i]);
    problem_close(problem);
    free(arena);
}
