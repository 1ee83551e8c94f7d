/* SPDX-License-Identifier: MIT */
/*
 * Datagrams to connections, connections to datagrams; see endpoint.h.
 */
#include "endpoint.h"

#include <assert.h>
#include <string.h>

#define NIL UINT32_MAX

/* ---------- slots ---------- */

struct conn *endpoint_take_slot(struct rdt_endpoint *ep)
{
    struct conn *c;
    uint32_t slot;

    if (ep->free_count > 0)
        return &ep->conns[ep->free_slots[--ep->free_count]];
    if (ep->touched == ep->env.config.connections_max)
        return NULL;
    slot = ep->touched++;
    c = &ep->conns[slot];
    *c = (struct conn){.env = &ep->env,
                       .memory = ep->conn_memory + slot * ep->conn_stride,
                       .slot = slot,
                       .generation = 1,
                       .state = CONN_FREE};
    return c;
}

static uint32_t draw_cid(struct rdt_endpoint *ep, uint32_t slot)
{
    uint32_t cid;

    do {
        cid = (uint32_t)(prng_u64(&ep->prng) << ep->slot_bits) | slot;
    } while (cid == 0);
    return cid;
}

struct conn_seed endpoint_draw_seed(struct rdt_endpoint *ep, uint32_t slot,
                                    const struct rdt_addr *peer, const struct rdt_addr *local)
{
    struct conn_seed seed = {.peer = *peer, .local = *local};

    seed.cid = draw_cid(ep, slot);
    seed.random = prng_u64(&ep->prng);
    prng_bytes(&ep->prng, seed.nonce, sizeof seed.nonce);
    return seed;
}

static struct conn *find_cid(struct rdt_endpoint *ep, uint32_t cid)
{
    uint32_t slot = cid & ((1u << ep->slot_bits) - 1);

    if (slot >= ep->touched || ep->conns[slot].cid != cid)
        return NULL;
    return ep->conns[slot].state != CONN_FREE ? &ep->conns[slot] : NULL;
}

struct conn *endpoint_find(const struct rdt_endpoint *ep, struct rdt_conn handle)
{
    struct conn *c;

    if (handle.slot >= ep->touched)
        return NULL;
    c = &ep->conns[handle.slot];
    if (c->generation != handle.generation || c->state == CONN_FREE)
        return NULL;
    return c->announced && !c->closed_taken ? c : NULL;
}

/* ---------- turns and timers ---------- */

static void enqueue(struct rdt_endpoint *ep, struct conn *c)
{
    if (c->is_queued)
        return;
    c->is_queued = true;
    c->queue_next = NIL;
    if (ep->queue_tail != NIL)
        ep->conns[ep->queue_tail].queue_next = c->slot;
    else
        ep->queue_head = c->slot;
    ep->queue_tail = c->slot;
}

static struct conn *dequeue(struct rdt_endpoint *ep)
{
    struct conn *c;

    if (ep->queue_head == NIL)
        return NULL;
    c = &ep->conns[ep->queue_head];
    ep->queue_head = c->queue_next;
    if (ep->queue_head == NIL)
        ep->queue_tail = NIL;
    c->is_queued = false;
    return c;
}

static uint32_t *handshake_bucket(struct rdt_endpoint *ep, const uint8_t nonce[FRAME_NONCE])
{
    return &ep->handshakes[load_le32(nonce) & ep->handshake_mask];
}

static void retire(struct rdt_endpoint *ep, struct conn *c)
{
    const struct rdt_stats stats = endpoint_counters(c);

    endpoint_add_stats(&ep->stats, &stats);
    if (c->incoming) {
        uint32_t *at = handshake_bucket(ep, c->client_nonce);

        while (*at != c->slot)
            at = &ep->conns[*at].peer_next;
        *at = c->peer_next;
    }
    conn_fini(c);
    ep->free_slots[ep->free_count++] = c->slot;
}

