/* SPDX-License-Identifier: MIT */
#include "rdt/core/endpoint.h"
#include "sim_bulk.h"
#include "suite.h"

static struct rdt_endpoint *open_small(uint32_t connections, bool listen)
{
    struct rdt_config config = {
        .size = sizeof config, .connections_max = connections, .listen = listen};
    struct rdt_endpoint *ep;

    ck_assert_int_eq(rdt_open(&ep, &config), 0);
    return ep;
}

START_TEST(endpoint__settings_out_of_range)
{
    struct rdt_endpoint *ep = NULL;
    struct rdt_config config = {.size = 1};

    ck_assert_int_eq(rdt_open(&ep, &config), RDT_EINVAL);
    config = (struct rdt_config){.size = sizeof config, .datagram_max = 547};
    ck_assert_int_eq(rdt_open(&ep, &config), RDT_EINVAL);
    config.datagram_max = 65508;
    ck_assert_int_eq(rdt_open(&ep, &config), RDT_EINVAL);
    config.datagram_max = 0;
    config.pool_bytes = 65535; /* less than one message */
    ck_assert_int_eq(rdt_open(&ep, &config), RDT_EINVAL);
    config.pool_bytes = 0;
    config.connections_max = UINT32_MAX;
    ck_assert_int_eq(rdt_open(&ep, &config), RDT_EINVAL);
    ck_assert_ptr_null(ep);
}
END_TEST

/* A program built against an older header gives a shorter struct: the rest has its defaults. */
START_TEST(endpoint__shorter_config)
{
    struct rdt_config config = {.size = offsetof(struct rdt_config, max_ack_delay_ns),
                                .connections_max = 1,
                                .max_ack_delay_ns = UINT64_MAX};
    struct rdt_endpoint *ep;

    ck_assert_int_eq(rdt_open(&ep, &config), 0);
    ck_assert_uint_eq(ep->env.config.max_ack_delay_ns, 1000000);
    rdt_free(ep);
    rdt_free(NULL);
}
END_TEST

START_TEST(endpoint__connection_limit)
{
    const struct rdt_addr peer = rdt_addr_v4(10, 0, 0, 1, 1);
    const struct rdt_addr no_port = rdt_addr_v4(10, 0, 0, 1, 0);
    struct rdt_endpoint *ep = open_small(2, false);
    struct rdt_conn conn;

    ck_assert_int_eq(rdt_connect(ep, &no_port, 0, &conn), RDT_EINVAL);
    ck_assert_int_eq(rdt_connect(ep, &peer, 0, &conn), 0);
    ck_assert_int_eq(rdt_connect(ep, &peer, 0, &conn), 0);
    ck_assert_int_eq(rdt_connect(ep, &peer, 0, &conn), RDT_ELIMIT);
    rdt_free(ep);
}
END_TEST

/* An idle endpoint wants nothing; a connecting one its next INIT. */
START_TEST(endpoint__deadline_is_the_earliest)
{
    const struct rdt_addr peer = rdt_addr_v4(10, 0, 0, 1, 1);
    struct rdt_endpoint *ep = open_small(2, false);
    static uint8_t buf[65536];
    struct rdt_train train;
    struct rdt_conn conn;

    ck_assert_uint_eq(rdt_deadline(ep), UINT64_MAX);
    ck_assert_int_eq(rdt_connect(ep, &peer, 1000, &conn), 0);
    ck_assert(rdt_next_train(ep, 1000, buf, sizeof buf, &train));
    ck_assert_uint_eq(train.len, 1200);
    ck_assert(rdt_addr_equal(&train.to, &peer));
    ck_assert(!rdt_next_train(ep, 1000, buf, sizeof buf, &train));
    ck_assert_uint_eq(rdt_deadline(ep), 1000 + HANDSHAKE_FIRST_NS);
    rdt_on_timeout(ep, 1000 + HANDSHAKE_FIRST_NS);
    ck_assert(rdt_next_train(ep, 1000 + HANDSHAKE_FIRST_NS, buf, sizeof buf, &train));
    rdt_free(ep);
}
END_TEST

/* What `from` has to say reaches `to` at once.  false: nothing. */
static bool carry(struct rdt_endpoint *from, struct rdt_endpoint *to, const struct rdt_addr *source,
                  uint64_t now_ns)
{
    static uint8_t buf[65536];
    struct rdt_train train;
    bool any = false;

    while (rdt_next_train(from, now_ns, buf, sizeof buf, &train)) {
        any = true;
        for (size_t at = 0; at < train.len; at += train.segment_len) {
            size_t left = train.len - at;
            struct rdt_arrival arrival = {.from = *source, .local = train.to, .bytes = buf + at};

            arrival.len = left < train.segment_len ? left : train.segment_len;
            rdt_input(to, &arrival, now_ns);
        }
    }
    return any;
}

