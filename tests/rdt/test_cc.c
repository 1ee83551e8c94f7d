/* SPDX-License-Identifier: MIT */
#include "rdt/core/cc.h"

#include "flow.h"
#include "suite.h"

static const uint64_t ms = 1000000;

enum { DATAGRAM = 1452 };

/* Payload bytes a second that a link of so many bits a second carries in datagrams of 1452. */
static double payload_bps(double bits)
{
    return bits / 8 * DATAGRAM / (DATAGRAM + 28);
}

/* ---------- the closed loop ---------- */

START_TEST(cc_auto__fills_a_clean_gigabit)
{
    const struct flow_config config = {
        .forward = "rate=1000mbit,delay=500us",
        .back = "delay=500us",
        .duration_ns = 1700 * ms,
        .measure_from_ns = 1300 * ms,
        .seed = suite_seed(0),
    };
    const struct flow_result r = flow_run(&config);

    ck_assert_double_ge(r.received_bps, 0.9 * payload_bps(1e9));
    ck_assert_uint_eq(r.overflowed, 0);
    ck_assert_uint_lt(r.rtt_max_ns, 4 * ms);
}
END_TEST

/* The promise of the thin path: at 5 % random loss both ways at least 85 % of what is left. */
START_TEST(cc_auto__does_not_collapse_at_random_loss)
{
    const struct {
        const char *forward;
        const char *back;
        double least;
    } cases[] = {
        {"rate=1000mbit,delay=500us,loss=1%", "delay=500us,loss=1%", 0.9},
        {"rate=1000mbit,delay=500us,loss=5%", "delay=500us,loss=5%", 0.85},
        {"rate=1000mbit,delay=500us,loss=5%,burst=8", "delay=500us,loss=5%,burst=8", 0.85},
        {"rate=1000mbit,delay=500us,loss=20%", "delay=500us,loss=20%", 0.65},
        {"rate=1000mbit,delay=500us,loss=30%", "delay=500us,loss=30%", 0.45},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct flow_config config = {
            .forward = cases[i].forward,
            .back = cases[i].back,
            .duration_ns = 1800 * ms,
            .measure_from_ns = 1400 * ms,
            .seed = suite_seed(i),
        };
        const struct flow_result r = flow_run(&config);

        ck_assert_msg(r.received_bps >= cases[i].least * payload_bps(1e9),
                      "%s: %.0f bytes a second", cases[i].forward, r.received_bps);
    }
}
END_TEST

