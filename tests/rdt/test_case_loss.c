/* SPDX-License-Identifier: MIT */
/*
 * Cases about what a bad path does to a connection; named after the promise they keep.
 */
#include "rdt/core/ack.h"
#include "rdt/core/frame.h"
#include "rdt/core/message.h"
#include "sim_bulk.h"
#include "suite.h"

static struct rdt_link_config delay_only(uint64_t delay_ns)
{
    return (struct rdt_link_config){.delay_ns = delay_ns};
}

static void set_links(struct bulk *b, struct rdt_link_config config)
{
    b->config.link[0] = config;
    b->config.link[1] = config;
}

/* Nothing passes for two seconds in the middle of 10 MiB. */
START_TEST(t18__black_hole_both_ways)
{
    struct rdt_link_config path = {.delay_ns = SIM_MS(5), .rate_bps = 100000000};
    struct rdt_link_config hole = path;
    struct bulk *b = bulk_make();

    hole.loss = 1;
    set_links(b, path);
    bulk_open(b);
    bulk_add(b, 10 << 20);
    sim_run(&b->sim, b->sim.now_ns + SIM_MS(400));
    ck_assert_uint_eq(b->delivered, 0);
    ck_assert_uint_gt(sim_stats(&b->sim, 1).payload_received, 1 << 20);
    for (int side = 0; side < 2; side++)
        rdt_link_set(b->sim.link[side], &hole);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(2));
    ck_assert(!b->sim.is_closed[0]);
    for (int side = 0; side < 2; side++)
        rdt_link_set(b->sim.link[side], &path);
    ck_assert(bulk_run(b, SIM_S(5)));
    bulk_free(b);
}
END_TEST

struct drops {
    uint64_t mark_offset; /* of the chunk that is dropped each time it is sent ... */
    uint32_t left;        /* ... so often */
    uint64_t last_ns;     /* when it was last dropped */
};

static bool carries(const struct rdt_arrival *datagram, uint64_t offset)
{
    struct reader r =
        reader_make((const uint8_t *)datagram->bytes + FRAME_PREFIX, datagram->len - FRAME_PREFIX);
    struct frame frame;
    struct chunk chunk;
    struct ack ack;

    ck_assert(frame_decode(&frame, datagram->bytes, datagram->len));
    if (!frame_has_chunks((enum frame_type)frame.type))
        return false;
    if (frame.flags & FRAME_ACK_FIRST)
        ck_assert(ack_decode(&r, &ack));
    while (r.left > 0) {
        ck_assert(chunk_decode(&r, &chunk));
        if (chunk.offset <= offset && offset < (uint64_t)chunk.offset + chunk.len)
            return true;
    }
    return false;
}

/* Drops the datagrams that carry a certain byte. */
static bool drop_marked(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    struct drops *drops = b->ctx;

    if (side == 1 || drops->left == 0 || !carries(datagram, drops->mark_offset))
        return true;
    drops->left--;
    drops->last_ns = b->sim.now_ns;
    return false;
}

/* The same bytes are dropped three times in a row: each repeat is found lost like anything. */
START_TEST(t24__same_bytes_dropped_three_times)
{
    struct drops drops = {.mark_offset = 100000, .left = 3};
    struct bulk *b = bulk_make();
    uint64_t rtt_ns = SIM_MS(10);
    uint64_t first_ns;

    set_links(b, (struct rdt_link_config){.delay_ns = rtt_ns / 2, .rate_bps = 200000000});
    b->on_datagram = drop_marked;
    b->ctx = &drops;
    bulk_open(b);
    bulk_add(b, 4 << 20);
    while (drops.left == 3)
        sim_step(&b->sim, SIM_S(10));
    first_ns = drops.last_ns;
    ck_assert(bulk_run(b, SIM_S(10)));
    ck_assert_uint_eq(drops.left, 0);
    /* Two repeats were lost; the third left within a round trip or so of the second. */
    ck_assert_uint_le(drops.last_ns - first_ns, 3 * rtt_ns);
    bulk_free(b);
}
END_TEST

/* The same at the very end, where nothing follows that would show the loss. */
START_TEST(t24__tail_dropped_three_times)
{
    struct drops drops = {.mark_offset = 199999, .left = 3};
    struct bulk *b = bulk_make();
    uint64_t rtt_ns = SIM_MS(10);
    uint64_t first_ns;

    set_links(b, delay_only(rtt_ns / 2));
    b->on_datagram = drop_marked;
    b->ctx = &drops;
    bulk_open(b);
    bulk_add(b, 200000);
    while (drops.left == 3)
        sim_step(&b->sim, SIM_S(10));
    first_ns = drops.last_ns;
    ck_assert(bulk_run(b, SIM_S(10)));
    ck_assert_uint_eq(drops.left, 0);
    /* 4 round trips and a probe timeout (a round trip, its variance, 1 ms). */
    ck_assert_uint_le(b->done_ns - first_ns, 4 * rtt_ns + 2 * rtt_ns);
    bulk_free(b);
}
END_TEST