/* Lets two endpoints talk without delay until neither has anything to say. */
static void talk(struct rdt_endpoint *a, struct rdt_endpoint *b, const struct rdt_addr addr[2],
                 uint64_t now_ns)
{
    bool any = true;

    while (any) {
        any = carry(a, b, &addr[0], now_ns);
        any = carry(b, a, &addr[1], now_ns) || any;
    }
}

/* IPv6, link-local, with a scope: the server answers from the address it was asked at. */
START_TEST(endpoint__ipv6_and_local_address)
{
    struct rdt_endpoint *client = open_small(2, false);
    struct rdt_endpoint *server = open_small(2, true);
    struct rdt_event event;
    struct rdt_addr addr[2];
    struct rdt_addr peer;
    struct rdt_conn conn;

    ck_assert_int_eq(rdt_addr_parse(&addr[0], "[fe80::1%2]:77"), 0);
    ck_assert_int_eq(rdt_addr_parse(&addr[1], "[fe80::2%3]:88"), 0);
    ck_assert_int_eq(rdt_connect(client, &addr[1], 0, &conn), 0);
    talk(client, server, addr, 0);
    ck_assert(rdt_next_event(client, &event));
    ck_assert_int_eq(event.kind, RDT_EV_CONNECTED);
    ck_assert(!event.incoming);
    ck_assert(rdt_next_event(server, &event));
    ck_assert(event.incoming);
    ck_assert(rdt_addr_equal(&event.peer, &addr[0]));
    ck_assert_int_eq(rdt_peer(server, event.conn, &peer), 0);
    ck_assert(rdt_addr_equal(&peer, &addr[0]));
    ck_assert(rdt_addr_equal(&server->conns[0].local, &addr[1]));
    rdt_free(client);
    rdt_free(server);
}
END_TEST

/* Statistics of connections that are gone stay in the endpoint's sums. */
START_TEST(endpoint__sums_outlive_connections)
{
    struct bulk *b = bulk_make();
    struct rdt_stats before;
    struct rdt_stats after;
    uint8_t small[sizeof(struct rdt_stats)];
    struct rdt_stats *old = (void *)small;

    b->config.link[0].delay_ns = SIM_MS(1);
    bulk_open(b);
    bulk_add(b, 100000);
    ck_assert(bulk_run(b, SIM_S(1)));
    before = sim_stats(&b->sim, 0);
    ck_assert_uint_eq(before.connections, 1);
    ck_assert_uint_eq(before.payload_sent, 100000);
    ck_assert_uint_eq(sim_stats(&b->sim, 1).payload_received, 100000);
    ck_assert_int_eq(rdt_close(b->sim.ep[0], b->sim.conn[0], 0, b->sim.now_ns), 0);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(5));
    after = sim_stats(&b->sim, 0);
    ck_assert_uint_eq(after.connections, 0);
    ck_assert_uint_eq(after.payload_sent, 100000);
    ck_assert_uint_gt(after.datagrams_sent, before.datagrams_sent);
    memset(small, 0xAB, sizeof small);
    old->size = offsetof(struct rdt_stats, bytes_sent); /* of an older header */
    rdt_endpoint_stats(b->sim.ep[0], old);
    ck_assert_uint_eq(old->datagrams_sent, after.datagrams_sent);
    ck_assert_uint_eq(small[offsetof(struct rdt_stats, bytes_sent)], 0xAB);
    bulk_free(b);
}
END_TEST

/* A pooled message may be kept beyond its connection, whose slot is used again meanwhile. */
START_TEST(endpoint__message_outlives_its_connection)
{
    struct bulk *b = bulk_make();

    b->config.link[0].delay_ns = SIM_MS(1);
    b->config.endpoint[1].connections_max = 1;
    b->keep = true;
    bulk_open(b);
    bulk_add(b, 5000);
    ck_assert(bulk_run(b, SIM_S(1)));
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(rdt_close(b->sim.ep[0], b->sim.conn[0], 0, b->sim.now_ns), 0);
        sim_run(&b->sim, b->sim.now_ns + SIM_S(3));
        for (int side = 0; side < 2; side++) {
            ck_assert(b->sim.is_closed[side]);
            b->sim.is_closed[side] = false;
            b->sim.is_connected[side] = false;
        }
        sim_connected(&b->sim);
        ck_assert(sim_matches(b->held[0], 5000, 0));
    }
    bulk_give_back(b);
    ck_assert_uint_eq(b->sim.ep[1]->env.pool.free_bytes, 8u << 20);
    bulk_free(b);
}
END_TEST