void endpoint_settle(struct rdt_endpoint *ep, struct conn *c)
{
    if (c->state == CONN_DEAD && c->closed_taken)
        retire(ep, c);
    else
        enqueue(ep, c);
    timers_set(&ep->timers, c->slot, conn_deadline(c));
}

uint64_t rdt_deadline(const struct rdt_endpoint *ep)
{
    return timers_next(&ep->timers);
}

void rdt_on_timeout(struct rdt_endpoint *ep, uint64_t now_ns)
{
    ep->now_ns = now_ns;
    for (uint32_t left = ep->timers.count; left > 0 && timers_next(&ep->timers) <= now_ns; left--) {
        struct conn *c = &ep->conns[timers_next_slot(&ep->timers)];

        conn_on_timeout(c, now_ns);
        endpoint_settle(ep, c);
    }
}

/* ---------- datagrams in ---------- */

static void refuse(struct rdt_endpoint *ep, const struct rdt_arrival *arrival,
                   const struct handshake_init *init)
{
    struct endpoint_reply *reply;

    if (ep->reply_count == ENDPOINT_REPLIES)
        return; /* the peer asks again */
    reply = &ep->replies[ep->reply_count++];
    *reply =
        (struct endpoint_reply){.to = arrival->from, .local = arrival->local, .cid = init->cid};
    memcpy(reply->client_nonce, init->nonce, FRAME_NONCE);
}

static struct conn *find_handshake(struct rdt_endpoint *ep, const struct handshake_init *init,
                                   const struct rdt_addr *from)
{
    uint32_t slot = *handshake_bucket(ep, init->nonce);

    for (; slot != NIL; slot = ep->conns[slot].peer_next) {
        struct conn *c = &ep->conns[slot];

        if (c->peer_cid == init->cid && rdt_addr_equal(&c->peer, from) &&
            memcmp(c->client_nonce, init->nonce, FRAME_NONCE) == 0)
            return c;
    }
    return NULL;
}

static void on_init(struct rdt_endpoint *ep, const struct frame *frame,
                    const struct rdt_arrival *arrival, uint64_t now_ns)
{
    struct reader body =
        reader_make((const uint8_t *)arrival->bytes + FRAME_PREFIX, arrival->len - FRAME_PREFIX);
    struct handshake_init init;
    struct conn_seed seed;
    struct conn *c;

    if (frame->cid != 0 || arrival->len < HANDSHAKE_PAD_SMALL ||
        !handshake_decode_init(&body, &init)) {
        ep->stats.malformed++;
        return;
    }
    ep->stats.datagrams_received++;
    ep->stats.bytes_received += arrival->len;
    c = find_handshake(ep, &init, &arrival->from);
    if (c) {
        conn_on_init_again(c, arrival->len);
        endpoint_settle(ep, c);
        return;
    }
    c = ep->env.config.listen ? endpoint_take_slot(ep) : NULL;
    if (!c) {
        refuse(ep, arrival, &init);
        return;
    }
    seed = endpoint_draw_seed(ep, c->slot, &arrival->from, &arrival->local);
    conn_accept(c, &seed, &init, arrival->len, now_ns);
    c->peer_next = *handshake_bucket(ep, init.nonce);
    *handshake_bucket(ep, init.nonce) = c->slot;
    endpoint_settle(ep, c);
}

static void on_accept(struct rdt_endpoint *ep, struct conn *c, const struct rdt_arrival *arrival,
                      uint64_t now_ns)
{
    struct reader body =
        reader_make((const uint8_t *)arrival->bytes + FRAME_PREFIX, arrival->len - FRAME_PREFIX);
    struct handshake_accept accept;

    if (!handshake_decode_accept(&body, &accept)) {
        ep->stats.malformed++;
        return;
    }
    ep->stats.datagrams_received++;
    ep->stats.bytes_received += arrival->len;
    conn_on_accept(c, &accept, &arrival->local, now_ns);
    endpoint_settle(ep, c);
}