struct tail {
    uint32_t datagrams; /* of data, seen */
    uint32_t from;      /* the first that is dropped */
    uint32_t count;
};

static bool drop_tail(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    struct tail *tail = b->ctx;
    const uint8_t *bytes = datagram->bytes;

    if (side == 1 || bytes[8] != FRAME_DATA)
        return true;
    tail->datagrams++;
    return tail->datagrams <= tail->from || tail->datagrams > tail->from + tail->count;
}

/* The last packets of a message are lost; round trip 100 us. */
START_TEST(t25__lost_tail_costs_milliseconds)
{
    for (uint32_t lost = 1; lost <= 7; lost++) {
        struct tail tail = {.from = 7 - lost, .count = lost};
        struct bulk *b = bulk_make();
        uint64_t start_ns;

        set_links(b, delay_only(SIM_US(50)));
        b->on_datagram = drop_tail;
        b->ctx = &tail;
        bulk_open(b);
        bulk_add(b, 7 * 1404);
        start_ns = b->sim.now_ns;
        ck_assert(bulk_run(b, SIM_S(1)));
        ck_assert_uint_le(b->done_ns - start_ns, SIM_MS(10));
        bulk_free(b);
    }
}
END_TEST

static bool one_closed(void *ctx)
{
    const struct sim_pair *sim = ctx;

    return sim->is_closed[0] || sim->is_closed[1];
}

/* A silent peer is dead at the configured time, idle or in mid-transfer. */
START_TEST(t27__silent_peer_is_dead_on_time)
{
    static const uint64_t dead_ns[] = {SIM_MS(500), SIM_MS(2500), SIM_S(9)};

    for (size_t i = 0; i < 6; i++) {
        const uint64_t want_ns = dead_ns[i / 2];
        struct rdt_link_config hole = {.loss = 1};
        struct bulk *b = bulk_make();
        uint64_t start_ns;

        set_links(b, (struct rdt_link_config){.delay_ns = SIM_MS(2), .rate_bps = 50000000});
        for (int side = 0; side < 2; side++) {
            b->config.endpoint[side].dead_ns = want_ns;
            b->config.endpoint[side].ping_ns = want_ns / 5;
        }
        bulk_open(b);
        if (i % 2 == 1)
            bulk_add(b, 8 << 20);
        sim_run(&b->sim, b->sim.now_ns + (i % 2 == 1 ? SIM_MS(300) : 2 * want_ns));
        ck_assert(!one_closed(&b->sim));
        for (int side = 0; side < 2; side++)
            rdt_link_set(b->sim.link[side], &hole);
        start_ns = b->sim.now_ns;
        ck_assert(sim_run_until(&b->sim, start_ns + SIM_S(20), one_closed, &b->sim));
        ck_assert_int_eq(b->sim.reason[b->sim.is_closed[0] ? 0 : 1], RDT_CLOSED_DEAD);
        if (i % 2 == 1) /* heard until the links were cut */
            ck_assert_uint_ge(b->sim.now_ns - start_ns, want_ns / 10 * 9);
        ck_assert_uint_le(b->sim.now_ns - start_ns, want_ns / 10 * 11);
        bulk_free(b);
    }
}
END_TEST

/* A peer that is only slow to react is not dead, and its pings cost next to nothing. */
START_TEST(t27__idle_connection_lives)
{
    struct bulk *b = bulk_make();
    uint64_t before;

    set_links(b, (struct rdt_link_config){.delay_ns = SIM_MS(20), .loss = 0.3});
    bulk_open(b);
    before = b->sim.datagrams;
    sim_run(&b->sim, b->sim.now_ns + SIM_S(100));
    ck_assert(!one_closed(&b->sim));
    ck_assert_uint_le(b->sim.datagrams - before, 2000);
    bulk_add(b, 1000);
    ck_assert(bulk_run(b, SIM_S(5)));
    bulk_free(b);
}
END_TEST

static bool drop_first(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    uint32_t *left = b->ctx;

    (void)side;
    (void)datagram;
    if (*left == 0)
        return true;
    --*left;
    return false;
}

