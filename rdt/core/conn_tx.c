/* SPDX-License-Identifier: MIT */
/*
 * What goes out next: one train of datagrams at a time, the most urgent first.
 */
#include "conn.h"

#include <assert.h>
#include <string.h>

enum {
    ACK_FIRST_RANGE = 20, /* bytes that the newest range may take */
};

/* A datagram that is being written. */
struct draft {
    uint8_t *bytes;
    struct writer body;
    struct frame frame;
    struct sent_span spans[SENT_SPANS_MAX];
    uint8_t span_count;
    bool tracked; /* it asks for an acknowledgement */
    bool repeat;
    uint64_t news;
    uint64_t first_bytes; /* payload sent for the first time */
    uint64_t again_bytes;
};

static struct draft draft_make(const struct conn *c, uint8_t *bytes, size_t cap,
                               enum frame_type type)
{
    struct draft d = {.bytes = bytes,
                      .body = writer_make(bytes + FRAME_PREFIX, cap - FRAME_PREFIX)};

    d.frame.type = (uint8_t)type;
    d.frame.cid = c->peer_cid;
    return d;
}

/* Gives it a SEQ, seals it and counts it.  Returns its length. */
static size_t draft_finish(struct conn *c, struct draft *d, const struct frame_key *key,
                           uint64_t now_ns)
{
    const size_t len = FRAME_PREFIX + d->body.written;
    const uint64_t in_flight = c->sent.in_flight_bytes;

    assert(!d->body.failed);
    while (!sent_has_room(&c->sent))
        conn_give_up_oldest(c);
    if (d->tracked) {
        struct sent_record *record = sent_add(&c->sent, (uint32_t)len, now_ns);

        d->frame.seq = record->seq;
        record->news = d->news;
        record->span_count = d->span_count;
        record->probe = c->probes > 0;
        memcpy(record->spans, d->spans, d->span_count * sizeof d->spans[0]);
        rate_on_sent(&c->rate, record, in_flight);
        cc_on_sent(&c->cc, (uint32_t)len, in_flight, now_ns);
        c->paced_bytes += len; /* acknowledgements are free: the peer's rate limits them */
        c->pto_from_ns = now_ns;
        c->confirm_due = false;
        if (c->probes > 0)
            c->probes--;
    } else {
        d->frame.seq = sent_add_untracked(&c->sent, now_ns);
    }
    frame_encode(&d->frame, d->bytes);
    frame_seal(key, d->bytes, len);
    c->stats.datagrams_sent++;
    c->stats.bytes_sent += len;
    c->stats.payload_sent += d->first_bytes;
    c->stats.payload_retransmitted += d->again_bytes;
    c->stats.datagrams_retransmitted += d->repeat;
    return len;
}

/* ---------- handshake and farewell ---------- */

static size_t write_init(struct conn *c, uint8_t *buf, uint64_t now_ns)
{
    struct handshake_init init = {.cid = c->cid, .limits = conn_own_limits(c)};
    size_t len = c->handshake_tries < HANDSHAKE_PAD_TRIES ? HANDSHAKE_PAD : HANDSHAKE_PAD_SMALL;
    struct draft d;

    if (len > c->datagram)
        len = HANDSHAKE_PAD_SMALL;
    d = draft_make(c, buf, len, FRAME_INIT);
    d.frame.cid = 0;
    memcpy(init.nonce, c->client_nonce, FRAME_NONCE);
    handshake_encode_init(&d.body, &init, len);
    return draft_finish(c, &d, &c->env->public_key, now_ns);
}

static size_t write_accept(struct conn *c, uint8_t *buf, uint64_t now_ns)
{
    struct handshake_accept accept = {
        .status = HANDSHAKE_ACCEPTED, .cid = c->cid, .limits = conn_own_limits(c)};
    struct draft d = draft_make(c, buf, HANDSHAKE_ACCEPT_BYTES, FRAME_ACCEPT);

    memcpy(accept.client_nonce, c->client_nonce, FRAME_NONCE);
    memcpy(accept.server_nonce, c->server_nonce, FRAME_NONCE);
    handshake_encode_accept(&d.body, &accept);
    return draft_finish(c, &d, &c->env->public_key, now_ns);
}

static size_t handshake_train(struct conn *c, uint64_t now_ns, uint8_t *buf)
{
    size_t len;

    if (!c->handshake_due)
        return 0;
    c->handshake_due = false;
    if (c->state == CONN_ACCEPTING && c->handshake_budget < HANDSHAKE_ACCEPT_BYTES) {
        c->handshake_next_ns = UINT64_MAX; /* until another INIT comes */
        return 0;
    }
    len = c->state == CONN_CONNECTING ? write_init(c, buf, now_ns) : write_accept(c, buf, now_ns);
    if (c->state == CONN_ACCEPTING)
        c->handshake_budget -= len;
    c->handshake_tries++;
    c->handshake_sent_ns = now_ns;
    c->handshake_wait_ns = handshake_next_wait(c->handshake_wait_ns);
    c->handshake_next_ns = now_ns + c->handshake_wait_ns;
    return len;
}

