/* SPDX-License-Identifier: MIT */

/*
 * RDT_CC_AUTO: a model of the path instead of a reaction to each loss.
 *
 * DESIGN: the path is described by two numbers, the highest rate at which it delivered lately and
 * the shortest round trip; their product is what it holds without a queue (the BDP).  We send at
 * that rate and keep about two BDP in flight.  Four modes, after BBR (Cardwell et al., CACM 2017):
 *
 *   STARTUP    doubles the rate each round trip until it stops growing
 *   DRAIN      lets the queue that made flow off
 *   PROBE      a cycle of eight round trips: one faster, one slower, six at the rate
 *   PROBE_RTT  a short pause every ten seconds in which the shortest round trip shows itself
 *
 * A loss alone changes nothing: random loss is no sign of a full queue, and at 5 % of it a window
 * that halves on each loss collapses.  The part of a cycle that does not probe tells how much loss
 * the path has by itself, and the rate makes up for most of it - less than all, so that losses of
 * our own making cannot feed themselves.  Losses do count when
 *
 *   - the round trip grew with them: a queue is full, and a bound is put on the bytes in flight;
 *   - probing lost more than cruising: the queue is short, and later probes are gentler.
 *
 * A path with a round trip under 200 us is a machine talking to itself or its neighbour: what can
 * overflow there is the receiver's socket buffer.  It gets no pacing and a window that backs off
 * from losses once a round trip, never below what the model says.
 */

#include "cc.h"

#include "prng.h"

#include <assert.h>

enum {
    ONE = 1000, /* gains and shares are in thousandths */
    STARTUP_GAIN = 2770,
    DRAIN_GAIN = 360,
    WINDOW_GAIN = 2000,
    PROBE_GAIN_MAX = 1250,
    PROBE_GAIN_MIN = 1040,
    SLOW_GAIN = 750,
    PHASES = 8,
    PHASE_PROBE = 0,
    PHASE_SLOW = 1,
    RATE_ROUNDS = 10, /* the rate is the highest of so many rounds */
    LUMP_ROUNDS = 5,  /* the lump is the largest of once or twice as many */
    FULL_ROUNDS = 3,  /* rounds without growth end the start-up */
    FULL_GROWTH = 1250,
    WINDOW_FIRST = 10, /* datagrams */
    WINDOW_LEAST = 4,
    LOSS_NOTED = 20,      /* of a round with a queue: back off a little */
    LOSS_HEAVY = 100,     /* and a lot */
    LOSS_PROBE = 15,      /* a probe lost so much more than the cruise: too bold */
    LOSS_MADE_UP = 300,   /* random loss beyond this is not made up for */
    MIN_RTT_NS = 1000000, /* unit of the three below */
};

static const uint64_t min_rtt_window_ns = 10000 * (uint64_t)MIN_RTT_NS;
static const uint64_t probe_rtt_ns = 10 * (uint64_t)MIN_RTT_NS;
static const uint64_t headroom_ns = 1 * (uint64_t)MIN_RTT_NS;
static const uint64_t lump_max_ns = 20 * (uint64_t)MIN_RTT_NS;

static const uint64_t local_enter_ns = 200000;
static const uint64_t local_leave_ns = 300000;
static const uint64_t local_calm_ns = 2000000; /* a longer round trip: the window need not grow */
static const uint64_t local_window_max = 1 << 20;
static const uint64_t local_window_first = 128 << 10;
static const uint64_t train_bytes = 64 << 10;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t scaled(uint64_t value, uint64_t gain)
{
    return value / ONE * gain + value % ONE * gain / ONE;
}

static uint64_t datagrams(const struct cc *cc, uint64_t count)
{
    return count * cc->datagram_bytes;
}

static uint64_t share_lost(const struct cc_auto_tally *tally)
{
    const uint64_t all = tally->lost_bytes + tally->acked_bytes;

    return all > 0 ? tally->lost_bytes * ONE / all : 0;
}

