/* SPDX-License-Identifier: MIT */
/*
 * A packet came in: what it acknowledges, what it carries, and what that makes due.
 */
#include "conn.h"

#include <assert.h>
#include <string.h>

enum outcome {
    OUTCOME_TAKEN,
    OUTCOME_FULL,      /* as if it had never arrived */
    OUTCOME_MALFORMED, /* likewise */
    OUTCOME_BROKEN,    /* the peer does not keep to the protocol */
};

/* ---------- acknowledgements ---------- */

static void on_packet_lost(struct conn *c, const struct sent_record *record)
{
    c->stats.lost++;
    c->floor_news = true;
    for (unsigned i = 0; i < record->span_count; i++)
        outbox_lost(&c->outbox, record->spans[i]);
    if (record->news)
        news_on_lost(&c->news, record->news);
}

uint64_t conn_find_lost(struct conn *c, uint64_t now_ns)
{
    const struct sent_record *record;
    uint64_t bytes = 0;

    while ((record = loss_next(&c->loss, &c->sent, &c->rtt, now_ns)) != NULL) {
        bytes += record->bytes;
        on_packet_lost(c, record);
    }
    return bytes;
}

void conn_give_up_oldest(struct conn *c)
{
    struct sent_record *record = sent_oldest(&c->sent);

    sent_on_lost(&c->sent, record);
    on_packet_lost(c, record);
}

static void release_spans(struct conn *c, const struct sent_record *record)
{
    for (unsigned i = 0; i < record->span_count; i++) {
        if (!outbox_acked(&c->outbox, record->spans[i]))
            continue;
        c->stats.messages_sent++;
        events_push(&c->env->events, (struct event_note){.kind = RDT_EV_RELEASED,
                                                         .connection = c->slot,
                                                         .subject = record->spans[i].slot,
                                                         .detail = RDT_OK});
        conn_on_room(c);
    }
    if (record->news) {
        news_on_acked(&c->news, record->news);
        inbox_grants_known(&c->inbox, record->news);
    }
}

/* How long the peer says it kept the acknowledgement, at most what it promised. */
static uint64_t ack_delay_ns(const struct conn *c, const struct ack *ack)
{
    const uint32_t delay_us =
        ack->delay_us < c->peer_limits.ack_delay_us ? ack->delay_us : c->peer_limits.ack_delay_us;

    return (uint64_t)delay_us * 1000;
}

static void on_range(struct conn *c, struct range range, struct rate_sample *sample,
                     uint64_t arrived_ns, uint64_t now_ns)
{
    struct sent_record *record;

    while ((record = sent_next_in_flight(&c->sent, range.first, range.last)) != NULL) {
        rate_on_acked(&c->rate, record, sample, arrived_ns);
        release_spans(c, record);
        sent_on_acked(&c->sent, record);
    }
    while ((record = sent_next_lost(&c->sent, range.first, range.last)) != NULL) {
        c->stats.spurious++;
        loss_on_spurious(&c->loss, &c->sent, &c->rtt, record, now_ns);
        cc_on_spurious(&c->cc, record->bytes);
        release_spans(c, record);
        sent_on_acked(&c->sent, record);
    }
}

/* The round trip of the largest packet, if this ACK is the first to cover it; 0: no sample. */
static uint64_t measure(struct conn *c, const struct ack *ack, const struct rate_sample *sample,
                        uint64_t now_ns)
{
    const uint64_t delay_ns = ack_delay_ns(c, ack);
    const uint64_t rtt_ns = now_ns - sample->newest_sent_ns;

    if (!sample->has_packet || sample->newest_seq != ack->ranges[0].last)
        return 0;
    rtt_sample(&c->rtt, rtt_ns, delay_ns);
    return rtt_ns > delay_ns ? rtt_ns - delay_ns : 1;
}

