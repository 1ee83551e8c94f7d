/* SPDX-License-Identifier: MIT */
/*
 * What an application asks of an endpoint, and what it is told.
 */
#include "endpoint.h"

#include <assert.h>
#include <string.h>

/* ---------- connections and messages ---------- */

int rdt_connect(struct rdt_endpoint *ep, const struct rdt_addr *peer, uint64_t now_ns,
                struct rdt_conn *out)
{
    const struct rdt_addr any = {0};
    struct conn_seed seed;
    struct conn *c;

    ep->now_ns = now_ns;
    if (peer->port == 0)
        return RDT_EINVAL;
    c = endpoint_take_slot(ep);
    if (!c)
        return RDT_ELIMIT;
    seed = endpoint_draw_seed(ep, c->slot, peer, &any);
    conn_connect(c, &seed, now_ns);
    *out = (struct rdt_conn){.slot = c->slot, .generation = c->generation};
    endpoint_settle(ep, c);
    return 0;
}

int rdt_close(struct rdt_endpoint *ep, struct rdt_conn conn, uint64_t flush_ns, uint64_t now_ns)
{
    struct conn *c = endpoint_find(ep, conn);
    int err;

    if (!c)
        return RDT_ECONN;
    ep->now_ns = now_ns;
    err = conn_close(c, flush_ns, now_ns);
    endpoint_settle(ep, c);
    return err;
}

int rdt_abort(struct rdt_endpoint *ep, struct rdt_conn conn, uint64_t now_ns)
{
    struct conn *c = endpoint_find(ep, conn);
    int err;

    if (!c)
        return RDT_ECONN;
    ep->now_ns = now_ns;
    err = conn_abort(c, now_ns);
    endpoint_settle(ep, c);
    return err;
}

int rdt_peer(const struct rdt_endpoint *ep, struct rdt_conn conn, struct rdt_addr *out)
{
    const struct conn *c = endpoint_find(ep, conn);

    if (!c)
        return RDT_ECONN;
    *out = c->peer;
    return 0;
}

int rdt_send(struct rdt_endpoint *ep, struct rdt_conn conn, const struct rdt_message *message,
             uint64_t now_ns)
{
    struct conn *c = endpoint_find(ep, conn);
    int err;

    ep->now_ns = now_ns;
    if (!c || !conn_is_usable(c))
        return RDT_ECONN;
    err = outbox_check(message);
    if (err == 0)
        err = outbox_put(&c->outbox, message);
    if (err == 0)
        endpoint_settle(ep, c);
    return err;
}

int rdt_post(struct rdt_endpoint *ep, struct rdt_conn conn, const struct rdt_landing *landing,
             uint64_t now_ns)
{
    struct conn *c = endpoint_find(ep, conn);
    int err;

    ep->now_ns = now_ns;
    if (!c || !conn_is_usable(c))
        return RDT_ECONN;
    err = inbox_post(&c->inbox, landing);
    if (err == 0) {
        conn_on_allowance(c, now_ns);
        endpoint_settle(ep, c);
    }
    return err;
}

int rdt_unpost(struct rdt_endpoint *ep, struct rdt_conn conn, uint16_t channel, uint64_t tag)
{
    struct conn *c = endpoint_find(ep, conn);

    if (!c || !conn_is_usable(c))
        return RDT_ECONN;
    return inbox_unpost(&c->inbox, channel, tag);
}

void rdt_release(struct rdt_endpoint *ep, const void *bytes, uint64_t now_ns)
{
    const struct pool_owner owner = *pool_owner(&ep->env.pool, bytes);
    struct conn *c;

    ep->now_ns = now_ns;
    if (owner.connection == POOL_NO_OWNER) {
        pool_give(&ep->env.pool, bytes);
        return;
    }
    c = &ep->conns[owner.connection];
    inbox_release(&c->inbox, owner.message);
    conn_on_allowance(c, now_ns);
    endpoint_settle(ep, c);
}

/* ---------- events ---------- */

