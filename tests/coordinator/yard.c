/* SPDX-License-Identifier: MIT */
#include "yard.h"

#include "tests/cluster/random.h"

#include <cluster/text.h>
#include <node/worker.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCS = 8, CONNS = 64, POSTS = 1024, POOLED_MAX = 65536, TURNS_MAX = 200000 };

enum item_kind { ITEM_CONNECTED, ITEM_MESSAGE, ITEM_RELEASED, ITEM_COMPUTED, ITEM_CLOSED };

struct item {
    struct item *next;
    enum item_kind kind;
    uint32_t to, conn;
    struct message head;
    uint8_t *copy;
    size_t len;
    void *user, *job;
    int status;
    enum rdt_closed reason;
};

struct post {
    uint32_t proc, conn;
    uint64_t tag;
    uint8_t *buf;
    size_t cap;
    void *user;
};

struct conn {
    uint32_t node; /* the other end is 0 */
    bool open;
};

struct yard {
    const struct plan *plan;
    uint64_t random, now;
    struct product *product;
    struct worker *workers[PROCS];
    bool gone[PROCS], exited[PROCS];
    struct conn conns[CONNS];
    uint32_t conns_count;
    struct item *items; /* oldest first */
    struct post posts[POSTS];
    size_t posts_count;
    struct actions actions;
    struct data_store store;
    struct yard_result *result;
    uint32_t procs, kills_left;
    bool done;
    float *a, *b;
};

static struct yard yard;

static struct rdt_conn handle(uint32_t conn)
{
    return (struct rdt_conn){.slot = conn, .generation = conn + 1};
}

static struct item *add(enum item_kind kind, uint32_t to, uint32_t conn)
{
    struct item *item = calloc(1, sizeof *item), **at = &yard.items;

    ck_assert_ptr_nonnull(item);
    item->kind = kind;
    item->to = to;
    item->conn = conn;
    while (*at)
        at = &(*at)->next;
    *at = item;
    return item;
}

static void close_conn(uint32_t idx, enum rdt_closed reason)
{
    struct conn *conn = &yard.conns[idx];

    if (!conn->open)
        return;
    conn->open = false;
    for (struct item *item = yard.items; item; item = item->next) {
        if (item->conn != idx || item->kind != ITEM_MESSAGE)
            continue;
        item->kind = ITEM_RELEASED;
        item->to = item->to == 0 ? conn->node : 0;
        item->status = RDT_ABORTED;
    }
    for (size_t i = yard.posts_count; i-- > 0;)
        if (yard.posts[i].conn == idx)
            yard.posts[i] = yard.posts[--yard.posts_count];
    add(ITEM_CLOSED, 0, idx)->reason = reason;
    add(ITEM_CLOSED, conn->node, idx)->reason = RDT_CLOSED_PEER;
}

static void act_send(uint32_t proc, const struct action *action)
{
    uint32_t idx = action->conn.slot;
    const struct conn *conn = &yard.conns[idx];
    uint32_t to = proc == 0 ? conn->node : 0;
    struct item *item = add(conn->open ? ITEM_MESSAGE : ITEM_RELEASED, conn->open ? to : proc, idx);

    item->status = conn->open ? 0 : RDT_ABORTED;
    item->head = action->head;
    item->len = action->body_len;
    item->user = action->user;
    item->copy = calloc(1, action->body_len + 4);
    ck_assert_ptr_nonnull(item->copy);
    if (action->body_len > 0)
        memcpy(item->copy, action->body, action->body_len);
    if (proc != 0 && proc == yard.plan->liar && item->head.kind == MSG_RESULT)
        item->copy[item->len / 2 | 2] ^= 0x40; /* an upper bit of a float's fraction */
    if (proc != 0 && proc == yard.plan->liar && yard.plan->other_bits &&
        item->head.kind == MSG_READY)
        item->copy[0] ^= 1;
}

static void act_post(uint32_t proc, const struct action *action)
{
    struct post post = {.proc = proc,
                        .conn = action->conn.slot,
                        .tag = message_tag(&action->head),
                        .buf = action->buf,
                        .cap = action->cap,
                        .user = action->user};

    if (!yard.conns[post.conn].open)
        return;
    for (size_t i = 0; i < yard.posts_count; i++) {
        ck_assert_msg(yard.posts[i].buf != post.buf, "a buffer is posted twice");
        ck_assert(yard.posts[i].tag != post.tag || yard.posts[i].conn != post.conn ||
                  yard.posts[i].proc != proc);
    }
    ck_assert_uint_lt(yard.posts_count, POSTS);
    yard.posts[yard.posts_count++] = post;
}