/* What a hundred connections are lent never exceeds the pool. */
START_TEST(endpoint__credit_is_backed_by_the_pool)
{
    const struct rdt_addr addr[2] = {rdt_addr_v4(10, 0, 0, 1, 1), rdt_addr_v4(10, 0, 0, 2, 2)};
    struct rdt_endpoint *client = open_small(64, false);
    struct rdt_endpoint *server = open_small(64, true);
    uint64_t promised = 0;
    struct rdt_conn conn;

    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(rdt_connect(client, &addr[1], 0, &conn), 0);
    talk(client, server, addr, 0);
    ck_assert_uint_eq(server->touched, 64);
    for (uint32_t i = 0; i < 64; i++) {
        ck_assert_int_eq(server->conns[i].state, CONN_OPEN);
        ck_assert_uint_ge(credit_window(&server->conns[i].inbox.credit), 65536);
        promised += credit_window(&server->conns[i].inbox.credit);
    }
    ck_assert_uint_le(promised, 8u << 20);
    rdt_free(client);
    rdt_free(server);
}
END_TEST

/* A silent INIT holds a slot for the time of a handshake, and the application never hears of it. */
START_TEST(endpoint__half_open_is_given_up)
{
    const struct rdt_addr addr[2] = {rdt_addr_v4(10, 0, 0, 1, 1), rdt_addr_v4(10, 0, 0, 2, 2)};
    struct rdt_endpoint *client = open_small(1, false);
    struct rdt_endpoint *server = open_small(1, true);
    static uint8_t buf[65536];
    struct rdt_event event;
    struct rdt_train train;
    struct rdt_conn conn;
    size_t answered = 0;
    struct rdt_arrival arrival = {.from = addr[0], .local = addr[1], .bytes = buf};

    ck_assert_int_eq(rdt_connect(client, &addr[1], 0, &conn), 0);
    ck_assert(rdt_next_train(client, 0, buf, sizeof buf, &train));
    arrival.len = train.len;
    rdt_input(server, &arrival, 0);
    while (rdt_deadline(server) != UINT64_MAX) {
        const uint64_t now_ns = rdt_deadline(server);

        while (rdt_next_train(server, now_ns, buf, sizeof buf, &train))
            answered += train.len;
        rdt_on_timeout(server, now_ns);
    }
    ck_assert_uint_gt(answered, 0);
    ck_assert_uint_le(answered, 3 * arrival.len); /* no amplification */
    ck_assert(!rdt_next_event(server, &event));
    ck_assert_int_eq(server->conns[0].state, CONN_FREE);
    rdt_free(client);
    rdt_free(server);
}
END_TEST

/* A packet right in everything but its CID, also when the slot in it is that of the connection. */
START_TEST(endpoint__another_cid_is_a_stray)
{
    struct bulk *b = bulk_make();
    const struct rdt_addr *const from = &b->sim.addr[1];
    uint8_t bytes[FRAME_PREFIX + 4] = {0};
    struct rdt_arrival arrival = {.bytes = bytes, .len = sizeof bytes};
    struct conn *c;
    uint64_t stray;

    bulk_open(b);
    c = &b->sim.ep[0]->conns[0];
    stray = sim_stats(&b->sim, 0).stray;
    arrival.from = *from;
    for (unsigned bit = 0; bit < 32; bit++) {
        const struct frame frame = {
            .seq = c->received.end, .type = FRAME_CLOSE, .cid = c->cid ^ 1u << bit};

        frame_encode(&frame, bytes);
        frame_seal(&c->key, bytes, sizeof bytes);
        rdt_input(b->sim.ep[0], &arrival, b->sim.now_ns);
        ck_assert_int_eq(c->state, CONN_OPEN);
        ck_assert_uint_eq(sim_stats(&b->sim, 0).stray, ++stray);
    }
    bulk_free(b);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        endpoint__settings_out_of_range,
        endpoint__shorter_config,
        endpoint__connection_limit,
        endpoint__deadline_is_the_earliest,
        endpoint__ipv6_and_local_address,
        endpoint__sums_outlive_connections,
        endpoint__message_outlives_its_connection,
        endpoint__credit_is_backed_by_the_pool,
        endpoint__half_open_is_given_up,
        endpoint__another_cid_is_a_stray,
    };

    return SUITE_MAIN(argc, argv, "endpoint", tests);
}
