/* SPDX-License-Identifier: MIT */
/*
 * Cases about messages, their sizes and their memory; named after the promise they keep.
 */
#include "sim_bulk.h"
#include "suite.h"

/* A message many times the receive window arrives whole. */
START_TEST(t01__messages_larger_than_the_window)
{
    static const size_t hundredths[] = {100, 101, 400, 10000};
    struct bulk *b = bulk_make();

    b->config.endpoint[1].pool_message_max = 4096;
    b->config.endpoint[1].pool_bytes = 65536;
    b->config.link[0] = (struct rdt_link_config){.delay_ns = SIM_MS(1), .loss = 0.05};
    b->config.link[1] = b->config.link[0];
    bulk_open(b);
    for (size_t i = 0; i < 4; i++)
        bulk_add(b, 65536 * hundredths[i] / 100);
    for (size_t i = 0; i < 100; i++)
        bulk_add(b, 4096); /* together six times the pool, never posted */
    ck_assert(bulk_run(b, SIM_S(20)));
    ck_assert_uint_eq(sim_stats(&b->sim, 1).pool_full, 0);
    bulk_free(b);
}
END_TEST

/* A send that fails leaves no trace; what comes after is intact. */
START_TEST(t02__a_failed_send_queues_nothing)
{
    struct bulk *b = bulk_make();
    uint8_t byte = 7;
    struct rdt_message bad = {.body = &byte, .body_len = 1, .user = &byte};

    b->config.endpoint[0].messages_max = 2;
    b->config.link[0].delay_ns = SIM_MS(1);
    bulk_open(b);
    bad.body_len = SIZE_MAX;
    ck_assert_int_eq(rdt_send(b->sim.ep[0], b->sim.conn[0], &bad, 0), RDT_EMSGSIZE);
    bad.body_len = 1;
    bad.channel = RDT_CHANNELS;
    ck_assert_int_eq(rdt_send(b->sim.ep[0], b->sim.conn[0], &bad, 0), RDT_EINVAL);
    bad.channel = 0;
    bad.head_len = RDT_HEAD_MAX + 1;
    ck_assert_int_eq(rdt_send(b->sim.ep[0], b->sim.conn[0], &bad, 0), RDT_EINVAL);
    bad.head_len = 0;
    bad.kind = (enum rdt_kind)1;
    ck_assert_int_eq(rdt_send(b->sim.ep[0], b->sim.conn[0], &bad, 0), RDT_EINVAL);
    for (size_t i = 0; i < 20; i++)
        bulk_add(b, 1000 * i); /* most of them fail with RDT_EAGAIN first */
    ck_assert(bulk_run(b, SIM_S(1)));
    ck_assert_uint_gt(b->again, 0);
    ck_assert_uint_eq(sim_stats(&b->sim, 1).messages_received, 20);
    bulk_free(b);
}
END_TEST

struct failing_heap {
    unsigned calls;
    unsigned fails_at;
};

static void *failing_alloc(void *ctx, size_t size)
{
    struct failing_heap *heap = ctx;

    return heap->calls++ == heap->fails_at ? NULL : aligned_alloc(64, (size + 63) / 64 * 64);
}

static void failing_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

/* Opening fails cleanly whichever allocation does, and nothing is allocated after it. */
START_TEST(t02__every_allocation_may_fail)
{
    struct failing_heap heap = {.fails_at = 0};
    struct rdt_config config = {.size = sizeof config, .listen = true};
    struct rdt_endpoint *ep = NULL;

    config.allocator =
        (struct rdt_allocator){.alloc = failing_alloc, .free = failing_free, .ctx = &heap};
    while (rdt_open(&ep, &config) != 0) {
        ck_assert_ptr_null(ep);
        ck_assert_uint_lt(heap.fails_at, 100);
        heap = (struct failing_heap){.fails_at = heap.fails_at + 1};
    }
    ck_assert_uint_gt(heap.fails_at, 0);
    rdt_free(ep);
}
END_TEST