/* The first packets of the handshake are lost, of either side or both. */
START_TEST(t29__lost_handshake_packets)
{
    /* 50 ms, then half as long again each time. */
    static const uint64_t limit_ms[] = {60, 60, 140, 260, 420, 680, 1100};

    for (uint32_t lost = 0; lost <= 5; lost++) {
        struct bulk *b = bulk_make();
        uint32_t left = lost;

        set_links(b, delay_only(SIM_MS(1)));
        b->on_datagram = drop_first;
        b->ctx = &left;
        bulk_open(b);
        ck_assert_uint_eq(left, 0);
        ck_assert_uint_le(b->sim.now_ns, SIM_MS(limit_ms[lost + 1]));
        bulk_add(b, 1000);
        ck_assert(bulk_run(b, SIM_S(1)));
        bulk_free(b);
    }
}
END_TEST

static bool drop_confirm(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    uint32_t *left = b->ctx;

    (void)b;
    if (side == 1 || ((const uint8_t *)datagram->bytes)[8] == FRAME_INIT || *left == 0)
        return true;
    --*left;
    return false;
}

START_TEST(t29__lost_confirm)
{
    struct bulk *b = bulk_make();
    uint32_t left = 5;

    set_links(b, delay_only(SIM_MS(1)));
    b->on_datagram = drop_confirm;
    b->ctx = &left;
    bulk_open(b);
    ck_assert_uint_le(b->sim.now_ns, SIM_MS(200));
    bulk_free(b);
}
END_TEST

static bool drop_answers_for_a_while(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    return side == 1 || ((const uint8_t *)datagram->bytes)[8] == FRAME_INIT ||
           b->sim.now_ns >= SIM_S(4);
}

/* A server that repeats its ACCEPT is alive, however long it hears nothing else. */
START_TEST(t29__repeated_accept_is_a_sign_of_life)
{
    struct bulk *b = bulk_make();

    set_links(b, delay_only(SIM_MS(1)));
    b->on_datagram = drop_answers_for_a_while;
    bulk_open(b);
    ck_assert_uint_ge(b->sim.now_ns, SIM_S(4));
    ck_assert_uint_le(b->sim.now_ns, SIM_S(4) + SIM_MS(500));
    bulk_add(b, 1000);
    ck_assert(bulk_run(b, SIM_S(1)));
    ck_assert_uint_gt(sim_stats(&b->sim, 0).duplicate, 0);
    ck_assert_uint_eq(sim_stats(&b->sim, 0).stray, 0);
    bulk_free(b);
}
END_TEST

/* 30 % of everything lost both ways, or damaged, a thousand seeds: connects and delivers. */
static void run_bad_path(struct rdt_link_config path)
{
    for (unsigned i = 0; i < 1000; i++) {
        struct bulk *b = bulk_make();

        b->config.seed = suite_seed(i);
        set_links(b, path);
        sim_open(&b->sim, &b->config);
        bulk_add(b, 20000);
        sim_connect(&b->sim);
        ck_assert_msg(bulk_run(b, SIM_S(30)), "seed %llu", suite_seed(i));
        bulk_free(b);
    }
}

START_TEST(t30__thirty_percent_loss)
{
    run_bad_path((struct rdt_link_config){.delay_ns = SIM_MS(10), .loss = 0.3});
}
END_TEST

START_TEST(t30__thirty_percent_corruption)
{
    run_bad_path((struct rdt_link_config){.delay_ns = SIM_MS(10), .corrupt = 0.3});
}
END_TEST

struct census {
    uint32_t early; /* in the first second */
    uint32_t late;  /* in the last */
    uint32_t all;
};

static bool count_and_drop(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    struct census *census = b->ctx;

    ck_assert_int_eq(side, 0);
    census->all++;
    census->early += b->sim.now_ns < SIM_S(1);
    census->late += b->sim.now_ns >= SIM_S(9);
    ck_assert_uint_eq(datagram->len, census->all <= 2 ? 1200 : 548);
    return false;
}

/* A server that never answers is asked less and less often, then given up with a clear reason. */
START_TEST(t31__no_answer)
{
    struct census census = {0};
    struct bulk *b = bulk_make();

    b->on_datagram = count_and_drop;
    b->ctx = &census;
    sim_open(&b->sim, &b->config);
    sim_connect(&b->sim);
    ck_assert(sim_run_until(&b->sim, SIM_S(11), one_closed, &b->sim));
    ck_assert_int_eq(b->sim.reason[0], RDT_CLOSED_TIMEOUT);
    ck_assert_uint_ge(b->sim.now_ns, SIM_S(9));
    ck_assert_uint_gt(census.early, census.late);
    ck_assert_uint_le(census.all, 25);
    bulk_free(b);
}
END_TEST