static void on_progress(struct conn *c, const struct ack *ack, struct rate_sample *sample,
                        uint64_t in_flight_before, uint64_t now_ns)
{
    const uint64_t rtt_ns = measure(c, ack, sample, now_ns);
    const uint64_t lost = conn_find_lost(c, now_ns);

    if (sample->has_packet) {
        c->pto_count = 0;
        c->probes = 0;
        c->pto_from_ns = now_ns;
        rate_finish(&c->rate, sample, c->rtt.min_ns);
        cc_on_ack(&c->cc, &(struct cc_ack){.now_ns = now_ns,
                                           .delivered = c->rate.delivered,
                                           .lost_bytes = lost,
                                           .in_flight_before_bytes = in_flight_before,
                                           .in_flight_bytes = c->sent.in_flight_bytes,
                                           .rtt_ns = rtt_ns,
                                           .smoothed_rtt_ns = rtt_smoothed_ns(&c->rtt),
                                           .sample = sample});
    } else if (lost > 0) {
        cc_on_loss(&c->cc, &(struct cc_loss){.now_ns = now_ns,
                                             .lost_bytes = lost,
                                             .in_flight_bytes = c->sent.in_flight_bytes});
    }
    pacer_set(&c->pacer, &(struct pacer_config){.rate_bps = c->cc.pacing_bps,
                                                .datagram_bytes = c->datagram,
                                                .train_bytes = c->env->config.train_bytes_max});
}

static void on_grants(struct conn *c, const struct ack *ack)
{
    for (unsigned i = 0; i < ack->grant_count; i++) {
        const struct ack_grant *grant = &ack->grants[i];
        const unsigned channel = grant->channel & ~(unsigned)LANE_ORDERED_BIT;

        outbox_grant(&c->outbox, message_lane(channel, grant->channel & LANE_ORDERED_BIT),
                     grant->message_id, grant->upto);
    }
}

/* false: it acknowledges what was never sent. */
static bool on_ack(struct conn *c, const struct ack *ack, uint64_t now_ns)
{
    const uint64_t in_flight_before = c->sent.in_flight_bytes;
    const uint64_t delay_ns = ack_delay_ns(c, ack);
    const uint64_t arrived_ns = now_ns > delay_ns ? now_ns - delay_ns : 0;
    struct rate_sample sample = {0};

    if (ack->range_count > 0 && !sent_is_used(&c->sent, ack->ranges[0].last))
        return false;
    for (unsigned i = 0; i < ack->range_count; i++)
        on_range(c, ack->ranges[i], &sample, arrived_ns, now_ns);
    on_progress(c, ack, &sample, in_flight_before, now_ns);
    ranges_forget_below(&c->received, ack->floor);
    outbox_credit(&c->outbox, ack->credit, ack->messages);
    on_grants(c, ack);
    return true;
}

static enum outcome read_ack(struct conn *c, struct reader *body, uint64_t now_ns)
{
    struct ack ack;

    if (!ack_decode(body, &ack))
        return OUTCOME_MALFORMED;
    return on_ack(c, &ack, now_ns) ? OUTCOME_TAKEN : OUTCOME_BROKEN;
}

/* ---------- chunks ---------- */

static bool chunks_are_sound(const struct frame *frame, struct reader body)
{
    struct chunk chunk;

    do {
        if (!chunk_decode(&body, &chunk))
            return false;
        if (frame->type != FRAME_RETRANSMIT &&
            (chunk.kind == RDT_UPDATE) != (frame->type == FRAME_UPDATE))
            return false;
    } while (body.left > 0);
    return true;
}

static enum outcome on_chunks(struct conn *c, const struct frame *frame, struct reader body)
{
    struct chunk chunk;

    while (body.left > 0) {
        if (!chunk_decode(&body, &chunk))
            return OUTCOME_MALFORMED;
        switch (inbox_chunk(&c->inbox, frame->channel, &chunk)) {
        case INBOX_TAKEN:
            break;
        case INBOX_FULL:
            return OUTCOME_FULL;
        case INBOX_MALFORMED:
            return OUTCOME_MALFORMED;
        }
    }
    return OUTCOME_TAKEN;
}

static enum outcome on_data(struct conn *c, const struct frame *frame, struct reader body,
                            uint64_t now_ns)
{
    struct reader chunks = body;

    if (frame->flags & FRAME_ACK_FIRST) {
        struct ack ack;

        if (!ack_decode(&chunks, &ack) || !chunks_are_sound(frame, chunks))
            return OUTCOME_MALFORMED;
        if (!on_ack(c, &ack, now_ns))
            return OUTCOME_BROKEN;
    } else if (!chunks_are_sound(frame, chunks)) {
        return OUTCOME_MALFORMED;
    }
    return on_chunks(c, frame, chunks);
}

/* ---------- packets ---------- */

