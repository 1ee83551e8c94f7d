/* SPDX-License-Identifier: MIT */
#include "watch.h"

#include <cluster/hash.h>
#include <rdt/core/bytes.h>
#include <rdt/core/endpoint.h>

static const uint64_t dead_ns = 2500000000; /* rdt's default */

static void fault(struct watch *watch, const char *text)
{
    if (!watch->fault)
        watch->fault = text;
}

static bool same(struct rdt_conn a, struct rdt_conn b)
{
    return a.slot == b.slot && a.generation == b.generation;
}

static uint64_t valid_datagrams(const struct rdt_endpoint *ep)
{
    struct rdt_stats stats = {.size = sizeof stats};

    rdt_endpoint_stats(ep, &stats);
    return stats.datagrams_received;
}

bool watch_arrival(struct watch *watch, struct rdt_endpoint *ep, const struct rdt_arrival *arrival,
                   uint64_t now_ns)
{
    const uint64_t before = valid_datagrams(ep);
    uint32_t cid = 0;

    if (arrival->len >= FRAME_PREFIX)
        cid = load_le32((const uint8_t *)arrival->bytes + 12);
    rdt_input(ep, arrival, now_ns);
    if (valid_datagrams(ep) == before)
        return false;
    if (cid != 0)
        watch->heard_ns[cid & ((1u << ep->slot_bits) - 1)] = now_ns;
    return true;
}

void watch_action(struct watch *watch, const struct action *action)
{
    if (action->kind != ACT_SEND || !action->user)
        return;
    if (watch->loans_count == WATCH_LOANS_MAX) {
        fault(watch, "bodies pile up: they are sent and do not come back");
        return;
    }
    watch->loans[watch->loans_count++] =
        (struct watch_loan){.conn = action->conn,
                            .user = action->user,
                            .body = action->body,
                            .len = action->body_len,
                            .hash = hash64(action->body, action->body_len)};
}

static void on_released(struct watch *watch, const struct input *input)
{
    for (size_t i = 0; i < watch->loans_count; i++) {
        const struct watch_loan *loan = &watch->loans[i];

        if (loan->user != input->user || !same(loan->conn, input->conn))
            continue;
        if (hash64(loan->body, loan->len) != loan->hash)
            fault(watch, "a body was changed before it came back");
        watch->loans[i] = watch->loans[--watch->loans_count];
        watch->releases++;
        return;
    }
    fault(watch, "a body came back that was not lent");
}

static void on_closed(struct watch *watch, const struct input *input, uint64_t now_ns)
{
    const uint64_t silence = now_ns - watch->heard_ns[input->conn.slot];

    for (size_t i = 0; i < watch->loans_count; i++)
        if (same(watch->loans[i].conn, input->conn))
            fault(watch, "a connection was closed before all bodies sent on it came back");
    if (input->reason != RDT_CLOSED_DEAD)
        return;
    watch->deaths++;
    if (silence < dead_ns)
        fault(watch, "a peer was called dead before its time");
    if (silence > dead_ns + dead_ns / 10 + watch->stalled_ns)
        fault(watch, "a peer was called dead too late");
}

void watch_input(struct watch *watch, const struct input *input, uint64_t now_ns)
{
    if (input->kind == IN_RELEASED)
        on_released(watch, input);
    else if (input->kind == IN_CLOSED)
        on_closed(watch, input, now_ns);
}

void watch_end(struct watch *watch, const struct rdt_endpoint *ep)
{
    const struct pool *pool = &ep->env.pool;

    if (pool->free_bytes != (uint64_t)pool->blocks * POOL_BLOCK_MIN)
        fault(watch, "memory of the pool was never given back");
    if (watch->loans_count > 0)
        fault(watch, "bodies were never given back");
}