/* Sizes at the edges of a fragment, of the counters and of the pool. */
START_TEST(t03__sizes_at_the_edges)
{
    const size_t part = 1452 - 24 - 24;
    struct bulk *b = bulk_make();

    b->config.link[0] = (struct rdt_link_config){.delay_ns = SIM_US(100), .loss = 0.02};
    b->config.link[1] = b->config.link[0];
    bulk_open(b);
    for (size_t near = 0; near < 3; near++) {
        bulk_add(b, near);
        bulk_add(b, part - 1 + near);
        bulk_add(b, 1452 - 1 + near);
        bulk_add(b, 127 * part - 1 + near);
        bulk_add(b, 255 * part - 1 + near);
        bulk_add(b, 256 * part - 1 + near);
        bulk_add(b, 65535 + near);
    }
    bulk_add(b, 1 << 20);
    ck_assert(bulk_run(b, SIM_S(10)));
    bulk_free(b);
}
END_TEST

START_TEST(t03__sixty_four_mebibytes)
{
    struct bulk *b = bulk_make();

    b->config.link[0] = (struct rdt_link_config){.delay_ns = SIM_US(100), .loss = 0.01};
    b->config.link[1] = b->config.link[0];
    bulk_open(b);
    bulk_add(b, 64u << 20);
    ck_assert(bulk_run(b, SIM_S(20)));
    bulk_free(b);
}
END_TEST

START_TEST(t03__five_gibibytes_are_an_error)
{
    static const uint8_t byte; /* never read: the size alone is wrong */
    struct rdt_message message = {.body = &byte, .body_len = (size_t)5 << 30};
    struct bulk *b = bulk_make();

    bulk_open(b);
    ck_assert_int_eq(rdt_send(b->sim.ep[0], b->sim.conn[0], &message, 0), RDT_EMSGSIZE);
    message.body_len = RDT_MESSAGE_MAX;
    message.head = b;
    message.head_len = 1;
    ck_assert_int_eq(rdt_send(b->sim.ep[0], b->sim.conn[0], &message, 0), RDT_EMSGSIZE);
    bulk_add(b, 10);
    ck_assert(bulk_run(b, SIM_S(1)));
    bulk_free(b);
}
END_TEST

/* A producer faster than the link is told to wait, and told once when it may go on. */
START_TEST(t12__producer_faster_than_the_link)
{
    struct bulk *b = bulk_make();

    b->config.endpoint[0].send_bytes_max = 100000;
    b->config.link[0] = (struct rdt_link_config){.delay_ns = SIM_MS(5), .rate_bps = 20000000};
    b->config.link[1].delay_ns = SIM_MS(5);
    bulk_open(b);
    for (size_t i = 0; i < 200; i++)
        bulk_add(b, 20000);
    ck_assert(bulk_run(b, SIM_S(10)));
    ck_assert_uint_gt(b->again, 50);
    ck_assert_uint_eq(b->writable, b->again);
    bulk_free(b);
}
END_TEST

/* A receiver that does not look for ten seconds stalls the sender; nothing is lost. */
START_TEST(t13__receiver_asleep_for_ten_seconds)
{
    struct bulk *b = bulk_make();
    struct rdt_stats asleep;

    b->config.link[0].delay_ns = SIM_US(100);
    b->config.link[1].delay_ns = SIM_US(100);
    bulk_open(b);
    for (size_t i = 0; i < 1000; i++)
        bulk_add(b, 60000);
    b->sim.is_deaf[1] = true;
    sim_run(&b->sim, b->sim.now_ns + SIM_S(10));
    ck_assert(!b->sim.is_closed[0]);
    asleep = sim_stats(&b->sim, 0);
    ck_assert_uint_eq(asleep.lost, 0);
    ck_assert_uint_lt(asleep.payload_sent, 8u << 20);
    ck_assert_uint_eq(sim_stats(&b->sim, 1).pool_full, 0);
    b->sim.is_deaf[1] = false;
    ck_assert(bulk_run(b, SIM_S(10)));
    ck_assert_uint_eq(sim_stats(&b->sim, 0).payload_retransmitted, 0);
    bulk_free(b);
}
END_TEST

/* The same when the program takes its events but keeps the memory. */
START_TEST(t13__receiver_keeps_what_it_got)
{
    struct bulk *b = bulk_make();
    uint32_t kept;

    b->config.link[0].delay_ns = SIM_US(100);
    b->config.link[1].delay_ns = SIM_US(100);
    b->keep = true;
    bulk_open(b);
    for (size_t i = 0; i < 500; i++)
        bulk_add(b, 60000);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(10));
    kept = b->delivered;
    ck_assert_uint_gt(kept, 1);
    ck_assert_uint_lt(kept, 140); /* 8 MiB of pool */
    bulk_give_back(b);
    ck_assert(bulk_run(b, SIM_S(10)));
    ck_assert_uint_eq(sim_stats(&b->sim, 1).pool_full, 0);
    ck_assert_uint_eq(sim_stats(&b->sim, 0).payload_retransmitted, 0);
    bulk_free(b);
}
END_TEST

