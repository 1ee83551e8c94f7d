/* SPDX-License-Identifier: MIT */
#include "arena_state.h"

#include <cluster/message.h>
#include <cluster/text.h>

#include <assert.h>
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ms = 1000000;

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

static void act_unpost(struct arena *arena, uint32_t proc, const struct action *action)
{
    uint64_t tag = message_tag(&action->head);

    for (size_t i = arena->posts_count; i-- > 0;)
        if (arena->posts[i].proc == proc && arena->posts[i].conn == action->conn.slot &&
            arena->posts[i].tag == tag)
            arena->posts[i] = arena->posts[--arena->posts_count];
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
            act_unpost(arena, proc, action);
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

/* The plan's faults begin with the message that asks a node for leaves. */
static void plan_faults(struct arena *arena, const struct item *item)
{
    for (size_t i = 0; i < ARENA_FAULTS_MAX; i++) {
        const struct arena_fault *fault = &arena->config->faults[i];
        struct item *due;

        if (fault->kind == FAULT_NONE || arena->faults_done[i] || item->proc != fault->node + 1 ||
            item->head.kind != (fault->eval ? MSG_EVAL : MSG_STEP) || item->head.count == 0 ||
            item->head.step < fault->step)
            continue;
        arena->faults_done[i] = true;
        due = add(arena, ITEM_FAULT, item->proc, item->conn,
                  arena->now + problem_draw(&arena->random) % (20 * ms));
        due->fault = fault;
    }
}

/* The other end hears nothing more of it. */
static void close_later(struct arena *arena, uint32_t conn)
{
    add(arena, ITEM_CLOSE, 0, conn, arena->now + 2500 * ms)->flush_until = arena->now;
}

static void happen_fault(struct arena *arena, struct item *item)
{
    struct proc *proc = &arena->procs[item->proc];
    const struct arena_fault *fault = item->fault;
    struct input stop = {.kind = IN_STOP};
    uint32_t idx = item->proc, conn = item->conn;

    drop(arena, item);
    if (proc->gone)
        return;
    if (fault->kind == FAULT_LEAVE) {
        feed(arena, idx, &stop);
        return;
    }
    if (fault->kind == FAULT_KILL)
        proc->gone = true;
    proc->sleeps_until = arena->now + fault->freeze_ms * ms;
    if (fault->kind == FAULT_KILL || fault->freeze_ms > 2500)
        close_later(arena, conn);
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

static bool is_silent(const struct arena *arena, uint32_t proc)
{
    return arena->procs[proc].gone || arena->procs[proc].sleeps_until > arena->now;
}

static void happen(struct arena *arena, struct item *item)
{
    struct input input;
    uint32_t proc = item->proc;

    if (arena->procs[proc].sleeps_until > arena->now && item->kind != ITEM_FAULT) {
        item->at = arena->procs[proc].sleeps_until;
        return;
    }

    switch (item->kind) {
    case ITEM_MESSAGE:
        plan_faults(arena, item);
        if (arena->procs[proc].gone)
            item->at += 100 * ms; /* nobody acknowledges what comes to the dead */
        else if (!deliver(arena, item))
            item->at += ms / 10;
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
                   is_silent(arena, other_end(&arena->conns[item->conn], proc)) ? RDT_CLOSED_DEAD
                                                                                : RDT_CLOSED_LOCAL,
                   proc);
        drop(arena, item);
        break;
    case ITEM_FAULT:
        happen_fault(arena, item);
        break;
    }
}

void arena_turn(struct arena *arena)
{
    struct item *item = first_item(arena);
    uint64_t at = item ? item->at : UINT64_MAX;
    uint32_t due = PROCS;

    for (uint32_t i = 0; i < arena->procs_count; i++) {
        const struct proc *proc = &arena->procs[i];

        uint64_t due_at = proc->gone ? UINT64_MAX : proc->deadline(proc->state);

        if (due_at != UINT64_MAX && due_at < proc->sleeps_until)
            due_at = proc->sleeps_until;
        if (due_at < at || (due_at == at && at != UINT64_MAX)) {
            at = due_at;
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

void arena_clear(struct arena *arena)
{
    while (arena->items)
        drop(arena, arena->items);
}
