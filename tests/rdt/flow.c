/* SPDX-License-Identifier: MIT */
#include "flow.h"

#include "rdt/core/ack.h"
#include "rdt/core/loss.h"
#include "rdt/core/pacer.h"
#include "rdt/core/prng.h"
#include "rdt/core/rate.h"

#include <check.h>
#include <stdlib.h>

enum {
    DATAGRAM = 1452,
    TRAIN = 44 * DATAGRAM,
    RING = 32768,
    ACK_DATAGRAM_MAX = 1200,
    PTOS_PERSISTENT = 3,
};

static const uint64_t max_ack_delay_ns = 1000000;

struct flow {
    const struct flow_config *config;
    struct rdt_link *forward;
    struct rdt_link *back;
    uint64_t now_ns;
    struct flow_result result;

    struct sent sent;
    void *ring;
    struct rtt rtt;
    struct loss loss;
    struct rate rate;
    struct cc cc;
    struct pacer pacer;
    uint64_t pto_ns; /* when it is due */
    unsigned ptos;

    struct ranges received;
    uint64_t newest_at_ns;
    bool ack_due;
};

static bool is_measured(const struct flow *f)
{
    return f->now_ns >= f->config->measure_from_ns;
}

static struct rdt_link *open_link(const char *text, uint64_t seed)
{
    struct rdt_link_config config;
    struct rdt_link *link;
    char why[200];

    ck_assert_msg(rdt_link_parse(&config, text, why, sizeof why) == 0, "%s", why);
    config.seed = seed;
    ck_assert_int_eq(rdt_link_open(&link, &config, 0), 0);
    return link;
}

static void black_hole(struct flow *f)
{
    struct rdt_link_config hole = {.loss = 1};

    if (f->config->black_until_ns == 0)
        return;
    if (f->now_ns < f->config->black_from_ns || f->now_ns >= f->config->black_until_ns) {
        char why[200];
        struct rdt_link_config config;

        ck_assert_int_eq(rdt_link_parse(&config, f->config->forward, why, sizeof why), 0);
        rdt_link_set(f->forward, &config);
        ck_assert_int_eq(rdt_link_parse(&config, f->config->back, why, sizeof why), 0);
        rdt_link_set(f->back, &config);
        return;
    }
    rdt_link_set(f->forward, &hole);
    rdt_link_set(f->back, &hole);
}

/* ---------- the sender ---------- */

static void arm_pto(struct flow *f)
{
    const uint64_t wait = rtt_pto_ns(&f->rtt, max_ack_delay_ns);

    f->pto_ns = f->sent.in_flight_count > 0 ? f->now_ns + (wait << f->ptos) : UINT64_MAX;
}

static void send_one(struct flow *f)
{
    uint8_t bytes[DATAGRAM] = {0};
    const struct rdt_arrival datagram = {.bytes = bytes, .len = sizeof bytes};
    const uint64_t before = f->sent.in_flight_bytes;
    struct sent_record *record = sent_add(&f->sent, DATAGRAM, f->now_ns);

    rate_on_sent(&f->rate, record, before);
    cc_on_sent(&f->cc, DATAGRAM, before, f->now_ns);
    pacer_spend(&f->pacer, DATAGRAM, f->now_ns);
    store_le64(bytes, record->seq);
    store_le64(bytes + 8, sent_floor(&f->sent, f->now_ns - 2 * rtt_smoothed_ns(&f->rtt)));
    rdt_link_put(f->forward, &datagram, f->now_ns);
    if (is_measured(f)) {
        f->result.sent_packets++;
        f->result.sent_bytes += DATAGRAM;
    }
}

static void send_all(struct flow *f)
{
    uint64_t budget = pacer_budget(&f->pacer, f->now_ns);

    while (budget >= DATAGRAM && cc_room(&f->cc, f->sent.in_flight_bytes) >= DATAGRAM &&
           sent_has_room(&f->sent)) {
        send_one(f);
        budget -= DATAGRAM;
    }
    if (f->pto_ns == UINT64_MAX)
        arm_pto(f);
}

