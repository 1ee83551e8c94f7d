/* SPDX-License-Identifier: MIT */
/*
 * Cases about what the wire may bring: damaged, forged and hostile datagrams; named after the
 * promise they keep.
 */
#include "rdt/core/endpoint.h"
#include "sim_bulk.h"
#include "suite.h"

enum {
    SCRATCH = 2048,
};

static struct bulk *open_bulk(uint64_t delay_ns)
{
    struct bulk *b = bulk_make();

    b->config.link[0].delay_ns = delay_ns;
    b->config.link[1].delay_ns = delay_ns;
    bulk_open(b);
    return b;
}

/* The one connection of a side. */
static struct conn *conn_of(struct bulk *b, int side)
{
    return &b->sim.ep[side]->conns[0];
}

/* Everything that side has taken or turned away. */
static uint64_t refused(struct bulk *b, int side)
{
    struct rdt_stats s = sim_stats(&b->sim, side);

    return s.corrupt + s.malformed + s.stray + s.duplicate + s.pool_full;
}

/* The bytes may be changed: rdt_input owns them meanwhile. */
static void inject(struct bulk *b, int to, void *bytes, size_t len)
{
    struct rdt_arrival arrival = {
        .from = b->sim.addr[!to], .local = b->sim.addr[to], .bytes = bytes, .len = len};

    rdt_input(b->sim.ep[to], &arrival, b->sim.now_ns);
}

/* A packet that is right in everything but what the test makes wrong. */
struct forged {
    uint8_t bytes[SCRATCH];
    struct frame frame;
    struct writer body;
};

static void forge(struct bulk *b, int to, enum frame_type type, struct forged *f)
{
    f->frame = (struct frame){
        .type = (uint8_t)type, .cid = conn_of(b, to)->cid, .seq = conn_of(b, to)->received.end};
    f->body = writer_make(f->bytes + FRAME_PREFIX, sizeof f->bytes - FRAME_PREFIX);
}

static void inject_forged(struct bulk *b, int to, struct forged *f)
{
    const size_t len = FRAME_PREFIX + f->body.written;

    ck_assert(!f->body.failed);
    frame_encode(&f->frame, f->bytes);
    frame_seal(&conn_of(b, to)->key, f->bytes, len);
    inject(b, to, f->bytes, len);
}

/* ---------- handles ---------- */

static void expect_dead_handle(struct rdt_endpoint *ep, struct rdt_conn conn, uint64_t now_ns)
{
    struct rdt_stats stats = {.size = sizeof stats};
    struct rdt_message message = {0};
    struct rdt_landing landing = {0};
    struct rdt_addr addr;

    ck_assert_int_eq(rdt_send(ep, conn, &message, now_ns), RDT_ECONN);
    ck_assert_int_eq(rdt_post(ep, conn, &landing, now_ns), RDT_ECONN);
    ck_assert_int_eq(rdt_unpost(ep, conn, 0, 0), RDT_ECONN);
    ck_assert_int_eq(rdt_close(ep, conn, 0, now_ns), RDT_ECONN);
    ck_assert_int_eq(rdt_abort(ep, conn, now_ns), RDT_ECONN);
    ck_assert_int_eq(rdt_peer(ep, conn, &addr), RDT_ECONN);
    ck_assert_int_eq(rdt_conn_stats(ep, conn, &stats), RDT_ECONN);
}

START_TEST(t46__handle_of_an_ended_connection)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    const struct rdt_conn old[2] = {b->sim.conn[0], b->sim.conn[1]};
    const struct rdt_conn nothing = {0};

    expect_dead_handle(b->sim.ep[0], nothing, b->sim.now_ns);
    ck_assert_int_eq(rdt_close(b->sim.ep[0], old[0], 0, b->sim.now_ns), 0);
    ck_assert_int_eq(rdt_close(b->sim.ep[0], old[0], 0, b->sim.now_ns), RDT_ECONN);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(2));
    for (int side = 0; side < 2; side++) {
        ck_assert(b->sim.is_closed[side]);
        expect_dead_handle(b->sim.ep[side], old[side], b->sim.now_ns);
        b->sim.is_closed[side] = false;
        b->sim.is_connected[side] = false;
    }
    sim_connected(&b->sim); /* the slots are used again, the old handles stay dead */
    for (int side = 0; side < 2; side++) {
        ck_assert_uint_eq(b->sim.conn[side].slot, old[side].slot);
        expect_dead_handle(b->sim.ep[side], old[side], b->sim.now_ns);
    }
    bulk_add(b, 1000);
    ck_assert(bulk_run(b, SIM_S(1)));
    bulk_free(b);
}
END_TEST

