/* SPDX-License-Identifier: MIT */

/*
 * How much of a link two whole endpoints use, in virtual time: acknowledgement policy, credits,
 * repair, congestion control and pacer together.
 */
#include "sim_pair.h"
#include "suite.h"

enum {
    BODY = 60000, /* lands in the pool */
    UNDER_WAY = 32,
};

struct load {
    uint8_t body[BODY];
    int under_way;
};

static void keep_sending(struct sim_pair *sim, struct load *load)
{
    while (load->under_way < UNDER_WAY) {
        const struct rdt_message message = {
            .body = load->body, .body_len = sizeof load->body, .channel = 1};

        if (rdt_send(sim->ep[0], sim->conn[0], &message, sim->now_ns) != RDT_OK)
            return;
        load->under_way++;
    }
}

static void on_event(struct sim_pair *sim, int side, const struct rdt_event *event, void *ctx)
{
    struct load *load = ctx;

    if (event->kind == RDT_EV_MESSAGE)
        rdt_release(sim->ep[side], event->bytes, sim->now_ns);
    if (event->kind == RDT_EV_RELEASED)
        load->under_way--;
    if (side == 0)
        keep_sending(sim, load);
}

struct outcome {
    double payload_bps; /* bits of messages a second */
    double overflowed;  /* share of the datagrams that the queue dropped */
    uint64_t rtt_smoothed_ns;
    double sent_per_received; /* message bytes */
};

static struct rdt_link_stats link_stats(const struct sim_pair *sim, int side)
{
    struct rdt_link_stats stats = {.size = sizeof stats};

    rdt_link_stats(sim->link[side], &stats);
    return stats;
}

/* The two texts are impairments; measured from from_ms to to_ms after the handshake. */
static struct outcome measure(const char *forward, const char *back, uint64_t from_ms,
                              uint64_t to_ms, uint64_t seed)
{
    static struct load load;
    struct sim_config config = {.seed = seed, .start_ns = SIM_S(5)};
    struct sim_pair sim;
    struct rdt_link_stats link[2];
    struct rdt_stats received[2];
    struct rdt_stats sent[2];
    struct outcome outcome;
    char why[200];

    load.under_way = 0;
    config.app = (struct sim_app){.on_event = on_event, .ctx = &load};
    ck_assert_msg(rdt_link_parse(&config.link[0], forward, why, sizeof why) == 0, "%s", why);
    ck_assert_msg(rdt_link_parse(&config.link[1], back, why, sizeof why) == 0, "%s", why);
    sim_open(&sim, &config);
    sim_connected(&sim);
    keep_sending(&sim, &load);
    for (int i = 0; i < 2; i++) {
        sim_run(&sim, SIM_S(5) + SIM_MS(i == 0 ? from_ms : to_ms));
        link[i] = link_stats(&sim, 0);
        sent[i] = sim_stats(&sim, 0);
        received[i] = sim_stats(&sim, 1);
    }
    outcome.payload_bps = (double)(received[1].payload_received - received[0].payload_received) *
                          8000 / (double)(to_ms - from_ms);
    outcome.overflowed = (double)(link[1].queue_dropped - link[0].queue_dropped) /
                         (double)(link[1].put - link[0].put);
    outcome.rtt_smoothed_ns = sent[1].rtt_smoothed_ns;
    outcome.sent_per_received = (double)(sent[1].payload_sent + sent[1].payload_retransmitted) /
                                (double)received[1].payload_received;
    sim_close(&sim);
    return outcome;
}

START_TEST(throughput__gigabit_is_used)
{
    const struct outcome o =
        measure("rate=1000mbit,delay=500us", "rate=1000mbit,delay=500us", 200, 500, suite_seed(0));

    ck_assert_double_ge(o.payload_bps, 0.9e9);
    ck_assert_double_le(o.overflowed, 0);
    ck_assert_uint_lt(o.rtt_smoothed_ns, SIM_MS(3));
}
END_TEST