/* ---------- the model ---------- */

static uint64_t peak_rate(const struct cc_auto *a)
{
    return a->rate[0].value;
}

/* What the path holds without a queue; 0 while unknown. */
static uint64_t bdp(const struct cc_auto *a)
{
    return rate_bytes_in(peak_rate(a), a->min_rtt_ns);
}

/* A windowed maximum that keeps the three best, each newer than the one before (K. Nichols). */
static void peak_update(struct cc_auto_peak s[3], uint64_t value, uint64_t round)
{
    const struct cc_auto_peak now = {.value = value, .round = round};
    uint64_t age;

    if (value >= s[0].value || round - s[2].round > RATE_ROUNDS) {
        s[0] = s[1] = s[2] = now;
        return;
    }
    if (value >= s[1].value)
        s[1] = s[2] = now;
    else if (value >= s[2].value)
        s[2] = now;
    age = round - s[0].round;
    if (age > RATE_ROUNDS) {
        s[0] = s[1];
        s[1] = s[2];
        s[2] = now;
    } else if (s[1].round == s[0].round && age > RATE_ROUNDS / 4) {
        s[1] = s[2] = now;
    } else if (s[2].round == s[1].round && age > RATE_ROUNDS / 2) {
        s[2] = now;
    }
}

static void update_round(struct cc_auto *a, const struct cc_ack *ack)
{
    a->round_started = false;
    if (!ack->sample->has_packet || ack->sample->prior_delivered < a->round_end_delivered)
        return;
    a->round_end_delivered = ack->delivered;
    a->round++;
    a->round_started = true;
}

static void update_rate(struct cc_auto *a, const struct cc_ack *ack)
{
    const struct rate_sample *sample = ack->sample;

    if (sample->rate_bps > 0 && (!sample->app_limited || sample->rate_bps >= peak_rate(a)))
        peak_update(a->rate, sample->rate_bps, a->round);
}

static void update_min_rtt(struct cc_auto *a, const struct cc_ack *ack)
{
    if (ack->rtt_ns == 0)
        return;
    a->round_rtt_ns = least(a->round_rtt_ns, ack->rtt_ns);
    a->recent_rtt_ns = least(a->recent_rtt_ns, ack->rtt_ns);
    if (a->min_rtt_ns == 0 || ack->rtt_ns <= a->min_rtt_ns) {
        a->min_rtt_ns = ack->rtt_ns;
        a->min_rtt_at_ns = ack->now_ns;
        a->recent_rtt_ns = UINT64_MAX;
    }
    if (a->local ? a->min_rtt_ns > local_leave_ns : a->min_rtt_ns < local_enter_ns)
        a->local = !a->local;
}

/* Forgets the shortest round trip in favour of the shortest seen since. */
static void renew_min_rtt(struct cc_auto *a, uint64_t now_ns)
{
    if (a->recent_rtt_ns != UINT64_MAX)
        a->min_rtt_ns = a->recent_rtt_ns;
    a->recent_rtt_ns = UINT64_MAX;
    a->min_rtt_at_ns = now_ns;
}

/* How much more than the model expects is acknowledged at once: that much more must be in flight
 * for the path to stay busy in between (Wi-Fi, a receiver that sleeps). */
static void update_lump(struct cc *cc, const struct cc_ack *ack)
{
    struct cc_auto *a = &cc->automatic;
    const uint64_t rate = peak_rate(a);
    uint64_t expected = rate_bytes_in(rate, ack->now_ns - a->epoch_ns);

    if (rate == 0)
        return;
    if (a->epoch_acked_bytes <= expected) {
        a->epoch_ns = ack->now_ns;
        a->epoch_acked_bytes = 0;
        expected = 0;
    }
    a->epoch_acked_bytes += ack->sample->acked_bytes;
    if (a->round - a->lump[0].round >= LUMP_ROUNDS) {
        a->lump[1] = a->lump[0];
        a->lump[0] = (struct cc_auto_peak){.value = 0, .round = a->round};
    }
    a->lump[0].value = most(
        a->lump[0].value, least(a->epoch_acked_bytes - expected, rate_bytes_in(rate, lump_max_ns)));
}

