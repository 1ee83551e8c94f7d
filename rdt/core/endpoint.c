/* SPDX-License-Identifier: MIT */
/*
 * Datagrams to connections, connections to datagrams; see endpoint.h.
 */
#include "endpoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NIL UINT32_MAX

enum {
    EVENTS_PER_CONN = 3, /* CONNECTED, WRITABLE, CLOSED */
    POOL_SHARE_NUM = 3,  /* of the pool, what is promised to peers: the rest is room to breathe */
    POOL_SHARE_DEN = 4,
    CONNECTIONS_LIMIT = 1 << 20,
    COUNT_LIMIT = 1 << 20,
};

/* ---------- opening ---------- */

static void *default_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

static void default_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

static uint32_t or32(uint32_t value, uint32_t fallback)
{
    return value != 0 ? value : fallback;
}

static uint64_t or64(uint64_t value, uint64_t fallback)
{
    return value != 0 ? value : fallback;
}

static struct rdt_config with_defaults(const struct rdt_config *given)
{
    struct rdt_config c = {0};

    memcpy(&c, given, given->size < sizeof c ? given->size : sizeof c);
    if (!c.allocator.alloc)
        c.allocator = (struct rdt_allocator){.alloc = default_alloc, .free = default_free};
    c.connections_max = or32(c.connections_max, 64);
    c.datagram_max = or32(c.datagram_max, 1452);
    c.train_segments_max = or32(c.train_segments_max, 44);
    c.train_bytes_max = or32(c.train_bytes_max, 65507);
    c.messages_max = or32(c.messages_max, 256);
    c.send_bytes_max = or64(c.send_bytes_max, 1ull << 30);
    c.incoming_max = or32(c.incoming_max, 256);
    c.posts_max = or32(c.posts_max, 256);
    c.pool_message_max = or32(c.pool_message_max, 65536);
    c.pool_bytes = or64(c.pool_bytes, 8ull << 20);
    c.fixed_window = or64(c.fixed_window, 1ull << 20);
    c.dead_ns = or64(c.dead_ns, 2500000000u);
    c.ping_ns = or64(c.ping_ns, 500000000u);
    c.handshake_ns = or64(c.handshake_ns, 10000000000u);
    c.max_ack_delay_ns = or64(c.max_ack_delay_ns, 1000000u);
    if (c.train_bytes_max < c.datagram_max)
        c.train_bytes_max = c.datagram_max;
    return c;
}

static bool is_sound(const struct rdt_config *c)
{
    if (c->datagram_max < HANDSHAKE_PAD_SMALL || c->datagram_max > 65507)
        return false;
    if (c->connections_max > CONNECTIONS_LIMIT || c->messages_max > COUNT_LIMIT ||
        c->incoming_max > COUNT_LIMIT || c->posts_max > COUNT_LIMIT)
        return false;
    if (c->max_ack_delay_ns / 1000 > UINT32_MAX || c->allocator.free == NULL)
        return false;
    if (c->pool_bytes > (1ull << 38) || pool_cost(c->pool_message_max) > c->pool_bytes)
        return false;
    return true;
}

static uint64_t events_capacity(const struct rdt_config *c)
{
    return (uint64_t)c->connections_max *
           (EVENTS_PER_CONN + (uint64_t)c->messages_max + 2 * (uint64_t)c->incoming_max);
}

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t value = 1;

    while (value < at_least)
        value *= 2;
    return value;
}

/* Hands out the parts of the region in turn; without a base it only adds up. */
struct carver {
    uint8_t *base;
    size_t at;
};

static void *carve(struct carver *carver, size_t bytes)
{
    size_t at = carver->at;

    carver->at += (bytes + 63) / 64 * 64;
    return carver->base ? carver->base + at : NULL;
}

struct parts {
    struct rdt_endpoint *ep;
    struct conn *conns;
    uint8_t *conn_memory;
    uint32_t *free_slots;
    uint32_t *handshakes;
    void *timers;
    void *events;
    void *pool;
    size_t conn_stride;
};

static struct parts carve_all(struct carver *carver, const struct rdt_config *c)
{
    struct parts p = {.conn_stride = conn_bytes(c)};