/* ---------- damage ---------- */

static uint64_t random_state = 99;

static uint64_t draw(uint64_t below)
{
    return prng_splitmix64(&random_state) % below;
}

/* One of the ways in which a datagram can be damaged.  Returns the new length. */
static size_t damage(uint8_t *bytes, size_t len)
{
    size_t at = draw(len);

    switch (draw(5)) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << draw(8));
        return len;
    case 1:
        return at;
    case 2:
        at = 1 + draw(40);
        memset(bytes + len, (int)draw(256), at);
        return len + at;
    case 3:
        memset(bytes + at, 0, len - at);
        return len;
    default:
        for (size_t i = at; i < len && i < at + 1 + draw(64); i++)
            bytes[i] = (uint8_t)draw(256);
        return len;
    }
}

struct mutation {
    uint64_t tried;
    uint32_t copies; /* of each datagram */
};

/* Ahead of each datagram come damaged copies of it: none may be taken. */
static bool inject_damaged(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    struct mutation *mutation = b->ctx;
    uint8_t copy[SCRATCH];

    for (uint32_t i = 0; i < mutation->copies; i++) {
        const uint64_t taken = sim_stats(&b->sim, !side).datagrams_received;
        size_t len;

        memcpy(copy, datagram->bytes, datagram->len);
        len = damage(copy, datagram->len);
        if (len == datagram->len && memcmp(copy, datagram->bytes, len) == 0)
            continue; /* zeroes over zeroes */
        inject(b, !side, copy, len);
        ck_assert_uint_eq(sim_stats(&b->sim, !side).datagrams_received, taken);
        mutation->tried++;
    }
    return true;
}

START_TEST(t54__a_million_damaged_datagrams)
{
    struct mutation mutation = {.copies = 50};
    struct bulk *b = bulk_make();
    uint64_t turned_away;

    b->config.link[0] = (struct rdt_link_config){.delay_ns = SIM_US(100), .loss = 0.02};
    b->config.link[1] = b->config.link[0];
    b->on_datagram = inject_damaged;
    b->ctx = &mutation;
    random_state = suite_seed(0);
    bulk_open(b);
    while (mutation.tried < 1000000) {
        ck_assert_uint_lt(b->count, BULK_MAX - 1);
        bulk_add(b, 300000);
        ck_assert(bulk_run(b, SIM_S(10))); /* every byte of what is delivered is checked */
    }
    turned_away = refused(b, 0) + refused(b, 1);
    ck_assert_uint_ge(turned_away, mutation.tried);
    ck_assert(!b->sim.is_closed[0]);
    bulk_free(b);
}
END_TEST

static bool flip_prefix(struct bulk *b, int side, struct rdt_arrival *datagram)
{
    uint8_t copy[SCRATCH];
    uint64_t *tried = b->ctx;

    for (size_t bit = 0; bit < 8 * FRAME_PREFIX; bit++) {
        const uint64_t taken = sim_stats(&b->sim, !side).datagrams_received;

        memcpy(copy, datagram->bytes, datagram->len);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        inject(b, !side, copy, datagram->len);
        ck_assert_uint_eq(sim_stats(&b->sim, !side).datagrams_received, taken);
        ++*tried;
    }
    return true;
}