/* ---------- losses ---------- */

static bool has_queue(const struct cc_auto *a, uint64_t rtt_ns)
{
    return rtt_ns != UINT64_MAX && rtt_ns > a->min_rtt_ns + a->min_rtt_ns / 4 + 100000;
}

static struct cc_auto_tally *cycle_tally(struct cc_auto *a)
{
    return a->phase == PHASE_PROBE || a->phase == PHASE_SLOW ? &a->probe_tally : &a->cruise_tally;
}

static void count_lost(struct cc *cc, uint64_t lost_bytes)
{
    struct cc_auto *a = &cc->automatic;

    a->round_tally.lost_bytes += lost_bytes;
    cycle_tally(a)->lost_bytes += lost_bytes;
    if (!a->local || lost_bytes == 0 || a->local_reduced_round == a->round + 1)
        return;
    a->local_reduced_round = a->round + 1;
    a->filled = true;
    a->local_window_bytes = scaled(a->local_window_bytes, 850);
}

static void reduce_bound(struct cc *cc, const struct cc_ack *ack, uint64_t gain)
{
    struct cc_auto *a = &cc->automatic;
    const uint64_t flight = most(ack->in_flight_before_bytes, bdp(a));

    a->undo_bytes = a->bound_bytes;
    a->undo_lost_bytes = a->round_tally.lost_bytes;
    a->bound_bytes = most(scaled(least(a->bound_bytes, flight), gain), datagrams(cc, WINDOW_LEAST));
}

/* What a round lost beyond the path's own losses and their chance variation (two standard
 * deviations, counting losses as rare and independent). */
static uint64_t unexpected_loss(const struct cc *cc)
{
    const struct cc_auto *a = &cc->automatic;
    const struct cc_auto_tally *round = &a->round_tally;
    const uint64_t expected = scaled(round->lost_bytes + round->acked_bytes, a->random_loss);
    const uint64_t excess = round->lost_bytes - least(round->lost_bytes, expected);

    return excess * excess > 4 * expected * cc->datagram_bytes ? excess : 0;
}

/* Once a round trip: did its losses come from a full queue? */
static void end_round(struct cc *cc, const struct cc_ack *ack)
{
    struct cc_auto *a = &cc->automatic;
    const struct cc_auto_tally unexpected = {.acked_bytes = a->round_tally.acked_bytes,
                                             .lost_bytes = unexpected_loss(cc)};
    const uint64_t lost = share_lost(&unexpected);

    if (lost > LOSS_NOTED && unexpected.lost_bytes > datagrams(cc, 2) &&
        has_queue(a, a->round_rtt_ns)) {
        a->filled = true;
        reduce_bound(cc, ack, lost > LOSS_HEAVY ? 700 : 850);
    } else if (a->bound_bytes != UINT64_MAX) {
        a->bound_bytes += a->bound_bytes / 16 + cc->datagram_bytes;
        if (a->bound_bytes > 4 * bdp(a) + datagrams(cc, WINDOW_FIRST))
            a->bound_bytes = UINT64_MAX;
    }
    a->round_tally = (struct cc_auto_tally){.lost_bytes = 0};
    a->round_rtt_ns = UINT64_MAX;
}