    p.ep = carve(carver, sizeof *p.ep);
    p.timers = carve(carver, timers_bytes(c->connections_max));
    p.free_slots = carve(carver, c->connections_max * sizeof *p.free_slots);
    p.handshakes = carve(carver, power_of_two(c->connections_max) * sizeof *p.handshakes);
    p.conns = carve(carver, c->connections_max * sizeof *p.conns);
    p.events = carve(carver, (size_t)events_capacity(c) * sizeof(struct event_note));
    p.pool = carve(carver, pool_bytes(c->pool_bytes));
    p.conn_memory = carve(carver, p.conn_stride * c->connections_max);
    return p;
}

static void init_env(struct conn_env *env, const struct parts *parts)
{
    const struct rdt_config *c = &env->config;
    const uint64_t promised = c->pool_bytes / POOL_SHARE_DEN * POOL_SHARE_NUM;

    frame_key_init_public(&env->public_key);
    events_init(&env->events, parts->events, (uint32_t)events_capacity(c));
    pool_init(&env->pool, parts->pool, c->pool_bytes);
    env->credit_base = pool_cost(c->pool_message_max);
    if (promised > env->credit_base * c->connections_max)
        env->bank.left = promised - env->credit_base * c->connections_max;
}

static void init_slots(struct rdt_endpoint *ep, const struct parts *parts)
{
    const uint32_t count = ep->env.config.connections_max;

    ep->conns = parts->conns;
    ep->free_slots = parts->free_slots;
    ep->handshakes = parts->handshakes;
    ep->handshake_mask = power_of_two(count) - 1;
    while ((1u << ep->slot_bits) < count)
        ep->slot_bits++;
    for (uint32_t i = 0; i <= ep->handshake_mask; i++)
        ep->handshakes[i] = NIL;
    timers_init(&ep->timers, parts->timers, count);
    ep->queue_head = NIL;
    ep->queue_tail = NIL;
    ep->conn_memory = parts->conn_memory;
    ep->conn_stride = parts->conn_stride;
}

int rdt_open(struct rdt_endpoint **out, const struct rdt_config *given)
{
    struct carver measure = {0};
    struct carver carver = {0};
    struct rdt_config config;
    struct parts parts;

    if (given->size < offsetof(struct rdt_config, allocator))
        return RDT_EINVAL;
    config = with_defaults(given);
    if (!is_sound(&config) || events_capacity(&config) > UINT32_MAX)
        return RDT_EINVAL;
    carve_all(&measure, &config);
    carver.base = config.allocator.alloc(config.allocator.ctx, measure.at);
    if (!carver.base)
        return RDT_ENOMEM;
    parts = carve_all(&carver, &config);
    memset(parts.ep, 0, sizeof *parts.ep);
    parts.ep->env.config = config;
    parts.ep->region = carver.base;
    prng_init(&parts.ep->prng, config.entropy);
    init_env(&parts.ep->env, &parts);
    init_slots(parts.ep, &parts);
    *out = parts.ep;
    return 0;
}

void rdt_free(struct rdt_endpoint *ep)
{
    struct rdt_allocator allocator;

    if (!ep)
        return;
    allocator = ep->env.config.allocator;
    allocator.free(allocator.ctx, ep->region);
}

/* ---------- slots ---------- */

static struct conn *take_slot(struct rdt_endpoint *ep)
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

static struct conn_seed draw_seed(struct rdt_endpoint *ep, uint32_t slot,
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

/* The live connection that a handle names, as far as the application knows. */
static struct conn *find_handle(const struct rdt_endpoint *ep, struct rdt_conn handle)
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

static void add_stats(struct rdt_stats *sum, const struct rdt_stats *part)
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

/* The counters of a connection, with those its inbox keeps. */
static struct rdt_stats counters_of(const struct conn *c)
{
    struct rdt_stats stats = c->stats;

    stats.payload_received = c->inbox.bytes_new;
    stats.messages_received = c->inbox.messages_whole;
    return stats;
}

static void retire(struct rdt_endpoint *ep, struct conn *c)
{
    const struct rdt_stats stats = counters_of(c);

    add_stats(&ep->stats, &stats);
    if (c->incoming) {
        uint32_t *at = handshake_bucket(ep, c->client_nonce);

        while (*at != c->slot)
            at = &ep->conns[*at].peer_next;
        *at = c->peer_next;
    }
    conn_fini(c);
    ep->free_slots[ep->free_count++] = c->slot;
}

/* After anything happened to a connection: its deadline, its turn, its end. */
static void settle(struct rdt_endpoint *ep, struct conn *c)
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
        settle(ep, c);
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
        settle(ep, c);
        return;
    }
    c = ep->env.config.listen ? take_slot(ep) : NULL;
    if (!c) {
        refuse(ep, arrival, &init);
        return;
    }
    seed = draw_seed(ep, c->slot, &arrival->from, &arrival->local);
    conn_accept(c, &seed, &init, arrival->len, now_ns);
    c->peer_next = *handshake_bucket(ep, init.nonce);
    *handshake_bucket(ep, init.nonce) = c->slot;
    settle(ep, c);
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
    settle(ep, c);
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
    settle(ep, c);
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