static void leave(uint32_t proc, const struct action *action)
{
    yard.exited[proc] = yard.gone[proc] = true;
    if (proc == 0) {
        yard.done = true;
        yard.result->code = action->code;
        memcpy(yard.result->text, action->text, sizeof yard.result->text);
        return;
    }
    for (uint32_t i = 0; i < yard.conns_count; i++)
        if (yard.conns[i].node == proc)
            close_conn(i, RDT_CLOSED_PEER);
}

static void act(uint32_t proc, const struct action *action)
{
    switch (action->kind) {
    case ACT_CONNECT:
        ck_assert_uint_lt(yard.conns_count, CONNS);
        yard.conns[yard.conns_count] = (struct conn){.node = proc, .open = true};
        add(ITEM_CONNECTED, 0, yard.conns_count++);
        break;
    case ACT_CLOSE:
        add(ITEM_CLOSED, PROCS, action->conn.slot); /* to nobody: closes when all before is done */
        break;
    case ACT_ABORT:
        close_conn(action->conn.slot, RDT_CLOSED_LOCAL);
        break;
    case ACT_SEND:
        act_send(proc, action);
        break;
    case ACT_POST:
        act_post(proc, action);
        break;
    case ACT_COMPUTE:
        add(ITEM_COMPUTED, proc, CONNS)->job = action->job;
        break;
    case ACT_EVENT:
        if (proc == 0) {
            size_t len = strlen(yard.result->events);

            text_format(yard.result->events + len, sizeof yard.result->events - len, "%s; ",
                        action->text);
        }
        break;
    case ACT_EXIT:
        leave(proc, action);
        break;
    case ACT_UNPOST:
    case ACT_RECORD:
        ck_abort_msg("nobody does this here");
    }
}

static void feed(uint32_t proc, struct input input)
{
    if (yard.gone[proc])
        return;
    yard.actions.count = 0;
    if (proc == 0)
        product_step(yard.product, &input, yard.now, &yard.actions);
    else
        worker_step(yard.workers[proc], &input, yard.now, &yard.actions);
    for (size_t i = 0; i < yard.actions.count; i++)
        act(proc, &yard.actions.items[i]);
}

static void start_node(void)
{
    uint32_t proc = yard.procs++;
    struct worker_config config = {.peer = rdt_addr_v4(10, 0, 0, 1, 7),
                                   .instance = 100 + proc,
                                   .threads = 1 + proc % 3,
                                   .store = &yard.store,
                                   .wait_ns = UINT64_MAX};

    ck_assert_uint_lt(proc, PROCS);
    snprintf(config.name, sizeof config.name, "n%u", proc);
    ck_assert_int_eq(worker_open(&yard.workers[proc], &config), 0);
    feed(proc, (struct input){.kind = IN_TIME});
}

static void kill_one(void)
{
    uint32_t victim = 1 + (uint32_t)random_below(&yard.random, yard.plan->nodes);

    if (yard.gone[victim])
        return;
    yard.kills_left--;
    yard.gone[victim] = true;
    for (uint32_t i = 0; i < yard.conns_count; i++)
        if (yard.conns[i].node == victim)
            close_conn(i, RDT_CLOSED_DEAD);
    if (yard.plan->late)
        start_node();
}

/* ---------- what is under way ---------- */

static struct post *post_for(const struct item *item)
{
    uint64_t tag = message_tag(&item->head);

    for (size_t i = 0; i < yard.posts_count && tag != 0; i++)
        if (yard.posts[i].proc == item->to && yard.posts[i].conn == item->conn &&
            yard.posts[i].tag == tag)
            return &yard.posts[i];
    return NULL;
}

