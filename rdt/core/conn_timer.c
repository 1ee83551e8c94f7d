/* SPDX-License-Identifier: MIT */
/*
 * What a connection does when time passes and nothing else happens.
 */
#include "conn.h"

#include <assert.h>

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t conn_pto_ns(const struct conn *c)
{
    return rtt_pto_ns(&c->rtt, (uint64_t)c->peer_limits.ack_delay_us * 1000);
}

static uint64_t pto_deadline(const struct conn *c)
{
    uint64_t pto = conn_pto_ns(c);
    uint64_t wait = pto << (c->pto_count < 20 ? c->pto_count : 20);
    uint64_t most = pto > CONN_PTO_WAIT_MAX ? pto : CONN_PTO_WAIT_MAX;

    if (c->sent.in_flight_count == 0 || c->loss.deadline_ns != UINT64_MAX)
        return UINT64_MAX;
    return c->pto_from_ns + earlier(wait, most);
}

static uint64_t ping_deadline(const struct conn *c)
{
    if (c->sent.in_flight_count > 0 || c->ping_due)
        return UINT64_MAX; /* probes do the same */
    return c->valid_ns + c->env->config.ping_ns;
}

static uint64_t open_deadline(const struct conn *c)
{
    uint64_t deadline = c->valid_ns + c->env->config.dead_ns;

    deadline = earlier(deadline, c->flush_end_ns);
    deadline = earlier(deadline, c->loss.deadline_ns);
    deadline = earlier(deadline, pto_deadline(c));
    deadline = earlier(deadline, ping_deadline(c));
    if (!c->acker.due)
        deadline = earlier(deadline, c->acker.deadline_ns);
    if (!c->news.due)
        deadline = earlier(deadline, c->news.deadline_ns);
    if (c->pace_blocked)
        deadline = earlier(deadline, pacer_deadline(&c->pacer));
    return deadline;
}

uint64_t conn_deadline(const struct conn *c)
{
    switch ((enum conn_state)c->state) {
    case CONN_CONNECTING:
    case CONN_ACCEPTING: {
        uint64_t end = earlier(c->handshake_end_ns, c->flush_end_ns);

        return c->handshake_due ? end : earlier(end, c->handshake_next_ns);
    }
    case CONN_OPEN:
    case CONN_FLUSHING:
        return open_deadline(c);
    case CONN_CLOSING:
    case CONN_DRAINING:
        return c->close_due ? c->close_end_ns : earlier(c->close_next_ns, c->close_end_ns);
    case CONN_FREE:
    case CONN_DEAD:
        break;
    }
    return UINT64_MAX;
}

/* Nothing was heard for a probe timeout: sends the oldest bytes again, without calling them lost.
 */
static void on_pto(struct conn *c, uint64_t now_ns)
{
    uint64_t seq = c->sent.oldest;

    c->stats.ptos++;
    c->pto_count++;
    c->pto_from_ns = now_ns;
    c->probes = CONN_PROBES;
    for (unsigned i = 0; i < CONN_PROBES; i++) {
        const struct sent_record *record = sent_next_in_flight(&c->sent, seq, c->sent.next_seq - 1);

        if (!record)
            break;
        for (unsigned s = 0; s < record->span_count; s++)
            outbox_lost(&c->outbox, record->spans[s]);
        if (record->news)
            news_on_lost(&c->news, record->news);
        seq = record->seq + 1;
    }
    if (c->pto_count == CONN_PERSISTENT_PTOS)
        cc_on_persistent_congestion(&c->cc, now_ns);
}

static void open_timeout(struct conn *c, uint64_t now_ns)
{
    if (now_ns >= c->valid_ns + c->env->config.dead_ns) {
        conn_end(c, CONN_DEAD, RDT_CLOSED_DEAD, now_ns);
        return;
    }
    if (now_ns >= c->flush_end_ns) {
        conn_end(c, CONN_CLOSING, RDT_CLOSED_LOCAL, now_ns);
        return;
    }
    if (now_ns >= c->loss.deadline_ns) {
        uint64_t lost = conn_find_lost(c, now_ns);

        if (lost > 0)
            cc_on_loss(&c->cc, &(struct cc_loss){.now_ns = now_ns,
                                                 .lost_bytes = lost,
                                                 .in_flight_bytes = c->sent.in_flight_bytes});
    }
    if (now_ns >= pto_deadline(c))
        on_pto(c, now_ns);
    if (now_ns >= ping_deadline(c))
        c->ping_due = true;
    if (now_ns >= c->acker.deadline_ns)
        c->acker.due = true;
    if (now_ns >= c->news.deadline_ns)
        c->news.due = true;
    c->pace_blocked = false;
}

static void handshake_timeout(struct conn *c, uint64_t now_ns)
{
    if (now_ns >= c->handshake_end_ns || now_ns >= c->flush_end_ns) {
        enum rdt_closed reason =
            now_ns >= c->handshake_end_ns ? RDT_CLOSED_TIMEOUT : RDT_CLOSED_LOCAL;

        conn_end(c, CONN_DEAD, reason, now_ns);
    } else if (now_ns >= c->handshake_next_ns) {
        c->handshake_due = true;
    }
}

static void close_timeout(struct conn *c, uint64_t now_ns)
{
    if (now_ns >= c->close_end_ns)
        conn_set_state(c, CONN_DEAD);
    else if (now_ns >= c->close_next_ns)
        c->close_due = true;
}

void conn_on_timeout(struct conn *c, uint64_t now_ns)
{
    switch ((enum conn_state)c->state) {
    case CONN_CONNECTING:
    case CONN_ACCEPTING:
        handshake_timeout(c, now_ns);
        break;
    case CONN_OPEN:
    case CONN_FLUSHING:
        open_timeout(c, now_ns);
        break;
    case CONN_CLOSING:
    case CONN_DRAINING:
        close_timeout(c, now_ns);
        break;
    case CONN_FREE:
    case CONN_DEAD:
        break;
    }
}