static size_t close_train(struct conn *c, uint64_t now_ns, uint8_t *buf)
{
    struct draft d;

    if (!c->close_due)
        return 0;
    c->close_due = false;
    c->close_tries++;
    if (c->state == CONN_CLOSING) {
        c->close_next_ns = now_ns + c->close_wait_ns;
        if (c->close_tries == CONN_CLOSE_TRIES)
            c->close_end_ns = c->close_next_ns;
        c->close_wait_ns *= 2;
    }
    d = draft_make(c, buf, FRAME_PREFIX + 4, FRAME_CLOSE);
    writer_u32(&d.body, (uint32_t)c->close_code);
    return draft_finish(c, &d, &c->key, now_ns);
}

/* ---------- acknowledgements ---------- */

static uint32_t ack_delay_us(const struct conn *c, uint64_t now_ns)
{
    uint64_t delay_us = (now_ns - c->acker.largest_ns) / 1000;

    return delay_us < UINT32_MAX ? (uint32_t)delay_us : UINT32_MAX;
}

/* The peer may not know of all that it may send. */
static bool has_news(const struct conn *c)
{
    return c->news.due || c->inbox.grant_count > 0 ||
           c->news.known.credit != c->inbox.credit.limit ||
           c->news.known.messages != c->inbox.messages_limit;
}

/* Packets that were given up longer ago than this will not come any more. */
static uint64_t forget_before_ns(const struct conn *c, uint64_t now_ns)
{
    const uint64_t late = CONN_LATE_RTTS * rtt_smoothed_ns(&c->rtt);

    return now_ns > late ? now_ns - late : 0;
}

/* Writes an ACK block of at most `most` bytes. */
static void write_ack(struct conn *c, struct draft *d, size_t most, uint64_t now_ns)
{
    const struct allowance allowance = {.credit = c->inbox.credit.limit,
                                        .messages = c->inbox.messages_limit};
    struct ack ack;
    struct writer w = d->body;

    assert(most <= w.left);
    w.left = most;
    ack.floor = sent_floor(&c->sent, forget_before_ns(c, now_ns));
    ack.credit = allowance.credit;
    ack.messages = allowance.messages;
    ack.delay_us = ack_delay_us(c, now_ns);
    ack.range_count = (uint16_t)ranges_newest(&c->received, ack.ranges, ACK_RANGES_MAX);
    ack.grant_count = 0;
    if (d->tracked && has_news(c)) {
        d->news = news_on_sent(&c->news, allowance);
        inbox_list_grants(&c->inbox, &ack, (most - ACK_FIXED - ACK_FIRST_RANGE) / ACK_GRANT,
                          d->news);
    }
    ack_encode(&w, &ack);
    assert(w.written > d->body.written);
    w.left = d->body.left - (w.written - d->body.written);
    d->body = w;
    c->floor_sent = ack.floor;
    c->floor_news = false;
    acker_on_sent(&c->acker);
}

static size_t write_ack_datagram(struct conn *c, uint64_t now_ns, uint8_t *buf)
{
    struct draft d = draft_make(c, buf, c->datagram, FRAME_ACK);

    if (news_is_due(&c->news, now_ns)) {
        d.tracked = true;
        d.frame.flags = FRAME_ACK_NOW;
    }
    write_ack(c, &d, d.body.left, now_ns);
    return draft_finish(c, &d, &c->key, now_ns);
}

static bool ack_fits_in(const struct conn *c)
{
    if (c->acker.pending > 0 || c->acker.due || c->news.due || c->news.deadline_ns != UINT64_MAX)
        return true;
    return c->floor_news && c->sent.oldest - c->floor_sent >= CONN_FLOOR_STEP;
}

/* ---------- data ---------- */

static void add_piece(struct conn *c, struct draft *d, struct piece *piece)
{
    chunk_encode(&d->body, &piece->chunk);
    if (piece->chunk.len > 0)
        outbox_copy(&c->outbox, piece, writer_take(&d->body, piece->chunk.len));
    d->spans[d->span_count++] = (struct sent_span){.slot = piece->slot,
                                                   .generation = piece->generation,
                                                   .offset = piece->chunk.offset,
                                                   .len = piece->chunk.len};
    if (piece->repeat) {
        d->repeat = true;
        d->again_bytes += piece->chunk.len;
    } else {
        d->first_bytes += piece->chunk.len;
    }
}