/* Once a cycle: how much is lost without our doing, and was the probe too bold? */
static void end_cycle(struct cc *cc)
{
    struct cc_auto *a = &cc->automatic;
    const uint64_t cruise = share_lost(&a->cruise_tally);
    const uint64_t probe = share_lost(&a->probe_tally);
    /* Losses beside a queue prove nothing: then the share can only turn out smaller than thought.
     */
    const uint64_t random =
        least(cruise, has_queue(a, a->cruise_rtt_ns) ? a->random_loss : LOSS_MADE_UP);
    uint32_t over = a->probe_gain - ONE;

    if (a->cruise_tally.acked_bytes > 0)
        a->random_loss = (uint32_t)((3 * a->random_loss + random) / 4);
    if (probe > cruise + LOSS_PROBE && a->probe_tally.lost_bytes > datagrams(cc, 2))
        over = over * 6 / 10;
    else
        over = over * 11 / 10;
    a->probe_gain = (uint32_t)least(most(ONE + over, PROBE_GAIN_MIN), PROBE_GAIN_MAX);
    a->probe_tally = (struct cc_auto_tally){.lost_bytes = 0};
    a->cruise_tally = (struct cc_auto_tally){.lost_bytes = 0};
    a->cruise_rtt_ns = UINT64_MAX;
}

/* ---------- modes ---------- */

static uint32_t pacing_gain(const struct cc_auto *a)
{
    switch (a->mode) {
    case CC_AUTO_STARTUP:
        return STARTUP_GAIN;
    case CC_AUTO_DRAIN:
        return DRAIN_GAIN;
    case CC_AUTO_PROBE:
        if (a->phase == PHASE_PROBE)
            return a->probe_gain;
        return a->phase == PHASE_SLOW ? SLOW_GAIN : ONE;
    case CC_AUTO_PROBE_RTT:
        return ONE;
    }
    return ONE;
}

static void start_phase(struct cc *cc, uint32_t phase, uint64_t now_ns)
{
    struct cc_auto *a = &cc->automatic;

    if (phase == PHASE_PROBE)
        end_cycle(cc);
    a->phase = phase;
    a->phase_start_ns = now_ns;
}

/* Begins a cycle anywhere but in the slow phase: flows that start together must not probe so. */
static void start_probe(struct cc *cc, uint64_t now_ns)
{
    struct cc_auto *a = &cc->automatic;

    a->mode = CC_AUTO_PROBE;
    start_phase(cc, PHASE_SLOW + 1 + (uint32_t)(prng_splitmix64(&a->random) % (PHASES - 2)),
                now_ns);
}

static void advance_phase(struct cc *cc, const struct cc_ack *ack)
{
    struct cc_auto *a = &cc->automatic;
    const bool whole = ack->now_ns - a->phase_start_ns > a->min_rtt_ns;
    bool done = whole;

    if (a->phase == PHASE_PROBE)
        done = whole && (ack->lost_bytes > 0 ||
                         ack->in_flight_before_bytes >= scaled(bdp(a), a->probe_gain));
    else if (a->phase == PHASE_SLOW)
        done = whole || ack->in_flight_bytes <= bdp(a);
    if (done)
        start_phase(cc, (a->phase + 1) % PHASES, ack->now_ns);
}

/* Start-up is over when the rate has not grown by a quarter for three round trips. */
static void check_filled(struct cc_auto *a, const struct cc_ack *ack)
{
    if (a->filled || !a->round_started || ack->sample->app_limited)
        return;
    if (peak_rate(a) >= scaled(a->full_rate, FULL_GROWTH)) {
        a->full_rate = peak_rate(a);
        a->full_rounds = 0;
        return;
    }
    a->filled = ++a->full_rounds >= FULL_ROUNDS;
}