/* Every bit of every prefix is covered; the handshake's included. */
START_TEST(t55__flipped_prefix_bits)
{
    struct bulk *b = bulk_make();
    uint64_t tried = 0;

    b->on_datagram = flip_prefix;
    b->ctx = &tried;
    bulk_open(b);
    bulk_add(b, 100000);
    ck_assert(bulk_run(b, SIM_S(1)));
    ck_assert_uint_gt(tried, 10000);
    ck_assert_uint_ge(refused(b, 0) + refused(b, 1), tried);
    bulk_free(b);
}
END_TEST

/* Nothing on the wire switches HASH off: a zero one is wrong, an unknown flag or type too. */
START_TEST(t55__hash_cannot_be_switched_off)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    struct forged f;

    for (unsigned flag = 4; flag < 256; flag *= 2) {
        const uint64_t before = sim_stats(&b->sim, 1).malformed;

        forge(b, 1, FRAME_CONFIRM, &f);
        f.frame.flags = (uint8_t)flag;
        inject_forged(b, 1, &f);
        ck_assert_uint_eq(sim_stats(&b->sim, 1).malformed, before + 1);
    }
    for (unsigned type = 0; type < 256; type++) {
        const uint64_t before = refused(b, 1);

        forge(b, 1, (enum frame_type)type, &f);
        frame_encode(&f.frame, f.bytes); /* HASH stays zero */
        inject(b, 1, f.bytes, FRAME_PREFIX);
        ck_assert_uint_eq(refused(b, 1), before + 1);
    }
    bulk_free(b);
}
END_TEST

struct heap {
    unsigned calls;
};

static void *counting_alloc(void *ctx, size_t size)
{
    struct heap *heap = ctx;
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);

    heap->calls++;
    if (memory && size < 64u << 20)
        memset(memory, 0xCC, size); /* nothing may rely on zeroes */
    return memory;
}

static void counting_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

/* Datagrams of every length up to 64, random bytes: counted, never answered. */
START_TEST(t56__short_random_datagrams)
{
    struct heap heap = {0};
    struct rdt_config config = {.size = sizeof config, .listen = true, .connections_max = 4};
    struct rdt_stats stats = {.size = sizeof stats};
    struct rdt_endpoint *ep;
    struct rdt_event event;
    struct rdt_train train;
    uint8_t bytes[64];
    static uint8_t out[65536];

    config.allocator =
        (struct rdt_allocator){.alloc = counting_alloc, .free = counting_free, .ctx = &heap};
    ck_assert_int_eq(rdt_open(&ep, &config), 0);
    for (unsigned round = 0; round < 1000; round++) {
        for (size_t len = 0; len <= 64; len++) {
            struct rdt_arrival arrival = {
                .from = rdt_addr_v4(10, 0, 0, 9, 9), .bytes = bytes, .len = len};

            for (size_t i = 0; i < len; i++)
                bytes[i] = (uint8_t)draw(256);
            if (len >= FRAME_PREFIX && round % 2 == 0) { /* let some get further */
                bytes[8] = (uint8_t)(round % 40);
                memset(bytes + 9, 0, 3);
            }
            rdt_input(ep, &arrival, SIM_MS(round));
        }
    }
    rdt_endpoint_stats(ep, &stats);
    ck_assert_uint_eq(stats.corrupt + stats.malformed + stats.stray, 65000);
    ck_assert_uint_gt(stats.corrupt, 0);
    ck_assert_uint_gt(stats.malformed, 0);
    ck_assert_uint_gt(stats.stray, 0);
    ck_assert(!rdt_next_train(ep, SIM_S(2), out, sizeof out, &train));
    ck_assert(!rdt_next_event(ep, &event));
    ck_assert_uint_eq(rdt_deadline(ep), UINT64_MAX);
    ck_assert_uint_eq(heap.calls, 1);
    rdt_free(ep);
}
END_TEST

/* ---------- peers that do not keep to the protocol ---------- */