/* INIT and ACCEPT: under the public key. */
static void on_handshake(struct rdt_endpoint *ep, const struct frame *frame,
                         const struct rdt_arrival *arrival, uint64_t now_ns)
{
    struct conn *c = frame->type == FRAME_ACCEPT ? find_cid(ep, frame->cid) : NULL;

    if (frame->type == FRAME_ACCEPT && !c)
        ep->stats.stray++;
    else if (!frame_open(&ep->env.public_key, arrival->bytes, arrival->len))
        ep->stats.corrupt++;
    else if (c)
        on_accept(ep, c, arrival, now_ns);
    else
        on_init(ep, frame, arrival, now_ns);
}

static bool has_key(const struct conn *c)
{
    switch ((enum conn_state)c->state) {
    case CONN_ACCEPTING:
    case CONN_OPEN:
    case CONN_FLUSHING:
    case CONN_CLOSING:
    case CONN_DRAINING:
        return true;
    case CONN_FREE:
    case CONN_CONNECTING:
    case CONN_DEAD:
        break;
    }
    return false;
}

void rdt_input(struct rdt_endpoint *ep, const struct rdt_arrival *arrival, uint64_t now_ns)
{
    struct frame frame;
    struct conn *c;

    ep->now_ns = now_ns;
    if (!frame_decode(&frame, arrival->bytes, arrival->len)) {
        ep->stats.malformed++;
        return;
    }
    if (frame.type == FRAME_INIT || frame.type == FRAME_ACCEPT) {
        on_handshake(ep, &frame, arrival, now_ns);
        return;
    }
    c = find_cid(ep, frame.cid);
    if (!c || !has_key(c)) {
        ep->stats.stray++;
        return;
    }
    if (!frame_open(&c->key, arrival->bytes, arrival->len)) {
        c->stats.corrupt++;
        return;
    }
    conn_on_packet(
        c, &frame,
        reader_make((const uint8_t *)arrival->bytes + FRAME_PREFIX, arrival->len - FRAME_PREFIX),
        now_ns);
    endpoint_settle(ep, c);
}

/* ---------- datagrams out ---------- */

static void write_refusal(struct rdt_endpoint *ep, uint8_t *buf, struct rdt_train *out)
{
    const struct endpoint_reply *reply = &ep->replies[--ep->reply_count];
    const struct frame frame = {.type = FRAME_ACCEPT, .cid = reply->cid};
    struct handshake_accept accept = {.status = HANDSHAKE_REFUSED};
    struct writer body = writer_make(buf + FRAME_PREFIX, HANDSHAKE_ACCEPT_BYTES - FRAME_PREFIX);

    memcpy(accept.client_nonce, reply->client_nonce, FRAME_NONCE);
    handshake_encode_accept(&body, &accept);
    assert(!body.failed);
    frame_encode(&frame, buf);
    frame_seal(&ep->env.public_key, buf, HANDSHAKE_ACCEPT_BYTES);
    ep->stats.datagrams_sent++;
    ep->stats.bytes_sent += HANDSHAKE_ACCEPT_BYTES;
    *out = (struct rdt_train){.to = reply->to,
                              .local = reply->local,
                              .len = HANDSHAKE_ACCEPT_BYTES,
                              .segment_len = HANDSHAKE_ACCEPT_BYTES};
}

bool rdt_next_train(struct rdt_endpoint *ep, uint64_t now_ns, void *buf, size_t cap,
                    struct rdt_train *out)
{
    struct conn *c;

    assert(cap >= ep->env.config.datagram_max);
    ep->now_ns = now_ns;
    if (ep->reply_count > 0) {
        write_refusal(ep, buf, out);
        return true;
    }
    while ((c = dequeue(ep)) != NULL) {
        size_t len = conn_next_train(c, now_ns, buf, cap, out);

        timers_set(&ep->timers, c->slot, conn_deadline(c));
        if (len > 0) {
            enqueue(ep, c);
            return true;
        }
    }
    return false;
}