static void check_probe_rtt(struct cc *cc, const struct cc_ack *ack)
{
    struct cc_auto *a = &cc->automatic;
    const bool expired = ack->now_ns - a->min_rtt_at_ns > min_rtt_window_ns;

    if (a->mode != CC_AUTO_PROBE_RTT) {
        if (!expired || a->min_rtt_ns == 0)
            return;
        if (a->local) {
            renew_min_rtt(a, ack->now_ns);
            return;
        }
        a->mode = CC_AUTO_PROBE_RTT;
        a->probe_until_ns = 0;
        return;
    }
    if (a->probe_until_ns == 0) {
        if (ack->in_flight_bytes > most(bdp(a) / 2, datagrams(cc, WINDOW_LEAST)))
            return;
        a->probe_until_ns = ack->now_ns + most(probe_rtt_ns, a->min_rtt_ns);
        a->recent_rtt_ns = UINT64_MAX;
        return;
    }
    if (ack->now_ns < a->probe_until_ns)
        return;
    renew_min_rtt(a, ack->now_ns);
    if (a->filled)
        start_probe(cc, ack->now_ns);
    else
        a->mode = CC_AUTO_STARTUP;
}

static void update_mode(struct cc *cc, const struct cc_ack *ack)
{
    struct cc_auto *a = &cc->automatic;

    check_filled(a, ack);
    if (a->mode == CC_AUTO_STARTUP && a->filled)
        a->mode = CC_AUTO_DRAIN;
    if (a->mode == CC_AUTO_DRAIN && ack->in_flight_bytes <= bdp(a))
        start_probe(cc, ack->now_ns);
    if (a->mode == CC_AUTO_PROBE)
        advance_phase(cc, ack);
    check_probe_rtt(cc, ack);
}

/* ---------- the two answers ---------- */

static void set_local(struct cc *cc, const struct cc_ack *ack)
{
    struct cc_auto *a = &cc->automatic;
    const uint64_t floor = most(2 * bdp(a), most(train_bytes, datagrams(cc, WINDOW_FIRST)));
    uint64_t window = a->local_window_bytes;

    /* Grows only where the window is what holds the sender back. */
    if (ack->in_flight_before_bytes + 2 * train_bytes >= window &&
        ack->smoothed_rtt_ns < local_calm_ns) {
        if (!a->filled)
            window += ack->sample->acked_bytes;
        else if (a->round_started)
            window += most(cc->datagram_bytes, window / 256);
    }
    a->local_window_bytes = least(most(window, floor), local_window_max);
    cc->cwnd_bytes = most(a->local_window_bytes, datagrams(cc, WINDOW_LEAST));
    cc->pacing_bps = 0;
}

static void set_pacing(struct cc *cc)
{
    struct cc_auto *a = &cc->automatic;
    uint64_t gain = pacing_gain(a);
    uint64_t rate = peak_rate(a);

    /* The first samples are of a packet or two and say nothing: the least window is spread over a
     * round trip, not over what those would take. */
    if (!a->filled && a->min_rtt_ns > 0)
        rate = most(rate, rate_per_second(datagrams(cc, WINDOW_LEAST), a->min_rtt_ns));
    /* One per cent less than the path gives keeps its queue empty. */
    if (a->mode == CC_AUTO_PROBE)
        gain = gain * (990 + a->random_loss * 8 / 10) / ONE;
    cc->pacing_bps = most(scaled(rate, gain), rate > 0 ? 1 : 0);
}

static void set_window(struct cc *cc, const struct cc_ack *ack)
{
    struct cc_auto *a = &cc->automatic;
    const uint64_t gain = a->filled ? WINDOW_GAIN : STARTUP_GAIN;
    const uint64_t headroom = least(rate_bytes_in(peak_rate(a), headroom_ns), train_bytes) +
                              datagrams(cc, 2) + most(a->lump[0].value, a->lump[1].value);
    const uint64_t target = most(scaled(bdp(a), gain) + headroom,
                                 datagrams(cc, a->filled ? WINDOW_LEAST : WINDOW_FIRST));

    if (peak_rate(a) == 0)
        cc->cwnd_bytes += ack->sample->acked_bytes;
    else
        cc->cwnd_bytes = least(cc->cwnd_bytes + ack->sample->acked_bytes, target);
    cc->cwnd_bytes = least(cc->cwnd_bytes, a->bound_bytes);
    if (a->mode == CC_AUTO_PROBE_RTT)
        cc->cwnd_bytes = least(cc->cwnd_bytes, bdp(a) / 2);
    cc->cwnd_bytes = most(cc->cwnd_bytes, datagrams(cc, WINDOW_LEAST));
}