static size_t write_data(struct conn *c, uint64_t now_ns, uint8_t *buf)
{
    struct draft d = draft_make(c, buf, c->datagram, FRAME_DATA);
    struct piece_want want = {.channel = RDT_CHANNELS};
    struct piece piece;

    d.tracked = true;
    if (ack_fits_in(c)) {
        d.frame.flags |= FRAME_ACK_FIRST;
        write_ack(c, &d, d.body.left / 3, now_ns);
    }
    while (d.span_count < SENT_SPANS_MAX) {
        want.room = d.body.left;
        if (!outbox_next(&c->outbox, &want, &piece))
            break;
        want.channel = piece.channel;
        want.kind = piece.chunk.kind;
        add_piece(c, &d, &piece);
    }
    assert(d.span_count > 0);
    d.frame.channel = want.channel;
    d.frame.type = (uint8_t)(want.kind == RDT_UPDATE ? FRAME_UPDATE : FRAME_DATA);
    if (d.repeat)
        d.frame.type = FRAME_RETRANSMIT;
    if (!outbox_has_work(&c->outbox) ||
        cc_room(&c->cc, c->sent.in_flight_bytes) < 2 * (uint64_t)c->datagram)
        d.frame.flags |= FRAME_ACK_NOW; /* nothing follows that would hurry the acknowledgement */
    return draft_finish(c, &d, &c->key, now_ns);
}

/* A packet without content that asks for an acknowledgement. */
static size_t write_question(struct conn *c, uint64_t now_ns, uint8_t *buf)
{
    struct draft d = draft_make(c, buf, CONN_PING_BYTES, FRAME_PING);

    d.tracked = true;
    d.frame.flags = FRAME_ACK_NOW;
    c->ping_due = false;
    if (c->confirm_due)
        d.frame.type = FRAME_CONFIRM;
    else
        writer_zero(&d.body, d.body.left);
    return draft_finish(c, &d, &c->key, now_ns);
}

/* May data leave?  What only the pacer forbids waits for its deadline. */
static bool may_send_data(struct conn *c, uint64_t now_ns)
{
    if (c->probes > 0)
        return true;
    if (c->sent.next_seq - c->sent.oldest >= CONN_SENT_RECORDS / 2)
        return false; /* the rest is for what must go in any case */
    if (c->sent.in_flight_count > 0 && cc_room(&c->cc, c->sent.in_flight_bytes) < c->datagram)
        return false;
    if (!outbox_has_work(&c->outbox)) {
        rate_on_app_limited(&c->rate, c->sent.in_flight_bytes);
        return false;
    }
    c->pace_blocked = pacer_budget(&c->pacer, now_ns) == 0;
    return !c->pace_blocked;
}

static size_t next_datagram(struct conn *c, uint64_t now_ns, uint8_t *buf, bool may_data)
{
    if (may_data && outbox_has_work(&c->outbox))
        return write_data(c, now_ns, buf);
    if (c->confirm_due || c->ping_due || c->probes > 0)
        return write_question(c, now_ns, buf);
    if (acker_is_due(&c->acker, now_ns) || news_is_due(&c->news, now_ns))
        return write_ack_datagram(c, now_ns, buf);
    return 0;
}

/* Data fills datagram after datagram; anything shorter ends the train. */
static size_t open_train(struct conn *c, uint64_t now_ns, uint8_t *buf, size_t cap)
{
    const uint64_t budget = pacer_budget(&c->pacer, now_ns);
    size_t most = cap < c->env->config.train_bytes_max ? cap : c->env->config.train_bytes_max;
    size_t len = 0;

    for (uint32_t i = 0; i < c->env->config.train_segments_max; i++) {
        bool may_data;
        size_t part;

        if (most - len < c->datagram || (len > 0 && len >= budget && c->probes == 0))
            break;
        may_data = may_send_data(c, now_ns);
        if (len > 0 && !may_data)
            break;
        part = next_datagram(c, now_ns, buf + len, may_data);
        len += part;
        if (part < c->datagram)
            break;
    }
    pacer_spend(&c->pacer, c->paced_bytes, now_ns);
    c->paced_bytes = 0;
    return len;
}

size_t conn_next_train(struct conn *c, uint64_t now_ns, uint8_t *buf, size_t cap,
                       struct rdt_train *out)
{
    size_t len = 0;

    switch ((enum conn_state)c->state) {
    case CONN_CONNECTING:
    case CONN_ACCEPTING:
        len = handshake_train(c, now_ns, buf);
        break;
    case CONN_OPEN:
    case CONN_FLUSHING:
        len = open_train(c, now_ns, buf, cap);
        break;
    case CONN_CLOSING:
    case CONN_DRAINING:
        len = close_train(c, now_ns, buf);
        break;
    case CONN_FREE:
    case CONN_DEAD:
        break;
    }
    *out = (struct rdt_train){.to = c->peer,
                              .local = c->local,
                              .len = len,
                              .segment_len = len < c->datagram ? len : c->datagram};
    return len;
}