/* An offer that nobody answers holds up nothing but itself. */
START_TEST(t13__unanswered_offer_blocks_nobody)
{
    struct bulk *b = bulk_make();

    b->config.link[0].delay_ns = SIM_US(100);
    b->no_post = true;
    bulk_open(b);
    bulk_add(b, 1 << 20);
    for (size_t i = 0; i < 100; i++)
        bulk_add(b, 30000);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(2));
    ck_assert_uint_eq(b->offered, 1);
    ck_assert_uint_eq(b->delivered, 100);
    bulk_free(b);
}
END_TEST

/* Both sides blocked by the other's window, and idle: nothing but keep-alives. */
START_TEST(t16__blocked_and_idle_is_silent)
{
    struct bulk *b = bulk_make();
    uint64_t before;

    b->config.link[0].delay_ns = SIM_MS(1);
    b->config.link[1].delay_ns = SIM_MS(1);
    b->keep = true;
    bulk_open(b);
    for (size_t i = 0; i < 200; i++)
        bulk_add(b, 60000);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(2));
    before = b->sim.datagrams;
    sim_run(&b->sim, b->sim.now_ns + SIM_S(10));
    ck_assert_uint_le(b->sim.datagrams - before, 2 * 2 * 20);
    bulk_free(b);
}
END_TEST

/* Bodies are poisoned when they are released (sim_bulk.c): each once, after it was acknowledged. */
START_TEST(t52__poison_at_release_under_loss)
{
    struct bulk *b = bulk_make();

    b->config.link[0] = (struct rdt_link_config){
        .delay_ns = SIM_MS(2), .loss = 0.1, .duplicate = 0.05, .reorder = 0.1};
    b->config.link[1] = b->config.link[0];
    bulk_open(b);
    for (size_t i = 0; i < 100; i++)
        bulk_add(b, i * i * 10);
    ck_assert(bulk_run(b, SIM_S(20)));
    for (uint32_t i = 0; i < b->count; i++)
        ck_assert_int_eq(b->messages[i].status, RDT_OK);
    bulk_free(b);
}
END_TEST

/* What the peer never acknowledged comes back as aborted, once. */
START_TEST(t52__abort_releases_everything_once)
{
    struct bulk *b = bulk_make();
    uint32_t aborted = 0;

    b->config.link[0] = (struct rdt_link_config){.delay_ns = SIM_MS(2), .rate_bps = 50000000};
    b->config.link[1].delay_ns = SIM_MS(2);
    bulk_open(b);
    for (size_t i = 0; i < 100; i++)
        bulk_add(b, 1000 * i);
    sim_run(&b->sim, b->sim.now_ns + SIM_MS(100));
    ck_assert_int_eq(rdt_abort(b->sim.ep[0], b->sim.conn[0], b->sim.now_ns), 0);
    sim_run(&b->sim, b->sim.now_ns + SIM_S(1));
    ck_assert_uint_eq(b->released, b->sent);
    for (uint32_t i = 0; i < b->sent; i++)
        aborted += b->messages[i].status == RDT_ABORTED;
    ck_assert_uint_gt(aborted, 0);
    ck_assert_uint_lt(aborted, 100);
    ck_assert(b->sim.is_closed[0] && b->sim.is_closed[1]);
    ck_assert_int_eq(b->sim.reason[1], RDT_CLOSED_PEER);
    bulk_free(b);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        t01__messages_larger_than_the_window,
        t02__a_failed_send_queues_nothing,
        t02__every_allocation_may_fail,
        t03__sizes_at_the_edges,
        t03__sixty_four_mebibytes,
        t03__five_gibibytes_are_an_error,
        t12__producer_faster_than_the_link,
        t13__receiver_asleep_for_ten_seconds,
        t13__receiver_keeps_what_it_got,
        t13__unanswered_offer_blocks_nobody,
        t16__blocked_and_idle_is_silent,
        t52__poison_at_release_under_loss,
        t52__abort_releases_everything_once,
    };

    return SUITE_MAIN(argc, argv, "case_messages", tests);
}