/* ---------- the table ---------- */

static void auto_init(struct cc *cc, const struct cc_config *config)
{
    cc->cwnd_bytes = datagrams(cc, WINDOW_FIRST);
    cc->automatic = (struct cc_auto){
        .random = config->seed,
        .round_rtt_ns = UINT64_MAX,
        .recent_rtt_ns = UINT64_MAX,
        .cruise_rtt_ns = UINT64_MAX,
        .bound_bytes = UINT64_MAX,
        .probe_gain = PROBE_GAIN_MAX,
        .local_window_bytes = local_window_first,
    };
}

static void auto_on_sent(struct cc *cc, uint32_t bytes, uint64_t in_flight_before, uint64_t now_ns)
{
    struct cc_auto *a = &cc->automatic;

    (void)bytes;
    /* After a pause acknowledgements are expected from now on, not for the time of the pause. */
    if (in_flight_before == 0) {
        a->epoch_ns = now_ns;
        a->epoch_acked_bytes = 0;
    }
}

static void auto_on_ack(struct cc *cc, const struct cc_ack *ack)
{
    struct cc_auto *a = &cc->automatic;

    update_round(a, ack);
    update_rate(a, ack);
    update_min_rtt(a, ack);
    count_lost(cc, ack->lost_bytes);
    a->round_tally.acked_bytes += ack->sample->acked_bytes;
    cycle_tally(a)->acked_bytes += ack->sample->acked_bytes;
    if (cycle_tally(a) == &a->cruise_tally && ack->rtt_ns > 0)
        a->cruise_rtt_ns = least(a->cruise_rtt_ns, ack->rtt_ns);
    if (a->round_started)
        end_round(cc, ack);
    update_lump(cc, ack);
    update_mode(cc, ack);
    if (a->local) {
        set_local(cc, ack);
    } else {
        set_pacing(cc);
        set_window(cc, ack);
    }
}

static void auto_on_loss(struct cc *cc, const struct cc_loss *loss)
{
    count_lost(cc, loss->lost_bytes);
}

static void auto_on_spurious(struct cc *cc, uint64_t bytes)
{
    struct cc_auto *a = &cc->automatic;
    struct cc_auto_tally *cycle = cycle_tally(a);

    a->round_tally.lost_bytes -= least(a->round_tally.lost_bytes, bytes);
    cycle->lost_bytes -= least(cycle->lost_bytes, bytes);
    if (a->undo_lost_bytes == 0)
        return;
    a->undo_lost_bytes -= least(a->undo_lost_bytes, bytes);
    if (a->undo_lost_bytes == 0)
        a->bound_bytes = most(a->bound_bytes, a->undo_bytes);
}

static void auto_on_persistent_congestion(struct cc *cc, uint64_t now_ns)
{
    struct cc_auto *a = &cc->automatic;

    a->mode = CC_AUTO_STARTUP;
    a->filled = false;
    a->full_rate = 0;
    a->full_rounds = 0;
    for (int i = 0; i < 3; i++)
        a->rate[i] = (struct cc_auto_peak){.value = 0, .round = a->round};
    a->bound_bytes = UINT64_MAX;
    a->undo_lost_bytes = 0;
    a->epoch_ns = now_ns;
    a->epoch_acked_bytes = 0;
    a->local_window_bytes = train_bytes;
    cc->cwnd_bytes = datagrams(cc, WINDOW_LEAST);
    cc->pacing_bps = 0;
}

const struct cc_ops cc_auto_ops = {
    .init = auto_init,
    .on_sent = auto_on_sent,
    .on_ack = auto_on_ack,
    .on_loss = auto_on_loss,
    .on_spurious = auto_on_spurious,
    .on_persistent_congestion = auto_on_persistent_congestion,
};