START_TEST(t57__ack_for_what_was_never_sent)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    struct forged f;
    struct ack ack = {.range_count = 1};

    sim_run(&b->sim, b->sim.now_ns + SIM_MS(10));
    ack.ranges[0].first = conn_of(b, 1)->sent.next_seq;
    ack.ranges[0].last = ack.ranges[0].first;
    forge(b, 1, FRAME_ACK, &f);
    ack_encode(&f.body, &ack);
    inject_forged(b, 1, &f);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(1));
    ck_assert(b->sim.is_closed[0] && b->sim.is_closed[1]);
    ck_assert_int_eq(b->sim.reason[1], RDT_CLOSED_PROTOCOL);
    ck_assert_int_eq(b->sim.reason[0], RDT_CLOSED_PEER);
    bulk_free(b);
}
END_TEST

/* The last SEQ that was sent may be acknowledged. */
START_TEST(t57__ack_for_the_newest_is_fine)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    struct forged f;
    struct ack ack = {.range_count = 1};

    ack.ranges[0].first = conn_of(b, 1)->sent.next_seq - 1;
    ack.ranges[0].last = ack.ranges[0].first;
    forge(b, 1, FRAME_ACK, &f);
    ack_encode(&f.body, &ack);
    inject_forged(b, 1, &f);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(1));
    ck_assert(!b->sim.is_closed[1]);
    bulk_free(b);
}
END_TEST

/* A hundred thousand holes: memory is fixed, an ACK fits a datagram, the connection works. */
START_TEST(t58__a_hundred_thousand_holes)
{
    struct bulk *b = open_bulk(SIM_MS(1));
    struct conn *c = conn_of(b, 1);
    static uint8_t out[65536];
    struct rdt_train train;
    struct forged f;

    for (unsigned i = 0; i < 100000; i++) {
        forge(b, 1, FRAME_PING, &f);
        writer_zero(&f.body, 96 - FRAME_PREFIX);
        f.frame.seq = c->received.end + 1; /* leaves one out */
        inject_forged(b, 1, &f);
        if (i % 64 != 0)
            continue;
        while (rdt_next_train(b->sim.ep[1], b->sim.now_ns, out, sizeof out, &train))
            ck_assert_uint_le(train.len, 1452);
    }
    ck_assert_uint_eq(sim_stats(&b->sim, 1).stray, 0);
    ck_assert_uint_ge(c->received.end, 200000);
    ck_assert(!b->sim.is_closed[1]);
    bulk_free(b);
}
END_TEST

/* An ACK block may list as many ranges as the format allows; one more is malformed. */
START_TEST(t58__ack_with_the_most_ranges)
{
    for (unsigned extra = 0; extra < 2; extra++) {
        struct bulk *b = open_bulk(SIM_MS(1));
        struct forged f;

        bulk_add(b, 3u << 20);
        ck_assert(bulk_run(b, SIM_S(5)));
        forge(b, 0, FRAME_ACK, &f);
        writer_u64(&f.body, conn_of(b, 0)->sent.next_seq - 1);
        writer_zero(&f.body, ACK_FIXED - 12);
        writer_u16(&f.body, (uint16_t)(ACK_RANGES_MAX + extra));
        writer_u16(&f.body, 0);
        writer_u8(&f.body, 0);
        for (unsigned i = 1; i < ACK_RANGES_MAX + extra; i++)
            writer_u16(&f.body, 0); /* one missing, one received */
        inject_forged(b, 0, &f);
        ck_assert_uint_eq(sim_stats(&b->sim, 0).malformed, extra);
        bulk_free(b);
    }
}
END_TEST

static void put_chunk(struct forged *f, struct chunk chunk, const uint8_t *payload)
{
    writer_u32(&f->body, chunk.message_id);
    writer_u32(&f->body, chunk.message_len);
    writer_u32(&f->body, chunk.offset);
    writer_u16(&f->body, chunk.len);
    writer_u16(&f->body, chunk.ordered ? CHUNK_ORDERED : 0);
    writer_u64(&f->body, chunk.tag);
    if (payload)
        writer_bytes(&f->body, payload, chunk.len);
}