static enum outcome on_body(struct conn *c, const struct frame *frame, struct reader body,
                            uint64_t now_ns)
{
    enum outcome outcome;

    switch ((enum frame_type)frame->type) {
    case FRAME_DATA:
    case FRAME_UPDATE:
    case FRAME_RETRANSMIT:
        return on_data(c, frame, body, now_ns);
    case FRAME_ACK:
        outcome = read_ack(c, &body, now_ns);
        return outcome == OUTCOME_TAKEN && body.left > 0 ? OUTCOME_MALFORMED : outcome;
    case FRAME_PING:
        return body.left + FRAME_PREFIX == CONN_PING_BYTES ? OUTCOME_TAKEN : OUTCOME_MALFORMED;
    case FRAME_CONFIRM:
        return body.left == 0 ? OUTCOME_TAKEN : OUTCOME_MALFORMED;
    case FRAME_CLOSE:
        return body.left == 4 ? OUTCOME_TAKEN : OUTCOME_MALFORMED;
    case FRAME_INIT:
    case FRAME_ACCEPT:
        break;
    }
    return OUTCOME_MALFORMED;
}

static bool asks_for_ack(const struct frame *frame)
{
    return frame->type != FRAME_CLOSE &&
           (frame->type != FRAME_ACK || (frame->flags & FRAME_ACK_NOW) != 0);
}

/* Remembers the packet and decides how soon it is acknowledged. */
static void note_packet(struct conn *c, const struct frame *frame, bool urgent, uint64_t now_ns)
{
    const bool gap = frame->seq != c->received.end;

    if (frame->seq < c->received.end)
        c->stats.reordered++;
    else
        c->acker.largest_ns = now_ns;
    ranges_add(&c->received, frame->seq);
    if (gap)
        c->hurried = CONN_HURRIED;
    if (!asks_for_ack(frame))
        return;
    if (c->hurried > 0) {
        c->hurried--;
        urgent = true;
    }
    if (frame->type == FRAME_CONFIRM || (frame->flags & FRAME_ACK_NOW))
        urgent = true;
    acker_on_packet(&c->acker, urgent, now_ns, c->env->config.max_ack_delay_ns);
}

static void on_close(struct conn *c, uint64_t now_ns)
{
    if (c->state == CONN_CLOSING)
        conn_set_state(c, CONN_DEAD);
    else if (c->state == CONN_DRAINING)
        c->close_due = true;
    else
        conn_end(c, CONN_DRAINING, RDT_CLOSED_PEER, now_ns);
}

static void on_open_packet(struct conn *c, const struct frame *frame, struct reader body,
                           uint64_t now_ns)
{
    const uint64_t whole = c->inbox.messages_whole;

    switch (on_body(c, frame, body, now_ns)) {
    case OUTCOME_TAKEN:
        break;
    case OUTCOME_FULL:
        c->stats.pool_full++;
        return;
    case OUTCOME_MALFORMED:
        c->stats.malformed++;
        return;
    case OUTCOME_BROKEN:
        conn_end(c, CONN_CLOSING, RDT_CLOSED_PROTOCOL, now_ns);
        return;
    }
    c->stats.datagrams_received++;
    c->stats.bytes_received += body.left + FRAME_PREFIX;
    c->valid_ns = now_ns;
    note_packet(c, frame, c->inbox.messages_whole != whole, now_ns);
    if (frame->type == FRAME_CLOSE) {
        on_close(c, now_ns);
        return;
    }
    conn_on_allowance(c, now_ns);
    conn_on_idle(c, now_ns);
}

void conn_on_packet(struct conn *c, const struct frame *frame, struct reader body, uint64_t now_ns)
{
    switch (ranges_check(&c->received, frame->seq)) {
    case RANGES_NEW:
        break;
    case RANGES_DUPLICATE:
        c->stats.duplicate++;
        if (asks_for_ack(frame) && c->acker.pending == 0)
            acker_on_packet(&c->acker, false, now_ns, c->env->config.max_ack_delay_ns);
        return;
    case RANGES_STALE:
        c->stats.stray++;
        return;
    }
    switch ((enum conn_state)c->state) {
    case CONN_ACCEPTING:
        conn_open(c, now_ns); /* whatever it is: the peer has the key */
        on_open_packet(c, frame, body, now_ns);
        return;
    case CONN_OPEN:
    case CONN_FLUSHING:
        on_open_packet(c, frame, body, now_ns);
        return;
    case CONN_CLOSING:
    case CONN_DRAINING:
        if (frame->type == FRAME_CLOSE && body.left == 4)
            on_close(c, now_ns);
        return;
    case CONN_FREE:
    case CONN_CONNECTING:
    case CONN_DEAD:
        c->stats.stray++;
        return;
    }
}