/* A server without room, or that does not listen, says so at once. */
START_TEST(t31__refused_at_once)
{
    struct bulk *b = bulk_make();

    set_links(b, delay_only(SIM_MS(1)));
    sim_open(&b->sim, &b->config);
    ck_assert_int_eq(rdt_connect(b->sim.ep[1], &b->sim.addr[0], b->sim.now_ns, &b->sim.conn[1]), 0);
    ck_assert(sim_run_until(&b->sim, SIM_S(1), one_closed, &b->sim));
    ck_assert_int_eq(b->sim.reason[1], RDT_CLOSED_REFUSED);
    ck_assert_uint_le(b->sim.now_ns, SIM_MS(3));
    bulk_free(b);
}
END_TEST

static bool both_closed(void *ctx)
{
    const struct sim_pair *sim = ctx;

    return sim->is_closed[0] && sim->is_closed[1];
}

/* Everything sent before a close with time to flush arrives; both sides learn of the end. */
START_TEST(t42__flush_and_close)
{
    for (unsigned i = 0; i < 100; i++) {
        struct bulk *b = bulk_make();
        struct rdt_conn again;

        b->config.seed = suite_seed(i);
        set_links(b, (struct rdt_link_config){.delay_ns = SIM_MS(5), .loss = 0.1});
        bulk_open(b);
        bulk_add(b, 1 << 20);
        sim_step(&b->sim, b->sim.now_ns + 1);
        ck_assert_int_eq(rdt_close(b->sim.ep[0], b->sim.conn[0], SIM_S(20), b->sim.now_ns), 0);
        ck_assert(sim_run_until(&b->sim, b->sim.now_ns + SIM_S(25), both_closed, &b->sim));
        ck_assert_uint_eq(b->delivered, 1);
        ck_assert_int_eq(b->messages[0].status, RDT_OK);
        ck_assert_int_eq(b->sim.reason[0], RDT_CLOSED_LOCAL);
        ck_assert(b->sim.reason[1] == RDT_CLOSED_PEER || b->sim.reason[1] == RDT_CLOSED_DEAD);
        ck_assert_int_eq(rdt_connect(b->sim.ep[0], &b->sim.addr[1], b->sim.now_ns, &again), 0);
        bulk_free(b);
    }
}
END_TEST

static bool deaf_link(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    const uint32_t *from_ms = b->ctx;

    (void)datagram;
    return side == 0 || b->sim.now_ns < SIM_MS(*from_ms);
}

/* The last acknowledgements never come: flushing ends by time, with the body given back. */
START_TEST(t42__flush_is_bounded_by_time)
{
    uint32_t from_ms = 20;
    struct bulk *b = bulk_make();
    uint64_t start_ns;

    set_links(b, delay_only(SIM_MS(5)));
    b->on_datagram = deaf_link;
    b->ctx = &from_ms;
    bulk_open(b);
    sim_run(&b->sim, SIM_MS(30));
    bulk_add(b, 1000);
    sim_step(&b->sim, b->sim.now_ns + 1);
    start_ns = b->sim.now_ns;
    ck_assert_int_eq(rdt_close(b->sim.ep[0], b->sim.conn[0], SIM_MS(300), start_ns), 0);
    ck_assert(sim_run_until(&b->sim, start_ns + SIM_S(5), both_closed, &b->sim));
    ck_assert_uint_eq(b->released, 1);
    ck_assert_int_eq(b->messages[0].status, RDT_ABORTED);
    ck_assert_uint_eq(b->delivered, 1);
    ck_assert_int_eq(b->sim.reason[1], RDT_CLOSED_PEER);
    bulk_free(b);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        t18__black_hole_both_ways,
        t24__same_bytes_dropped_three_times,
        t24__tail_dropped_three_times,
        t25__lost_tail_costs_milliseconds,
        t27__silent_peer_is_dead_on_time,
        t27__idle_connection_lives,
        t29__lost_handshake_packets,
        t29__lost_confirm,
        t29__repeated_accept_is_a_sign_of_life,
        t30__thirty_percent_loss,
        t30__thirty_percent_corruption,
        t31__no_answer,
        t31__refused_at_once,
        t42__flush_and_close,
        t42__flush_is_bounded_by_time,
    };

    return SUITE_MAIN(argc, argv, "case_loss", tests);
}