static bool may_go(const struct item *item)
{
    for (const struct item *other = yard.items; other != item; other = other->next) {
        if (other->conn != item->conn || item->conn == CONNS)
            continue;
        if (item->kind == ITEM_CLOSED)
            return false; /* all else of the connection comes first */
        if (item->kind == ITEM_MESSAGE && other->kind == ITEM_CONNECTED)
            return false;
        if (item->kind == ITEM_MESSAGE && other->kind == ITEM_MESSAGE && other->to == item->to &&
            message_channel(item->head.kind) == CHANNEL_CONTROL &&
            message_channel(other->head.kind) == CHANNEL_CONTROL)
            return false;
    }
    return item->kind != ITEM_MESSAGE || item->len + MESSAGE_HEADER <= POOLED_MAX || post_for(item);
}

static struct item *draw(void)
{
    size_t count = 0, pick;

    for (struct item *item = yard.items; item; item = item->next)
        count += may_go(item);
    if (count == 0)
        return NULL;
    pick = random_below(&yard.random, count);
    for (struct item *item = yard.items; item; item = item->next)
        if (may_go(item) && pick-- == 0)
            return item;
    return NULL;
}

static void unlink_item(struct item *item)
{
    struct item **at = &yard.items;

    while (*at != item)
        at = &(*at)->next;
    *at = item->next;
}

static void deliver(struct item *item)
{
    struct input input = {.kind = IN_MESSAGE,
                          .conn = handle(item->conn),
                          .head = item->head,
                          .body = item->copy,
                          .body_len = item->len};
    struct post *post = post_for(item);
    struct item *released;

    if (post) {
        ck_assert_uint_le(item->len + MESSAGE_HEADER, post->cap);
        memcpy(post->buf + MESSAGE_HEADER, item->copy, item->len);
        input.body = post->buf + MESSAGE_HEADER;
        input.user = post->user;
        *post = yard.posts[--yard.posts_count];
    }
    released = add(ITEM_RELEASED, item->to == 0 ? yard.conns[item->conn].node : 0, item->conn);
    released->user = item->user;
    feed(item->to, input);
}

static void take(struct item *item)
{
    struct rdt_conn conn = handle(item->conn);

    unlink_item(item);
    switch (item->kind) {
    case ITEM_CONNECTED:
        if (!yard.conns[item->conn].open)
            break;
        feed(0, (struct input){.kind = IN_CONNECTED, .conn = conn, .incoming = true});
        feed(yard.conns[item->conn].node, (struct input){.kind = IN_CONNECTED, .conn = conn});
        break;
    case ITEM_MESSAGE:
        deliver(item);
        break;
    case ITEM_RELEASED:
        if (item->user) {
            feed(item->to, (struct input){.kind = IN_RELEASED,
                                          .conn = conn,
                                          .user = item->user,
                                          .status = item->status});
        }
        break;
    case ITEM_COMPUTED:
        if (yard.gone[item->to])
            break;
        if (item->to == 0)
            product_run(yard.product, item->job);
        else
            worker_run(yard.workers[item->to], item->job);
        feed(item->to, (struct input){.kind = IN_COMPUTED, .job = item->job});
        break;
    case ITEM_CLOSED:
        if (item->to == PROCS)
            close_conn(item->conn, RDT_CLOSED_LOCAL);
        else
            feed(item->to, (struct input){.kind = IN_CLOSED, .conn = conn, .reason = item->reason});
        break;
    }
    free(item->copy);
    free(item);
}

/* Nothing is under way: time goes on to what somebody waits for. */
static void wait_on(void)
{
    uint64_t next = product_deadline(yard.product);

    for (uint32_t i = 1; i < yard.procs; i++)
        if (!yard.gone[i] && worker_deadline(yard.workers[i]) < next)
            next = worker_deadline(yard.workers[i]);
    ck_assert_msg(next != UINT64_MAX, "everybody waits for somebody else");
    if (next > yard.now)
        yard.now = next;
}

static void fire_timers(void)
{
    if (product_deadline(yard.product) <= yard.now)
        feed(0, (struct input){.kind = IN_TIME});
    for (uint32_t i = 1; i < yard.procs; i++)
        if (!yard.gone[i] && worker_deadline(yard.workers[i]) <= yard.now)
            feed(i, (struct input){.kind = IN_TIME});
}

/* ---------- problems ---------- */

static float *make_matrix(uint64_t count, uint64_t seed)
{
    float *out = nn_floats(count);

    ck_assert_ptr_nonnull(out);
    for (uint64_t i = 0; i < count; i++)
        out[i] = (float)(int)(random_below(&seed, 2001)) / 1000.0f - 1.0f;
    return out;
}