/* Crafted fragments: each is counted and dropped, and the message they aim at arrives unharmed. */
START_TEST(t06__crafted_fragments)
{
    static const struct chunk bad[] = {
        {.message_len = 1000, .offset = 1001, .len = 1},         /* begins past the end */
        {.message_len = 1000, .offset = 999, .len = 2},          /* ends past it */
        {.message_len = 1000, .offset = UINT32_MAX, .len = 2},   /* wraps around */
        {.message_len = 1000, .offset = 0, .len = 0},            /* empty, but not the message */
        {.message_len = 2000, .offset = 0, .len = 10},           /* another total */
        {.message_len = 1000, .offset = 0, .len = 10, .tag = 5}, /* another tag */
        {.message_len = 1000, .message_id = 70000, .len = 10},   /* far beyond the window */
        {.message_len = 200000, .message_id = 1, .offset = 65530, .len = 10}, /* not granted */
    };
    struct bulk *b = open_bulk(SIM_MS(1));
    uint8_t payload[1000];
    struct forged f;

    sim_fill(payload, sizeof payload, 0);
    bulk_add(b, 1000);
    b->sent = 1; /* the test itself sends it */
    forge(b, 1, FRAME_DATA, &f);
    f.frame.channel = 1;
    put_chunk(&f, (struct chunk){.message_len = 1000, .len = 500}, payload);
    inject_forged(b, 1, &f);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const uint64_t before = sim_stats(&b->sim, 1).malformed;
        uint8_t rubbish[16] = {0};

        forge(b, 1, FRAME_DATA, &f);
        f.frame.channel = 1;
        put_chunk(&f, bad[i], rubbish);
        inject_forged(b, 1, &f);
        ck_assert_msg(sim_stats(&b->sim, 1).malformed == before + 1, "fragment %zu was taken", i);
    }
    forge(b, 1, FRAME_DATA, &f); /* the header says more than the packet has */
    f.frame.channel = 1;
    put_chunk(&f, (struct chunk){.message_len = 1000, .offset = 500, .len = 500}, NULL);
    inject_forged(b, 1, &f);
    ck_assert_uint_eq(sim_stats(&b->sim, 1).malformed, sizeof bad / sizeof bad[0] + 1);
    forge(b, 1, FRAME_DATA, &f);
    f.frame.channel = 1;
    put_chunk(&f, (struct chunk){.message_len = 1000, .offset = 500, .len = 500}, payload + 500);
    inject_forged(b, 1, &f);
    sim_step(&b->sim, b->sim.now_ns + 1);
    ck_assert_uint_eq(b->delivered, 1);
    ck_assert_uint_eq(sim_stats(&b->sim, 1).messages_received, 1);
    bulk_free(b);
}
END_TEST

/* ---------- clocks ---------- */

/* The origin of time does not matter, and neither side knows the other's. */
START_TEST(t64__any_origin_of_time)
{
    static const uint64_t origins[] = {0, 1, (uint64_t)UINT32_MAX * 1000000 - 5000000,
                                       ((uint64_t)1 << 53) - 1000000,
                                       ((uint64_t)1 << 63) - 1000000};

    for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++) {
        struct bulk *b = bulk_make();

        b->config.start_ns = origins[i];
        b->config.link[0] = (struct rdt_link_config){.delay_ns = SIM_MS(3), .loss = 0.1};
        b->config.link[1] = b->config.link[0];
        bulk_open(b);
        bulk_add(b, 1 << 20);
        ck_assert(bulk_run(b, SIM_S(10)));
        sim_run(&b->sim, b->sim.now_ns + SIM_S(5));
        ck_assert(!b->sim.is_closed[0]);
        bulk_free(b);
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        t06__crafted_fragments,           t46__handle_of_an_ended_connection,
        t54__a_million_damaged_datagrams, t55__flipped_prefix_bits,
        t55__hash_cannot_be_switched_off, t56__short_random_datagrams,
        t57__ack_for_what_was_never_sent, t57__ack_for_the_newest_is_fine,
        t58__a_hundred_thousand_holes,    t58__ack_with_the_most_ranges,
        t64__any_origin_of_time,
    };

    return SUITE_MAIN(argc, argv, "case_wire", tests);
}