/* The promise: 60 % of a gigabit at 5 % loss each way; it is more. */
START_TEST(throughput__five_per_cent_of_loss_is_borne)
{
    const struct outcome o = measure("rate=1000mbit,delay=500us,loss=5%",
                                     "rate=1000mbit,delay=500us,loss=5%", 200, 600, suite_seed(0));

    ck_assert_double_ge(o.payload_bps, 0.82e9);
    ck_assert_double_le(o.sent_per_received, 1.08);
}
END_TEST

/* A busy machine stretches round trips: that alone makes no congestion of the path's own losses. */
START_TEST(throughput__loss_beside_a_jittering_round_trip_is_borne)
{
    const struct outcome o =
        measure("rate=1000mbit,delay=500us,jitter=1ms,loss=5%",
                "rate=1000mbit,delay=500us,jitter=1ms,loss=5%", 200, 600, suite_seed(0));

    ck_assert_double_ge(o.payload_bps, 0.4e9);
    ck_assert_double_le(o.sent_per_received, 1.08);
}
END_TEST

START_TEST(throughput__twenty_per_cent_of_loss_is_borne)
{
    const struct outcome o = measure("rate=1000mbit,delay=500us,loss=20%",
                                     "rate=1000mbit,delay=500us,loss=20%", 300, 600, suite_seed(0));

    ck_assert_double_ge(o.payload_bps, 0.6e9);
    ck_assert_double_le(o.sent_per_received, 1.35);
}
END_TEST

/* T38, with acknowledgements as a real receiver sends them. */
START_TEST(throughput__T38_short_queue_of_a_slow_link_is_not_flooded)
{
    const char *const forward[] = {"rate=10mbit,delay=1ms,queue=11840",
                                   "rate=10mbit,delay=10ms,queue=11840",
                                   "rate=10mbit,delay=30ms,queue=11840"};
    const char *const back[] = {"rate=10mbit,delay=1ms", "rate=10mbit,delay=10ms",
                                "rate=10mbit,delay=30ms"};

    for (size_t i = 0; i < 3; i++) {
        const struct outcome o = measure(forward[i], back[i], 3000, 13000, suite_seed(i));

        ck_assert_msg(o.overflowed < 0.02, "%s: %.4f", forward[i], o.overflowed);
        ck_assert_msg(o.payload_bps > 0.85e7, "%s: %.0f", forward[i], o.payload_bps);
    }
}
END_TEST

START_TEST(throughput__tiny_round_trips_are_used)
{
    const struct outcome clean =
        measure("rate=10gbit,delay=20us,queue=2m", "delay=20us", 20, 60, suite_seed(0));
    const struct outcome lossy = measure("rate=10gbit,delay=20us,queue=2m,loss=5%",
                                         "delay=20us,loss=5%", 20, 60, suite_seed(0));

    ck_assert_double_ge(clean.payload_bps, 8e9);
    ck_assert_double_ge(lossy.payload_bps, 7e9);
}
END_TEST

START_TEST(throughput__T22_reordering_is_borne)
{
    const struct outcome o = measure("rate=100mbit,delay=10ms,jitter=2ms,reorder=10%", "delay=10ms",
                                     2000, 4000, suite_seed(0));

    ck_assert_double_ge(o.payload_bps, 0.8e8);
    ck_assert_double_le(o.sent_per_received, 1.02);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        throughput__gigabit_is_used,
        throughput__five_per_cent_of_loss_is_borne,
        throughput__loss_beside_a_jittering_round_trip_is_borne,
        throughput__twenty_per_cent_of_loss_is_borne,
        throughput__T38_short_queue_of_a_slow_link_is_not_flooded,
        throughput__tiny_round_trips_are_used,
        throughput__T22_reordering_is_borne,
    };

    return SUITE_MAIN(argc, argv, "throughput", tests);
}
