/* SPDX-License-Identifier: MIT */
/*
 * Messages one way, checked at the other end.
 */
#include "sim_bulk.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void take_message(struct bulk *b, const struct rdt_event *event)
{
    struct bulk_message *m = &b->messages[event->tag];

    ck_assert_uint_lt(event->tag, b->count);
    ck_assert(!m->is_delivered);
    ck_assert_uint_eq(event->len, m->len);
    ck_assert(sim_matches(event->bytes, event->len, event->tag));
    m->is_delivered = true;
    b->delivered++;
    b->done_ns = b->sim.now_ns;
    if (!event->pooled)
        ck_assert_ptr_eq(event->bytes, m->landing);
    else if (b->keep)
        b->held[b->held_count++] = event->bytes;
    else
        rdt_release(b->sim.ep[1], event->bytes, b->sim.now_ns);
}

static void answer_offer(struct bulk *b, const struct rdt_event *event)
{
    struct bulk_message *m = &b->messages[event->tag];
    struct rdt_landing landing = {.cap = event->len, .tag = event->tag, .channel = event->channel};

    b->offered++;
    if (b->no_post)
        return;
    m->landing = malloc(event->len);
    ck_assert_ptr_nonnull(m->landing);
    landing.buf = m->landing;
    ck_assert_int_eq(rdt_post(b->sim.ep[1], b->sim.conn[1], &landing, b->sim.now_ns), 0);
}

static void on_event(struct sim_pair *sim, int side, const struct rdt_event *event, void *ctx)
{
    struct bulk *b = ctx;
    struct bulk_message *m;

    (void)sim;
    switch (event->kind) {
    case RDT_EV_MESSAGE:
        ck_assert_int_eq(side, 1);
        take_message(b, event);
        break;
    case RDT_EV_OFFER:
        answer_offer(b, event);
        break;
    case RDT_EV_RELEASED:
        ck_assert_int_eq(side, 0);
        m = event->user;
        ck_assert(!m->is_released);
        m->is_released = true;
        m->status = event->status;
        memset(m->body, 0xDB, m->len);
        b->released++;
        break;
    case RDT_EV_WRITABLE:
        ck_assert(b->is_blocked);
        b->is_blocked = false;
        b->writable++;
        break;
    case RDT_EV_CONNECTED:
    case RDT_EV_CLOSED:
        break;
    }
}

static uint64_t on_turn(struct sim_pair *sim, int side, void *ctx)
{
    struct bulk *b = ctx;

    if (side == 1 || sim->is_closed[0])
        return UINT64_MAX;
    while (b->sent < b->count && !b->is_blocked) {
        struct bulk_message *m = &b->messages[b->sent];
        struct rdt_message message = {
            .body = m->body, .body_len = m->len, .channel = 1, .tag = b->sent, .user = m};
        int err = rdt_send(sim->ep[0], sim->conn[0], &message, sim->now_ns);

        if (err == RDT_EAGAIN) {
            b->again++;
            b->is_blocked = true;
            break;
        }
        ck_assert_int_eq(err, 0);
        b->sent++;
    }
    return UINT64_MAX;
}

static bool on_datagram(struct sim_pair *sim, int side, struct rdt_arrival *datagram, void *ctx)
{
    struct bulk *b = ctx;

    (void)sim;
    return !b->on_datagram || b->on_datagram(b, side, datagram);
}

struct bulk *bulk_make(void)
{
    struct bulk *b = calloc(1, sizeof *b);

    ck_assert_ptr_nonnull(b);
    b->config.seed = 1;
    b->config.app =
        (struct sim_app){.on_event = on_event, .on_turn = on_turn, .on_datagram = on_datagram};
    b->config.app.ctx = b;
    return b;
}

void bulk_open(struct bulk *b)
{
    sim_open(&b->sim, &b->config);
    sim_connected(&b->sim);
}

void bulk_free(struct bulk *b)
{
    sim_close(&b->sim);
    for (uint32_t i = 0; i < b->count; i++) {
        free(b->messages[i].body);
        free(b->messages[i].landing);
    }
    free(b);
}

void bulk_add(struct bulk *b, size_t len)
{
    struct bulk_message *m = &b->messages[b->count];

    ck_assert_uint_lt(b->count, BULK_MAX);
    m->len = len;
    m->body = malloc(len + 1);
    ck_assert_ptr_nonnull(m->body);
    sim_fill(m->body, len, b->count);
    b->count++;
    b->sim.app_next_ns[0] = b->sim.now_ns;
}

static bool is_done(void *ctx)
{
    const struct bulk *b = ctx;

    return b->delivered == b->count && b->released == b->count;
}

bool bulk_run(struct bulk *b, uint64_t within_ns)
{
    return sim_run_until(&b->sim, b->sim.now_ns + within_ns, is_done, b);
}

void bulk_give_back(struct bulk *b)
{
    for (uint32_t i = 0; i < b->held_count; i++)
        rdt_release(b->sim.ep[1], b->held[i], b->sim.now_ns);
    b->held_count = 0;
    b->keep = false;
}