static uint64_t take_losses(struct flow *f)
{
    uint64_t bytes = 0;
    const struct sent_record *record;

    while ((record = loss_next(&f->loss, &f->sent, &f->rtt, f->now_ns)) != NULL) {
        bytes += record->bytes;
        f->result.declared_lost += is_measured(f);
    }
    return bytes;
}

static void take_range(struct flow *f, const struct range *range, struct rate_sample *sample)
{
    struct sent_record *record;

    while ((record = sent_next_lost(&f->sent, range->first, range->last)) != NULL) {
        loss_on_spurious(&f->loss, &f->sent, &f->rtt, record, f->now_ns);
        cc_on_spurious(&f->cc, record->bytes);
        rate_on_acked(&f->rate, record, sample, f->now_ns);
        sent_on_acked(&f->sent, record);
        f->result.spurious += is_measured(f);
    }
    while ((record = sent_next_in_flight(&f->sent, range->first, range->last)) != NULL) {
        rate_on_acked(&f->rate, record, sample, f->now_ns);
        sent_on_acked(&f->sent, record);
    }
}

static void set_pacer(struct flow *f)
{
    const struct pacer_config config = {
        .rate_bps = f->cc.pacing_bps,
        .datagram_bytes = DATAGRAM,
        .train_bytes = TRAIN,
    };

    pacer_set(&f->pacer, &config);
}

static void on_ack(struct flow *f, const struct ack *ack)
{
    struct rate_sample sample = {.rate_bps = 0};
    struct cc_ack news = {.now_ns = f->now_ns, .sample = &sample};

    news.in_flight_before_bytes = f->sent.in_flight_bytes;
    for (size_t i = 0; i < ack->range_count; i++)
        take_range(f, &ack->ranges[i], &sample);
    if (!sample.has_packet)
        return;
    if (sample.newest_seq == ack->ranges[0].last) {
        rtt_sample(&f->rtt, f->now_ns - sample.newest_sent_ns, (uint64_t)ack->delay_us * 1000);
        news.rtt_ns = f->rtt.latest_ns;
        if (is_measured(f) && f->rtt.latest_ns > f->result.rtt_max_ns)
            f->result.rtt_max_ns = f->rtt.latest_ns;
    }
    rate_finish(&f->rate, &sample, f->rtt.min_ns);
    news.lost_bytes = take_losses(f);
    news.delivered = f->rate.delivered;
    news.in_flight_bytes = f->sent.in_flight_bytes;
    news.smoothed_rtt_ns = rtt_smoothed_ns(&f->rtt);
    cc_on_ack(&f->cc, &news);
    set_pacer(f);
    f->ptos = 0;
    arm_pto(f);
}

static void on_timers(struct flow *f)
{
    if (f->now_ns >= f->loss.deadline_ns) {
        const uint64_t bytes = take_losses(f);
        const struct cc_loss loss = {
            .now_ns = f->now_ns, .lost_bytes = bytes, .in_flight_bytes = f->sent.in_flight_bytes};

        if (bytes > 0)
            cc_on_loss(&f->cc, &loss);
    }
    if (f->now_ns < f->pto_ns)
        return;
    if (++f->ptos == PTOS_PERSISTENT) {
        cc_on_persistent_congestion(&f->cc, f->now_ns);
        set_pacer(f);
    }
    send_one(f);
    send_one(f);
    arm_pto(f);
}

/* ---------- the receiver ---------- */

static bool is_paused(const struct flow *f)
{
    const uint64_t every = f->config->pause_every_ns;

    return every > 0 && f->now_ns % every < f->config->pause_ns;
}

static void on_data(struct flow *f, const struct rdt_arrival *datagram)
{
    const uint64_t seq = load_le64(datagram->bytes);

    ranges_forget_below(&f->received, load_le64((const uint8_t *)datagram->bytes + 8));
    if (ranges_add(&f->received, seq) != RANGES_NEW)
        return;
    if (seq + 1 == f->received.end)
        f->newest_at_ns = f->now_ns;
    f->ack_due = true;
    if (is_measured(f))
        f->result.received_bytes += datagram->len;
}