/* T38: a slow link with a queue of eight packets loses under 2 % once start-up is over. */
START_TEST(cc_auto__T38_does_not_flood_ten_megabit_with_a_short_queue)
{
    const struct {
        const char *forward;
        const char *back;
    } cases[] = {
        {"rate=10mbit,queue=11840", ""},
        {"rate=10mbit,delay=1ms,queue=11840", "delay=1ms"},
        {"rate=10mbit,delay=10ms,queue=11840", "delay=10ms"},
        {"rate=10mbit,delay=50ms,queue=11840", "delay=50ms"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct flow_config config = {
            .forward = cases[i].forward,
            .back = cases[i].back,
            .duration_ns = 30000 * ms,
            .measure_from_ns = 6000 * ms,
            .seed = suite_seed(i),
        };
        const struct flow_result r = flow_run(&config);

        ck_assert_msg(r.overflowed * 50 < r.sent_packets, "%s: %llu of %llu", cases[i].forward,
                      (unsigned long long)r.overflowed, (unsigned long long)r.sent_packets);
        ck_assert_msg(r.received_bps >= 0.85 * payload_bps(1e7), "%s: %.0f bytes a second",
                      cases[i].forward, r.received_bps);
    }
}
END_TEST

/* T22: reordering is no loss. */
START_TEST(cc_auto__T22_reordering_costs_little)
{
    const struct flow_config config = {
        .forward = "rate=100mbit,delay=10ms,jitter=2ms,reorder=10%",
        .back = "delay=10ms",
        .duration_ns = 6000 * ms,
        .measure_from_ns = 3000 * ms,
        .seed = suite_seed(0),
    };
    const struct flow_result r = flow_run(&config);

    ck_assert_double_ge(r.received_bps, 0.8 * payload_bps(1e8));
    ck_assert_uint_lt(r.declared_lost * 100, r.sent_packets);
    ck_assert_uint_gt(r.loss_packets, 3);
}
END_TEST

/* T18: two dark seconds, and the rate comes back. */
START_TEST(cc_auto__T18_black_hole_is_survived)
{
    const struct flow_config config = {
        .forward = "rate=100mbit,delay=5ms",
        .back = "delay=5ms",
        .duration_ns = 6000 * ms,
        .measure_from_ns = 5500 * ms,
        .black_from_ns = 2000 * ms,
        .black_until_ns = 4000 * ms,
        .seed = suite_seed(0),
    };
    const struct flow_result r = flow_run(&config);

    ck_assert_double_ge(r.received_bps, 0.8 * payload_bps(1e8));
}
END_TEST

/* T28: a receiver that stalls for 10 ms is no congested path. */
START_TEST(cc_auto__T28_stalling_receiver_does_not_collapse_it)
{
    const struct flow_config config = {
        .forward = "rate=1000mbit,delay=500us",
        .back = "delay=500us",
        .duration_ns = 2500 * ms,
        .measure_from_ns = 1500 * ms,
        .pause_every_ns = 50 * ms,
        .pause_ns = 10 * ms,
        .seed = suite_seed(0),
    };
    const struct flow_result r = flow_run(&config);

    ck_assert_double_ge(r.received_bps, 0.7 * payload_bps(1e9));
}
END_TEST

/* T33: a round trip of 40 us is filled, with and without loss; no pacing is needed for it. */
START_TEST(cc_auto__T33_tiny_round_trips_are_filled)
{
    const char *const forward[] = {"rate=10gbit,delay=20us,queue=2m",
                                   "rate=10gbit,delay=20us,queue=2m,loss=5%"};

    for (size_t i = 0; i < 2; i++) {
        const struct flow_config config = {
            .forward = forward[i],
            .back = "delay=20us",
            .duration_ns = 1060 * ms,
            .measure_from_ns = 1030 * ms,
            .seed = suite_seed(i),
        };
        const struct flow_result r = flow_run(&config);

        ck_assert_double_ge(r.received_bps, 0.8 * payload_bps(1e10));
        ck_assert_uint_le(r.cwnd_bytes, 1 << 20);
    }
}
END_TEST

/* What overflows at a tiny round trip is the receiver's socket buffer: the window learns its size.
 */
START_TEST(cc_auto__backs_off_from_a_small_receive_buffer)
{
    const struct flow_config config = {
        .forward = "rate=10gbit,delay=20us,queue=200k",
        .back = "delay=20us",
        .duration_ns = 1100 * ms,
        .measure_from_ns = 1030 * ms,
        .seed = suite_seed(0),
    };
    const struct flow_result r = flow_run(&config);

    ck_assert_uint_lt(r.overflowed * 50, r.sent_packets);
    ck_assert_double_ge(r.received_bps, 0.8 * payload_bps(1e10));
}
END_TEST

START_TEST(cc_auto__same_seed_same_run)
{
    const struct flow_config config = {
        .forward = "rate=100mbit,delay=2ms,loss=3%,jitter=1ms,reorder=1%,duplicate=1%",
        .back = "delay=2ms,loss=3%",
        .duration_ns = 1500 * ms,
        .measure_from_ns = 1000 * ms,
        .seed = suite_seed(0),
    };
    const struct flow_result a = flow_run(&config);
    const struct flow_result b = flow_run(&config);

    ck_assert_uint_eq(a.received_bytes, b.received_bytes);
    ck_assert_uint_eq(a.sent_packets, b.sent_packets);
    ck_assert_uint_eq(a.cwnd_bytes, b.cwnd_bytes);
    ck_assert_uint_gt(a.received_bytes, 0);
}
END_TEST

/* ---------- one step at a time ---------- */

struct hand { /* feeds ACKs by hand */
    struct cc cc;
    struct cc_ack ack;
    struct rate_sample sample;
};

static void hand_init(struct hand *h, enum rdt_cc algorithm)
{
    const struct cc_config config = {
        .algorithm = algorithm, .datagram_bytes = DATAGRAM, .fixed_window = 50000, .seed = 1};

    *h = (struct hand){.ack = {.now_ns = 1000 * ms}};
    cc_init(&h->cc, &config);
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* One ACK of `bytes`; a new round begins when `round` says so. */
static void hand_ack(struct hand *h, uint64_t rtt_ns, uint64_t bytes, uint64_t lost, bool round)
{
    h->sample = (struct rate_sample){
        .has_packet = true,
        .acked_bytes = bytes,
        .prior_delivered = round ? h->ack.delivered : 0,
        .rate_bps = 100000000,
        .interval_ns = rtt_ns,
    };
    h->ack.now_ns += rtt_ns;
    h->ack.delivered += bytes;
    h->ack.lost_bytes = lost;
    h->ack.rtt_ns = rtt_ns;
    h->ack.smoothed_rtt_ns = rtt_ns;
    h->ack.in_flight_before_bytes = h->cc.cwnd_bytes;
    h->ack.in_flight_bytes = h->cc.cwnd_bytes - least_of(h->cc.cwnd_bytes, bytes + lost);
    h->ack.sample = &h->sample;
    cc_on_ack(&h->cc, &h->ack);
}

/* T19: twenty losses in one flight, one reduction. */
START_TEST(cc_auto__T19_one_reduction_in_a_flight)
{
    struct hand h;
    uint64_t before;
    int reductions = 0;

    hand_init(&h, RDT_CC_AUTO);
    for (int i = 0; i < 200; i++)
        hand_ack(&h, 100000, 20 * DATAGRAM, 0, true);
    for (int i = 0; i < 20; i++) {
        before = h.cc.cwnd_bytes;
        hand_ack(&h, 100000, DATAGRAM, DATAGRAM, false);
        reductions += h.cc.cwnd_bytes < before;
    }
    ck_assert_int_eq(reductions, 1);
    hand_ack(&h, 100000, DATAGRAM, DATAGRAM, true);
    before = h.cc.cwnd_bytes;
    hand_ack(&h, 100000, DATAGRAM, DATAGRAM, false);
    ck_assert_uint_le(h.cc.cwnd_bytes, before);
}
END_TEST

START_TEST(cc_auto__losses_with_a_full_queue_bound_the_window_and_spurious_ones_do_not)
{
    struct hand h;
    uint64_t before;

    hand_init(&h, RDT_CC_AUTO);
    for (int i = 0; i < 100; i++)
        hand_ack(&h, 10 * ms, 40 * DATAGRAM, 0, true);
    before = h.cc.cwnd_bytes;
    hand_ack(&h, 30 * ms, 100 * DATAGRAM, 50 * DATAGRAM, true);
    hand_ack(&h, 30 * ms, 10 * DATAGRAM, 0, true);
    hand_ack(&h, 30 * ms, DATAGRAM, 0, false);
    ck_assert_uint_lt(h.cc.cwnd_bytes, before);
    cc_on_spurious(&h.cc, 50 * DATAGRAM);
    for (int i = 0; i < 20; i++)
        hand_ack(&h, 10 * ms, 40 * DATAGRAM, 0, false);
    ck_assert_uint_ge(h.cc.cwnd_bytes, before * 9 / 10);
}
END_TEST

START_TEST(cc_auto__persistent_congestion_starts_again_from_little)
{
    struct hand h;

    hand_init(&h, RDT_CC_AUTO);
    for (int i = 0; i < 100; i++)
        hand_ack(&h, 10 * ms, 40 * DATAGRAM, 0, true);
    ck_assert_uint_gt(h.cc.cwnd_bytes, 10 * DATAGRAM);
    cc_on_persistent_congestion(&h.cc, h.ack.now_ns);
    ck_assert_uint_eq(h.cc.cwnd_bytes, 4 * DATAGRAM);
    ck_assert_uint_eq(h.cc.pacing_bps, 0);
    for (int i = 0; i < 20; i++)
        hand_ack(&h, 10 * ms, 40 * DATAGRAM, 0, true);
    ck_assert_uint_gt(h.cc.cwnd_bytes, 10 * DATAGRAM);
}
END_TEST

START_TEST(cc_fixed__window_never_changes)
{
    struct hand h;
    const struct cc_loss loss = {.now_ns = ms, .lost_bytes = 10000};

    hand_init(&h, RDT_CC_FIXED);
    hand_ack(&h, ms, 10 * DATAGRAM, 5 * DATAGRAM, true);
    cc_on_sent(&h.cc, DATAGRAM, 0, ms);
    cc_on_loss(&h.cc, &loss);
    cc_on_spurious(&h.cc, 10000);
    cc_on_persistent_congestion(&h.cc, 2 * ms);
    ck_assert_uint_eq(h.cc.cwnd_bytes, 50000);
    ck_assert_uint_eq(h.cc.pacing_bps, 0);
}
END_TEST

START_TEST(cc__room_is_what_the_window_leaves)
{
    struct hand h;

    hand_init(&h, RDT_CC_FIXED);
    ck_assert_uint_eq(cc_room(&h.cc, 0), 50000);
    ck_assert_uint_eq(cc_room(&h.cc, 49999), 1);
    ck_assert_uint_eq(cc_room(&h.cc, 50000), 0);
    ck_assert_uint_eq(cc_room(&h.cc, 60000), 0);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        cc_auto__fills_a_clean_gigabit,
        cc_auto__does_not_collapse_at_random_loss,
        cc_auto__T38_does_not_flood_ten_megabit_with_a_short_queue,
        cc_auto__T22_reordering_costs_little,
        cc_auto__T18_black_hole_is_survived,
        cc_auto__T28_stalling_receiver_does_not_collapse_it,
        cc_auto__T33_tiny_round_trips_are_filled,
        cc_auto__backs_off_from_a_small_receive_buffer,
        cc_auto__same_seed_same_run,
        cc_auto__T19_one_reduction_in_a_flight,
        cc_auto__losses_with_a_full_queue_bound_the_window_and_spurious_ones_do_not,
        cc_auto__persistent_congestion_starts_again_from_little,
        cc_fixed__window_never_changes,
        cc__room_is_what_the_window_leaves,
    };

    return SUITE_MAIN(argc, argv, "cc", tests);
}