/* The same blocks in one place. */
static void compute_here(const struct body_product *shape)
{
    for (uint64_t i = 0; i < blocks_count(shape); i++) {
        struct block block = blocks_at(shape, i);
        const struct nn_combination combination = {
            .count = block.rows * shape->cols, .x = shape->x, .y = shape->y};
        const float *a = yard.a + block.first * shape->inner;
        float *c = yard.result->want + block.first * shape->cols;

        if (shape->op == BODY_MULTIPLY)
            nn_matmul(block.rows, shape->cols, shape->inner, a, yard.b, c);
        else
            nn_combine(&combination, a, yard.b + block.first * shape->cols, c);
    }
}

static void open_yard(const struct plan *plan, struct yard_result *result)
{
    struct product_config config = {.run_id = 77,
                                    .shape = {.op = plan->op,
                                              .rows = plan->rows,
                                              .inner = plan->inner,
                                              .cols = plan->cols,
                                              .depth = 1,
                                              .x = 0.25,
                                              .y = 0.75},
                                    .nodes = plan->wanted ? plan->wanted : plan->nodes,
                                    .wait_ns = UINT64_C(5000000000),
                                    .check = plan->check};
    uint64_t b_rows = plan->op == BODY_MULTIPLY ? plan->inner : plan->rows;

    memset(&yard, 0, sizeof yard);
    memset(result, 0, sizeof *result);
    yard.plan = plan;
    yard.result = result;
    yard.random = plan->seed;
    yard.now = 1000;
    yard.kills_left = plan->kills;
    ck_assert_int_eq(nn_blas_open(NULL, NULL), 0);
    nn_thread_init();
    yard.a = make_matrix(plan->rows * plan->inner, 1);
    yard.b = make_matrix(b_rows * plan->cols, 2);
    yard.result->c = nn_floats(plan->rows * plan->cols);
    yard.result->want = nn_floats(plan->rows * plan->cols);
    ck_assert(blocks_plan(&config.shape));
    if (plan->block_rows)
        config.shape.block_rows = plan->block_rows;
    text_format(config.shape.kernel, sizeof config.shape.kernel, "%s", nn_blas_kernel());
    config.a = yard.a;
    config.b = yard.b;
    config.c = yard.result->c;
    ck_assert_int_eq(nn_product_fingerprint(&config.fingerprint), 0);
    ck_assert_int_eq(product_open(&yard.product, &config), 0);
    compute_here(&config.shape);
    yard.procs = 1;
    feed(0, (struct input){.kind = IN_TIME});
    for (uint32_t i = 0; i < plan->nodes; i++)
        start_node();
}

static void close_yard(void)
{
    yard.result->status = product_status(yard.product);
    while (yard.items) {
        struct item *item = yard.items;

        yard.items = item->next;
        free(item->copy);
        free(item);
    }
    product_free(yard.product);
    for (uint32_t i = 1; i < yard.procs; i++)
        worker_free(yard.workers[i]);
    nn_floats_free(yard.a);
    nn_floats_free(yard.b);
}

void yard_run(const struct plan *plan, struct yard_result *out)
{
    uint64_t kill_at, stop_at;

    open_yard(plan, out);
    kill_at = random_below(&yard.random, 150);
    stop_at = random_below(&yard.random, 200);
    for (uint64_t turns = 0; !yard.done; turns++) {
        struct item *item = draw();

        ck_assert_msg(turns < TURNS_MAX, "no end, seed %llu", (unsigned long long)plan->seed);
        if (product_is_gathering(yard.product) && plan->kills > 0)
            kill_at = turns + 1 + (kill_at % 150); /* nobody dies before it begins */
        if (turns >= kill_at && yard.kills_left > 0)
            kill_one();
        if (turns >= kill_at)
            kill_at = turns + random_below(&yard.random, 100);
        if (plan->stop && turns == stop_at)
            feed(0, (struct input){.kind = IN_STOP});
        if (item && yard.items)
            item = draw(); /* a kill changes what may go */
        if (item)
            take(item);
        else
            wait_on();
        fire_timers();
    }
    close_yard();
}

void yard_free(struct yard_result *result)
{
    nn_floats_free(result->c);
    nn_floats_free(result->want);
}