/* ---------- calls of the application ---------- */

int rdt_connect(struct rdt_endpoint *ep, const struct rdt_addr *peer, uint64_t now_ns,
                struct rdt_conn *out)
{
    const struct rdt_addr any = {0};
    struct conn_seed seed;
    struct conn *c;

    ep->now_ns = now_ns;
    if (peer->port == 0)
        return RDT_EINVAL;
    c = take_slot(ep);
    if (!c)
        return RDT_ELIMIT;
    seed = draw_seed(ep, c->slot, peer, &any);
    conn_connect(c, &seed, now_ns);
    *out = (struct rdt_conn){.slot = c->slot, .generation = c->generation};
    settle(ep, c);
    return 0;
}

int rdt_close(struct rdt_endpoint *ep, struct rdt_conn conn, uint64_t flush_ns, uint64_t now_ns)
{
    struct conn *c = find_handle(ep, conn);
    int err;

    if (!c)
        return RDT_ECONN;
    ep->now_ns = now_ns;
    err = conn_close(c, flush_ns, now_ns);
    settle(ep, c);
    return err;
}

int rdt_abort(struct rdt_endpoint *ep, struct rdt_conn conn, uint64_t now_ns)
{
    struct conn *c = find_handle(ep, conn);
    int err;

    if (!c)
        return RDT_ECONN;
    ep->now_ns = now_ns;
    err = conn_abort(c, now_ns);
    settle(ep, c);
    return err;
}

int rdt_peer(const struct rdt_endpoint *ep, struct rdt_conn conn, struct rdt_addr *out)
{
    const struct conn *c = find_handle(ep, conn);

    if (!c)
        return RDT_ECONN;
    *out = c->peer;
    return 0;
}

int rdt_send(struct rdt_endpoint *ep, struct rdt_conn conn, const struct rdt_message *message,
             uint64_t now_ns)
{
    struct conn *c = find_handle(ep, conn);
    int err;

    ep->now_ns = now_ns;
    if (!c || !conn_is_usable(c))
        return RDT_ECONN;
    err = outbox_check(message);
    if (err == 0)
        err = outbox_put(&c->outbox, message);
    if (err == 0)
        settle(ep, c);
    return err;
}

int rdt_post(struct rdt_endpoint *ep, struct rdt_conn conn, const struct rdt_landing *landing,
             uint64_t now_ns)
{
    struct conn *c = find_handle(ep, conn);
    int err;

    ep->now_ns = now_ns;
    if (!c || !conn_is_usable(c))
        return RDT_ECONN;
    err = inbox_post(&c->inbox, landing);
    if (err == 0) {
        conn_on_allowance(c, now_ns);
        settle(ep, c);
    }
    return err;
}

int rdt_unpost(struct rdt_endpoint *ep, struct rdt_conn conn, uint16_t channel, uint64_t tag)
{
    struct conn *c = find_handle(ep, conn);

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
    settle(ep, c);
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
        settle(ep, c);
    return true;
}

/* ---------- statistics ---------- */

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
        stats = counters_of(c);
        add_stats(&sum, &stats);
        sum.connections += c->state == CONN_OPEN || c->state == CONN_FLUSHING;
    }
    give_stats(&sum, out);
}

int rdt_conn_stats(const struct rdt_endpoint *ep, struct rdt_conn conn, struct rdt_stats *out)
{
    const struct conn *c = find_handle(ep, conn);
    struct rdt_stats stats;

    if (!c)
        return RDT_ECONN;
    stats = counters_of(c);
    stats.rtt_min_ns = c->rtt.min_ns;
    stats.rtt_smoothed_ns = c->rtt.smoothed_ns;
    stats.cwnd_bytes = c->cc.cwnd_bytes;
    stats.in_flight_bytes = c->sent.in_flight_bytes;
    stats.pacing_bps = c->cc.pacing_bps;
    stats.datagram_bytes = c->datagram;
    give_stats(&stats, out);
    return 0;
}