static void fill_event(struct rdt_endpoint *ep, struct conn *c, const struct event_note *note,
                       struct rdt_event *out)
{
    *out = (struct rdt_event){.kind = note->kind,
                              .conn = {.slot = c->slot, .generation = c->generation}};
    switch (note->kind) {
    case RDT_EV_CONNECTED:
        out->peer = c->peer;
        out->incoming = note->detail != 0;
        break;
    case RDT_EV_MESSAGE:
        inbox_fill_event(&c->inbox, note->subject, out);
        conn_on_allowance(c, ep->now_ns);
        break;
    case RDT_EV_OFFER:
        inbox_fill_event(&c->inbox, note->subject, out);
        break;
    case RDT_EV_RELEASED:
        out->user = c->outbox.messages[note->subject].user;
        out->status = note->detail;
        outbox_free(&c->outbox, note->subject);
        conn_on_room(c);
        break;
    case RDT_EV_WRITABLE:
        c->writable_queued = false;
        break;
    case RDT_EV_CLOSED:
        out->peer = c->peer;
        out->reason = (enum rdt_closed)note->detail;
        c->closed_taken = true;
        break;
    }
}

bool rdt_next_event(struct rdt_endpoint *ep, struct rdt_event *out)
{
    struct event_note note;
    struct conn *c;

    do {
        if (!events_pop(&ep->env.events, &note))
            return false;
        c = &ep->conns[note.connection];
    } while (note.kind == RDT_EV_OFFER && !inbox_is_offered(&c->inbox, note.subject));
    fill_event(ep, c, &note, out);
    if (note.kind != RDT_EV_CONNECTED && note.kind != RDT_EV_WRITABLE)
        endpoint_settle(ep, c);
    return true;
}

/* ---------- statistics ---------- */

void endpoint_add_stats(struct rdt_stats *sum, const struct rdt_stats *part)
{
    sum->datagrams_sent += part->datagrams_sent;
    sum->datagrams_received += part->datagrams_received;
    sum->bytes_sent += part->bytes_sent;
    sum->bytes_received += part->bytes_received;
    sum->payload_sent += part->payload_sent;
    sum->payload_retransmitted += part->payload_retransmitted;
    sum->payload_received += part->payload_received;
    sum->datagrams_retransmitted += part->datagrams_retransmitted;
    sum->lost += part->lost;
    sum->spurious += part->spurious;
    sum->duplicate += part->duplicate;
    sum->reordered += part->reordered;
    sum->corrupt += part->corrupt;
    sum->malformed += part->malformed;
    sum->stray += part->stray;
    sum->pool_full += part->pool_full;
    sum->ptos += part->ptos;
    sum->messages_sent += part->messages_sent;
    sum->messages_received += part->messages_received;
}

struct rdt_stats endpoint_counters(const struct conn *c)
{
    struct rdt_stats stats = c->stats;

    stats.payload_received = c->inbox.bytes_new;
    stats.messages_received = c->inbox.messages_whole;
    return stats;
}

static void give_stats(const struct rdt_stats *stats, struct rdt_stats *out)
{
    const size_t size = out->size < sizeof *stats ? out->size : sizeof *stats;

    memcpy(out, stats, size);
    out->size = size;
}

void rdt_endpoint_stats(const struct rdt_endpoint *ep, struct rdt_stats *out)
{
    struct rdt_stats sum = ep->stats;

    for (uint32_t slot = 0; slot < ep->touched; slot++) {
        const struct conn *c = &ep->conns[slot];
        struct rdt_stats stats;

        if (c->state == CONN_FREE)
            continue;
        stats = endpoint_counters(c);
        endpoint_add_stats(&sum, &stats);
        sum.connections += c->state == CONN_OPEN || c->state == CONN_FLUSHING;
    }
    give_stats(&sum, out);
}

int rdt_conn_stats(const struct rdt_endpoint *ep, struct rdt_conn conn, struct rdt_stats *out)
{
    const struct conn *c = endpoint_find(ep, conn);
    struct rdt_stats stats;

    if (!c)
        return RDT_ECONN;
    stats = endpoint_counters(c);
    stats.rtt_min_ns = c->rtt.min_ns;
    stats.rtt_smoothed_ns = c->rtt.smoothed_ns;
    stats.cwnd_bytes = c->cc.cwnd_bytes;
    stats.in_flight_bytes = c->sent.in_flight_bytes;
    stats.pacing_bps = c->cc.pacing_bps;
    stats.datagram_bytes = c->datagram;
    give_stats(&stats, out);
    return 0;
}
