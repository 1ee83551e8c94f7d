/* SPDX-License-Identifier: MIT */
#include "rdt/core/endpoint.h"
#include "sim_bulk.h"
#include "suite.h"

static struct conn *conn_of(struct bulk *b, int side)
{
    return &b->sim.ep[side]->conns[0];
}

static struct bulk *open_bulk(uint64_t delay_ns)
{
    struct bulk *b = bulk_make();

    b->config.link[0].delay_ns = delay_ns;
    b->config.link[1].delay_ns = delay_ns;
    bulk_open(b);
    return b;
}

START_TEST(conn__handshake_takes_one_round_trip)
{
    struct bulk *b = open_bulk(SIM_MS(10));

    ck_assert_uint_eq(b->sim.now_ns, SIM_MS(30)); /* INIT, ACCEPT, CONFIRM */
    ck_assert_uint_ge(conn_of(b, 0)->rtt.smoothed_ns, SIM_MS(20));
    ck_assert_uint_ge(conn_of(b, 1)->rtt.smoothed_ns, SIM_MS(20));
    ck_assert_uint_eq(conn_of(b, 0)->key.seed, conn_of(b, 1)->key.seed);
    bulk_free(b);
}
END_TEST

/* Messages queued before the handshake is done go out with it, and stand for CONFIRM. */
START_TEST(conn__early_data_confirms)
{
    struct bulk *b = bulk_make();

    b->config.link[0].delay_ns = SIM_MS(10);
    b->config.link[1].delay_ns = SIM_MS(10);
    sim_open(&b->sim, &b->config);
    bulk_add(b, 1000);
    sim_connect(&b->sim);
    ck_assert(bulk_run(b, SIM_S(1)));
    ck_assert_uint_eq(b->done_ns, SIM_MS(30));
    bulk_free(b);
}
END_TEST

/* Both take the smaller of the two datagram limits. */
START_TEST(conn__datagram_limit_is_the_smaller)
{
    struct bulk *b = bulk_make();

    b->config.endpoint[0].datagram_max = 9000;
    b->config.endpoint[1].datagram_max = 600;
    bulk_open(b);
    ck_assert_uint_eq(conn_of(b, 0)->datagram, 600);
    ck_assert_uint_eq(conn_of(b, 1)->datagram, 600);
    bulk_add(b, 100000);
    ck_assert(bulk_run(b, SIM_S(1)));
    bulk_free(b);
}
END_TEST

/* A small message does not wait for acknowledgement until a timer runs out. */
START_TEST(conn__lone_message_is_acknowledged_at_once)
{
    struct bulk *b = open_bulk(SIM_US(10));
    uint64_t start_ns;

    sim_run(&b->sim, b->sim.now_ns + SIM_MS(100));
    bulk_add(b, 100);
    start_ns = b->sim.now_ns;
    ck_assert(bulk_run(b, SIM_S(1)));
    ck_assert_uint_eq(b->sim.now_ns - start_ns, SIM_US(20));
    bulk_free(b);
}
END_TEST

/* A message and its acknowledgement are two packets, not four: news of room can wait. */
START_TEST(conn__lone_message_is_two_packets)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    uint64_t before;

    sim_run(&b->sim, b->sim.now_ns + SIM_MS(300));
    before = b->sim.datagrams;
    bulk_add(b, 100);
    ck_assert(bulk_run(b, SIM_S(1)));
    sim_run(&b->sim, b->sim.now_ns + SIM_MS(100));
    ck_assert_uint_eq(b->sim.datagrams - before, 2);
    bulk_free(b);
}
END_TEST

/* One acknowledgement for a batch of arrivals, not one for each. */
START_TEST(conn__few_acknowledgements)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    struct rdt_stats before = sim_stats(&b->sim, 1);
    struct rdt_stats after;

    bulk_add(b, 10 << 20);
    ck_assert(bulk_run(b, SIM_S(5)));
    after = sim_stats(&b->sim, 1);
    ck_assert_uint_lt((after.datagrams_sent - before.datagrams_sent) * 7,
                      after.datagrams_received - before.datagrams_received);
    bulk_free(b);
}
END_TEST

/* Many small messages share datagrams. */
START_TEST(conn__small_messages_share_datagrams)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    uint64_t before = sim_stats(&b->sim, 0).datagrams_sent;

    for (int i = 0; i < 200; i++)
        bulk_add(b, 50);
    ck_assert(bulk_run(b, SIM_S(5)));
    ck_assert_uint_lt(sim_stats(&b->sim, 0).datagrams_sent - before, 80);
    bulk_free(b);
}
END_TEST