static void send_ack(struct flow *f)
{
    static struct ack ack;
    uint8_t bytes[ACK_DATAGRAM_MAX];
    struct writer w = writer_make(bytes, sizeof bytes);
    struct rdt_arrival datagram = {.bytes = bytes};

    ack.range_count = (uint16_t)ranges_newest(&f->received, ack.ranges, ACK_RANGES_MAX);
    ack.delay_us = (uint32_t)((f->now_ns - f->newest_at_ns) / 1000);
    ack_encode(&w, &ack);
    datagram.len = w.written;
    rdt_link_put(f->back, &datagram, f->now_ns);
    f->ack_due = false;
}

/* ---------- the loop ---------- */

static uint64_t earliest(const struct flow *f)
{
    uint64_t at = rdt_link_deadline(f->back);
    uint64_t forward = rdt_link_deadline(f->forward);

    if (is_paused(f) && forward <= f->now_ns)
        forward = f->now_ns - f->now_ns % f->config->pause_every_ns + f->config->pause_ns;
    if (forward < at)
        at = forward;
    if (f->pto_ns < at)
        at = f->pto_ns;
    if (f->loss.deadline_ns < at)
        at = f->loss.deadline_ns;
    if (cc_room(&f->cc, f->sent.in_flight_bytes) >= DATAGRAM && pacer_deadline(&f->pacer) < at)
        at = pacer_deadline(&f->pacer);
    return at > f->now_ns ? at : f->now_ns + 1;
}

static void turn(struct flow *f)
{
    struct rdt_arrival datagram;
    static struct ack ack;

    black_hole(f);
    while (!is_paused(f) && rdt_link_next(f->forward, f->now_ns, &datagram))
        on_data(f, &datagram);
    if (f->ack_due)
        send_ack(f);
    while (rdt_link_next(f->back, f->now_ns, &datagram)) {
        struct reader r = reader_make(datagram.bytes, datagram.len);

        if (!ack_decode(&r, &ack))
            ck_abort_msg("the receiver's own ACK block is malformed");
        on_ack(f, &ack);
    }
    on_timers(f);
    send_all(f);
}

struct flow_result flow_run(const struct flow_config *config)
{
    static struct flow f;
    const struct cc_config cc = {
        .algorithm = config->algorithm,
        .datagram_bytes = DATAGRAM,
        .fixed_window = config->fixed_window,
        .seed = config->seed,
    };
    struct rdt_link_stats stats = {.size = sizeof stats};
    uint64_t overflowed = 0;
    bool measured = false;

    f = (struct flow){.config = config, .now_ns = 1000000000, .pto_ns = UINT64_MAX};
    f.forward = open_link(config->forward, config->seed);
    f.back = open_link(config->back, config->seed + 1);
    f.ring = aligned_alloc(64, (sent_bytes(RING) + 63) / 64 * 64);
    ck_assert_ptr_nonnull(f.ring);
    sent_init(&f.sent, f.ring, RING, 0);
    rtt_init(&f.rtt);
    loss_init(&f.loss);
    rate_init(&f.rate);
    cc_init(&f.cc, &cc);
    pacer_init(&f.pacer);
    ranges_init(&f.received);
    for (; f.now_ns < config->duration_ns; f.now_ns = earliest(&f)) {
        if (!measured && is_measured(&f)) {
            rdt_link_stats(f.forward, &stats);
            overflowed = stats.queue_dropped;
            measured = true;
        }
        turn(&f);
    }
    rdt_link_stats(f.forward, &stats);
    f.result.overflowed = stats.queue_dropped - overflowed;
    f.result.received_bps = (double)f.result.received_bytes * 1e9 /
                            (double)(config->duration_ns - config->measure_from_ns);
    f.result.cwnd_bytes = f.cc.cwnd_bytes;
    f.result.smoothed_rtt_ns = f.rtt.smoothed_ns;
    f.result.loss_packets = f.loss.packets;
    rdt_link_free(f.forward);
    rdt_link_free(f.back);
    free(f.ring);
    return f.result;
}
