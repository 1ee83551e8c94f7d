/* SPDX-License-Identifier: MIT */
/*
 * States of a connection, and what the application asks of it; see conn.h.
 */
#include "conn.h"

#include <assert.h>
#include <string.h>

/* Which states may follow: the diagram of protocol.md. */
static const uint16_t may_move[] = {
    [CONN_FREE] = 1u << CONN_CONNECTING | 1u << CONN_ACCEPTING,
    [CONN_CONNECTING] = 1u << CONN_OPEN | 1u << CONN_DEAD,
    [CONN_ACCEPTING] = 1u << CONN_OPEN | 1u << CONN_DEAD,
    [CONN_OPEN] = 1u << CONN_FLUSHING | 1u << CONN_CLOSING | 1u << CONN_DRAINING | 1u << CONN_DEAD,
    [CONN_FLUSHING] = 1u << CONN_CLOSING | 1u << CONN_DRAINING | 1u << CONN_DEAD,
    [CONN_CLOSING] = 1u << CONN_DEAD,
    [CONN_DRAINING] = 1u << CONN_DEAD,
    [CONN_DEAD] = 1u << CONN_FREE,
};

void conn_set_state(struct conn *c, enum conn_state next)
{
    assert(may_move[c->state] & (1u << next));
    c->state = (uint8_t)next;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static struct outbox_config outbox_config_of(const struct rdt_config *config)
{
    return (struct outbox_config){.messages_max = config->messages_max,
                                  .bytes_max = config->send_bytes_max};
}

static struct inbox_config inbox_config_of(const struct rdt_config *config)
{
    return (struct inbox_config){.incoming_max = config->incoming_max,
                                 .posts_max = config->posts_max,
                                 .message_max = config->pool_message_max};
}

size_t conn_bytes(const struct rdt_config *config)
{
    const struct outbox_config outgoing = outbox_config_of(config);
    const struct inbox_config incoming = inbox_config_of(config);

    return rounded(outbox_bytes(&outgoing)) + rounded(inbox_bytes(&incoming)) +
           rounded(sent_bytes(CONN_SENT_RECORDS));
}

/* ---------- opening ---------- */

static void push_event(struct conn *c, enum rdt_event_kind kind, uint32_t subject, int32_t detail)
{
    events_push(&c->env->events,
                (struct event_note){
                    .kind = kind, .connection = c->slot, .subject = subject, .detail = detail});
}

static void init_modules(struct conn *c, const struct conn_seed *seed)
{
    const struct rdt_config *config = &c->env->config;
    const struct outbox_config outgoing = outbox_config_of(config);
    struct inbox_config incoming = inbox_config_of(config);
    uint8_t *memory = c->memory;

    incoming.connection = c->slot;
    incoming.credit_base = c->env->credit_base;
    incoming.pool = &c->env->pool;
    incoming.bank = &c->env->bank;
    incoming.events = &c->env->events;
    outbox_init(&c->outbox, memory, &outgoing);
    memory += rounded(outbox_bytes(&outgoing));
    inbox_init(&c->inbox, memory, &incoming);
    memory += rounded(inbox_bytes(&incoming));
    sent_init(&c->sent, memory, CONN_SENT_RECORDS, 0);
    ranges_init(&c->received);
    rtt_init(&c->rtt);
    loss_init(&c->loss);
    rate_init(&c->rate);
    pacer_init(&c->pacer);
    acker_init(&c->acker);
    news_init(&c->news, (struct allowance){.credit = c->inbox.credit.limit,
                                           .messages = c->inbox.messages_limit});
    cc_init(&c->cc, &(struct cc_config){.algorithm = config->cc,
                                        .datagram_bytes = config->datagram_max,
                                        .fixed_window = config->fixed_window,
                                        .seed = seed->random});
}

static void begin(struct conn *c, const struct conn_seed *seed, uint64_t now_ns)
{
    const struct conn kept = {.env = c->env,
                              .memory = c->memory,
                              .slot = c->slot,
                              .generation = c->generation,
                              .is_queued = c->is_queued,
                              .queue_next = c->queue_next};

    *c = kept;
    c->peer = seed->peer;
    c->local = seed->local;
    c->cid = seed->cid;
    c->datagram = c->env->config.datagram_max;
    c->handshake_due = true;
    c->handshake_next_ns = now_ns;
    c->handshake_end_ns = now_ns + c->env->config.handshake_ns;
    c->flush_end_ns = UINT64_MAX;
    c->valid_ns = now_ns;
    c->pto_from_ns = now_ns;
    init_modules(c, seed);
}

void conn_connect(struct conn *c, const struct conn_seed *seed, uint64_t now_ns)
{
    begin(c, seed, now_ns);
    c->announced = true;
    memcpy(c->client_nonce, seed->nonce, FRAME_NONCE);
    conn_set_state(c, CONN_CONNECTING);
}

static void learn_limits(struct conn *c, const struct handshake_limits *limits)
{
    c->peer_limits = *limits;
    if (limits->datagram_max < c->datagram)
        c->datagram = limits->datagram_max;
}

void conn_accept(struct conn *c, const struct conn_seed *seed, const struct handshake_init *init,
                 size_t bytes, uint64_t now_ns)
{
    begin(c, seed, now_ns);
    c->incoming = true;
    c->peer_cid = init->cid;
    memcpy(c->client_nonce, init->nonce, FRAME_NONCE);
    memcpy(c->server_nonce, seed->nonce, FRAME_NONCE);
    frame_key_init_nonces(&c->key, c->client_nonce, c->server_nonce);
    learn_limits(c, &init->limits);
    c->handshake_budget = CONN_ACCEPT_SHARE * (uint64_t)bytes;
    conn_set_state(c, CONN_ACCEPTING);
}

void conn_on_init_again(struct conn *c, size_t bytes)
{
    if (c->state != CONN_ACCEPTING)
        return;
    c->handshake_budget += CONN_ACCEPT_SHARE * (uint64_t)bytes;
    c->handshake_due = true;
}

void conn_open(struct conn *c, uint64_t now_ns)
{
    if (c->handshake_tries == 1)
        rtt_sample(&c->rtt, now_ns - c->handshake_sent_ns, 0);
    conn_set_state(c, CONN_OPEN);
    c->handshake_due = false;
    c->valid_ns = now_ns;
    c->pto_from_ns = now_ns;
    outbox_open(&c->outbox, c->peer_limits.message_max);
    outbox_credit(&c->outbox, c->peer_limits.credit, c->peer_limits.messages);
    c->announced = true;
    push_event(c, RDT_EV_CONNECTED, 0, c->incoming);
    if (c->flush_end_ns == UINT64_MAX)
        return;
    conn_set_state(c, CONN_FLUSHING); /* rdt_close came before the connection */
    conn_on_idle(c, now_ns);
}

/* The peer has not heard of us since: it lives, and what should have confirmed was lost. */
static bool is_accept_again(const struct conn *c, const struct handshake_accept *accept)
{
    return !c->incoming && (c->state == CONN_OPEN || c->state == CONN_FLUSHING) &&
           accept->status == HANDSHAKE_ACCEPTED && accept->cid == c->peer_cid &&
           memcmp(accept->client_nonce, c->client_nonce, FRAME_NONCE) == 0 &&
           memcmp(accept->server_nonce, c->server_nonce, FRAME_NONCE) == 0;
}

void conn_on_accept(struct conn *c, const struct handshake_accept *accept,
                    const struct rdt_addr *local, uint64_t now_ns)
{
    if (is_accept_again(c, accept)) {
        c->stats.duplicate++;
        c->confirm_due = true;
        c->valid_ns = now_ns;
        return;
    }
    if (c->state != CONN_CONNECTING ||
        memcmp(accept->client_nonce, c->client_nonce, FRAME_NONCE) != 0) {
        c->stats.stray++;
        return;
    }
    if (accept->status == HANDSHAKE_REFUSED) {
        conn_end(c, CONN_DEAD, RDT_CLOSED_REFUSED, now_ns);
        return;
    }
    c->peer_cid = accept->cid;
    c->local = *local;
    memcpy(c->server_nonce, accept->server_nonce, FRAME_NONCE);
    frame_key_init_nonces(&c->key, c->client_nonce, c->server_nonce);
    learn_limits(c, &accept->limits);
    c->confirm_due = true;
    conn_open(c, now_ns);
}

struct handshake_limits conn_own_limits(const struct conn *c)
{
    const struct rdt_config *config = &c->env->config;

    return (struct handshake_limits){
        .credit = c->inbox.credit.limit,
        .message_max = config->pool_message_max,
        .messages = c->inbox.messages_limit,
        .ack_delay_us = (uint32_t)(config->max_ack_delay_ns / 1000),
        .datagram_max = config->datagram_max,
    };
}

/* ---------- closing ---------- */

bool conn_is_usable(const struct conn *c)
{
    switch ((enum conn_state)c->state) {
    case CONN_CONNECTING:
        return c->flush_end_ns == UINT64_MAX;
    case CONN_OPEN:
        return true;
    case CONN_FREE:
    case CONN_ACCEPTING:
    case CONN_FLUSHING:
    case CONN_CLOSING:
    case CONN_DRAINING:
    case CONN_DEAD:
        break;
    }
    return false;
}

static void begin_farewell(struct conn *c, enum conn_state next, uint64_t now_ns)
{
    c->close_due = true;
    c->close_tries = 0;
    c->close_wait_ns = conn_pto_ns(c);
    c->close_next_ns = UINT64_MAX;
    c->close_end_ns = next == CONN_DRAINING ? now_ns + 3 * c->close_wait_ns : UINT64_MAX;
}

void conn_end(struct conn *c, enum conn_state next, enum rdt_closed reason, uint64_t now_ns)
{
    uint32_t slot;

    if (next != CONN_DEAD)
        begin_farewell(c, next, now_ns);
    conn_set_state(c, next);
    c->close_code = reason == RDT_CLOSED_PROTOCOL ? RDT_CLOSED_PROTOCOL : RDT_CLOSED_LOCAL;
    while ((slot = outbox_abort_next(&c->outbox)) != UINT32_MAX)
        push_event(c, RDT_EV_RELEASED, slot, RDT_ABORTED);
    inbox_close(&c->inbox);
    if (c->announced)
        push_event(c, RDT_EV_CLOSED, 0, (int32_t)reason);
    else
        c->closed_taken = true;
}

int conn_close(struct conn *c, uint64_t flush_ns, uint64_t now_ns)
{
    if (!conn_is_usable(c))
        return RDT_ECONN;
    if (flush_ns > 0 && (c->outbox.unfinished > 0 || c->state == CONN_CONNECTING)) {
        c->flush_end_ns = now_ns + flush_ns;
        if (c->state == CONN_OPEN)
            conn_set_state(c, CONN_FLUSHING);
    } else {
        conn_end(c, c->state == CONN_OPEN ? CONN_CLOSING : CONN_DEAD, RDT_CLOSED_LOCAL, now_ns);
    }
    return 0;
}

int conn_abort(struct conn *c, uint64_t now_ns)
{
    switch ((enum conn_state)c->state) {
    case CONN_CONNECTING:
        conn_end(c, CONN_DEAD, RDT_CLOSED_LOCAL, now_ns);
        return 0;
    case CONN_OPEN:
    case CONN_FLUSHING:
        conn_end(c, CONN_CLOSING, RDT_CLOSED_LOCAL, now_ns);
        return 0;
    case CONN_FREE:
    case CONN_ACCEPTING:
    case CONN_CLOSING:
    case CONN_DRAINING:
    case CONN_DEAD:
        break;
    }
    return RDT_ECONN;
}

void conn_on_idle(struct conn *c, uint64_t now_ns)
{
    if (c->state == CONN_FLUSHING && c->outbox.unfinished == 0)
        conn_end(c, CONN_CLOSING, RDT_CLOSED_LOCAL, now_ns);
}

void conn_fini(struct conn *c)
{
    inbox_fini(&c->inbox);
    conn_set_state(c, CONN_FREE);
    c->generation = c->generation == UINT32_MAX ? 1 : c->generation + 1;
}

/* ---------- the application's calls ---------- */

/* The peer knows of so much room that it may begin whatever it wants: news can wait for a packet
 * that goes out anyway.  (It may have begun more than it is known to know of.) */
static bool peer_has_room(const struct conn *c)
{
    const struct credit *credit = &c->inbox.credit;
    const uint64_t half = credit_window(credit) / 2;
    const uint64_t enough = half > credit->base ? half : credit->base;
    const int32_t messages = (int32_t)(c->news.known.messages - c->inbox.messages_begun);

    return c->news.known.credit >= credit->begun + enough && messages > 0 &&
           (uint32_t)messages > c->env->config.incoming_max / 2;
}

void conn_on_allowance(struct conn *c, uint64_t now_ns)
{
    const struct allowance allowance = {.credit = c->inbox.credit.limit,
                                        .messages = c->inbox.messages_limit};
    const struct news_step step = {
        .credit = credit_window(&c->inbox.credit) / ACKER_NEWS_SHARE,
        .messages = c->env->config.incoming_max / ACKER_NEWS_SHARE + 1,
    };

    if (c->inbox.grant_fresh)
        news_hurry(&c->news);
    if (!peer_has_room(c))
        news_update(&c->news, allowance, step, now_ns + c->env->config.max_ack_delay_ns);
}

void conn_on_room(struct conn *c)
{
    if (!conn_is_usable(c) || c->writable_queued || !outbox_take_writable(&c->outbox))
        return;
    c->writable_queued = true;
    push_event(c, RDT_EV_WRITABLE, 0, 0);
}