/* Trains: equal segments, only the last shorter, never more than was allowed. */
START_TEST(conn__trains_keep_to_their_limits)
{
    struct bulk *b = bulk_make();
    static uint8_t buf[65536];
    struct rdt_train train;
    uint32_t full = 0;

    b->config.endpoint[0].train_segments_max = 5;
    b->config.endpoint[0].cc = RDT_CC_FIXED;
    bulk_open(b);
    bulk_add(b, 60000);
    b->config.app.on_turn(&b->sim, 0, b);
    while (rdt_next_train(b->sim.ep[0], b->sim.now_ns, buf, sizeof buf, &train)) {
        ck_assert_uint_le(train.len, 5 * 1452);
        ck_assert_uint_le(train.segment_len, 1452);
        full += train.len == 5 * 1452;
    }
    ck_assert_uint_ge(full, 8);
    bulk_free(b);
}
END_TEST

/* A control message overtakes bulk that was queued before it. */
static void on_event(struct sim_pair *sim, int side, const struct rdt_event *event, void *ctx)
{
    uint64_t *arrived_ns = ctx;

    if (side == 1 && event->kind == RDT_EV_MESSAGE && event->channel == 0)
        *arrived_ns = sim->now_ns;
    if (event->kind == RDT_EV_MESSAGE && event->pooled)
        rdt_release(sim->ep[side], event->bytes, sim->now_ns);
}

START_TEST(conn__control_overtakes_bulk)
{
    uint64_t arrived_ns = 0;
    struct sim_config config = {.seed = 1, .app = {.on_event = on_event, .ctx = &arrived_ns}};
    struct rdt_message bulk = {.body_len = 60000, .channel = 1};
    struct rdt_message control = {.channel = 0, .ordered = true};
    uint8_t *body = calloc(1, bulk.body_len);
    struct sim_pair sim;
    uint64_t start_ns;

    bulk.body = body;
    config.link[0] = (struct rdt_link_config){.delay_ns = SIM_MS(5), .rate_bps = 10000000};
    config.link[1].delay_ns = SIM_MS(5);
    sim_open(&sim, &config);
    sim_connected(&sim);
    for (int i = 0; i < 30; i++)
        ck_assert_int_eq(rdt_send(sim.ep[0], sim.conn[0], &bulk, sim.now_ns), 0);
    sim_run(&sim, sim.now_ns + SIM_MS(500));
    start_ns = sim.now_ns;
    ck_assert_int_eq(rdt_send(sim.ep[0], sim.conn[0], &control, sim.now_ns), 0);
    while (arrived_ns == 0)
        sim_step(&sim, start_ns + SIM_S(1));
    /* What is in flight goes first: two round trips' worth of it. */
    ck_assert_uint_le(arrived_ns - start_ns, SIM_MS(40));
    sim_close(&sim);
    free(body);
}
END_TEST

/* While nothing is said, each side knows that the other lives, for a packet or two a second. */
START_TEST(conn__pings_when_idle)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    uint64_t before = b->sim.datagrams;

    sim_run(&b->sim, b->sim.now_ns + SIM_S(10));
    ck_assert(!b->sim.is_closed[0]);
    ck_assert_uint_le(b->sim.datagrams - before, 2 * 20);
    ck_assert_uint_ge(b->sim.datagrams - before, 2 * 15);
    bulk_free(b);
}
END_TEST

/* The states may change as the table of docs/protocol.md says and in no other way. */
START_TEST(conn__impossible_transition_dies)
{
    struct bulk *b = open_bulk(SIM_MS(1));

    conn_set_state(conn_of(b, 0), CONN_ACCEPTING);
    bulk_free(b);
}
END_TEST

static int run(int argc, char **argv)
{
    const TTest *const tests[] = {
        conn__handshake_takes_one_round_trip, conn__early_data_confirms,
        conn__datagram_limit_is_the_smaller,  conn__lone_message_is_acknowledged_at_once,
        conn__lone_message_is_two_packets,    conn__few_acknowledgements,
        conn__small_messages_share_datagrams, conn__trains_keep_to_their_limits,
        conn__control_overtakes_bulk,         conn__pings_when_idle,
    };

    return SUITE_MAIN(argc, argv, "conn", tests);
}

/* Dies by assertion, which is what it tests. */
static int run_fatal(void)
{
    Suite *suite = suite_create("conn_fatal");
    TCase *tcase = tcase_create("conn_fatal");
    SRunner *runner;
    int failed;

    tcase_add_test_raise_signal(tcase, conn__impossible_transition_dies, 6);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

int main(int argc, char **argv)
{
    int failed = run(argc, argv);

    return failed + run_fatal() > 0;
}
