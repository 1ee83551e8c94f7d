/* SPDX-License-Identifier: MIT */
#include "rdt/core/loss.h"

#include "suite.h"

enum { CAPACITY = 4096 };

static const uint64_t ms = 1000000;

struct bench { /* a sender with some packets out, one every 10 us, on a path of 8 ms */
    struct sent sent;
    struct rtt rtt;
    struct loss loss;
    void *ring;
};

static void bench_open(struct bench *b, int packets)
{
    b->ring = aligned_alloc(64, (sent_bytes(CAPACITY) + 63) / 64 * 64);
    ck_assert_ptr_nonnull(b->ring);
    sent_init(&b->sent, b->ring, CAPACITY, 0);
    rtt_init(&b->rtt);
    rtt_sample(&b->rtt, 8 * ms, 0);
    loss_init(&b->loss);
    for (int i = 0; i < packets; i++)
        sent_add(&b->sent, 1000, (uint64_t)i * 10000);
}

static void bench_ack(struct bench *b, uint64_t seq)
{
    sent_on_acked(&b->sent, sent_find(&b->sent, seq));
}

static uint64_t next_lost(struct bench *b, uint64_t now_ns)
{
    const struct sent_record *record = loss_next(&b->loss, &b->sent, &b->rtt, now_ns);

    return record ? record->seq : UINT64_MAX;
}

START_TEST(loss__nothing_is_lost_before_a_later_ack)
{
    struct bench b;

    bench_open(&b, 10);
    ck_assert_uint_eq(next_lost(&b, 1000 * ms), UINT64_MAX);
    ck_assert_uint_eq(b.loss.deadline_ns, UINT64_MAX);
    bench_ack(&b, 0);
    ck_assert_uint_eq(next_lost(&b, 1000 * ms), UINT64_MAX);
    free(b.ring);
}
END_TEST

START_TEST(loss__three_packets_behind_is_lost_and_two_is_not)
{
    struct bench b;

    bench_open(&b, 10);
    bench_ack(&b, 2);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), UINT64_MAX);
    bench_ack(&b, 3);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), 0);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), UINT64_MAX);
    ck_assert_int_eq(sent_find(&b.sent, 0)->state, SENT_LOST);
    free(b.ring);
}
END_TEST

START_TEST(loss__time_threshold_finds_the_rest)
{
    struct bench b;

    bench_open(&b, 10);
    bench_ack(&b, 1);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), UINT64_MAX);
    ck_assert_uint_eq(b.loss.deadline_ns, 9 * ms);
    ck_assert_uint_eq(next_lost(&b, 9 * ms - 1), UINT64_MAX);
    ck_assert_uint_eq(next_lost(&b, 9 * ms), 0);
    ck_assert_uint_eq(next_lost(&b, 9 * ms), UINT64_MAX);
    ck_assert_uint_eq(b.loss.deadline_ns, UINT64_MAX);
    free(b.ring);
}
END_TEST

START_TEST(loss__time_threshold_follows_a_late_sample)
{
    struct bench b;

    bench_open(&b, 10);
    rtt_sample(&b.rtt, 16 * ms, 0);
    bench_ack(&b, 1);
    ck_assert_uint_eq(next_lost(&b, 10 * ms), UINT64_MAX);
    ck_assert_uint_eq(b.loss.deadline_ns, 18 * ms);
    free(b.ring);
}
END_TEST

/* A lost repeat is a packet like any other: it has a SEQ of its own. */
START_TEST(loss__all_of_a_burst_are_found_in_order)
{
    struct bench b;

    bench_open(&b, 100);
    bench_ack(&b, 99);
    for (uint64_t seq = 0; seq <= 96; seq++)
        ck_assert_uint_eq(next_lost(&b, 8 * ms), seq);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), UINT64_MAX);
    ck_assert_uint_eq(b.sent.in_flight_count, 2);
    free(b.ring);
}
END_TEST

START_TEST(loss__spurious_losses_raise_both_thresholds)
{
    struct bench b;

    bench_open(&b, 100);
    bench_ack(&b, 20);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), 0);
    loss_on_spurious(&b.loss, &b.sent, &b.rtt, sent_find(&b.sent, 0), 12 * ms);
    bench_ack(&b, 0);
    ck_assert_uint_eq(b.loss.packets, 21);
    ck_assert_uint_eq(b.loss.eighths, 12);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), UINT64_MAX);
    bench_ack(&b, 21);
    bench_ack(&b, 22);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), 1);
    free(b.ring);
}
END_TEST

START_TEST(loss__thresholds_have_a_limit)
{
    struct bench b;

    bench_open(&b, CAPACITY);
    bench_ack(&b, CAPACITY - 1);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), 0);
    loss_on_spurious(&b.loss, &b.sent, &b.rtt, sent_find(&b.sent, 0), 100000 * ms);
    ck_assert_uint_eq(b.loss.packets, LOSS_PACKETS_MAX);
    ck_assert_uint_eq(b.loss.eighths, LOSS_EIGHTHS_MAX);
    free(b.ring);
}
END_TEST

START_TEST(loss__thresholds_shrink_when_losses_are_real)
{
    struct bench b;

    bench_open(&b, CAPACITY);
    bench_ack(&b, 103);
    ck_assert_uint_eq(next_lost(&b, 8 * ms), 0);
    loss_on_spurious(&b.loss, &b.sent, &b.rtt, sent_find(&b.sent, 0), 12 * ms);
    bench_ack(&b, 0);
    ck_assert_uint_eq(b.loss.packets, 104);
    bench_ack(&b, CAPACITY - 1);
    for (int i = 0; i < 20 * LOSS_CALM; i++)
        ck_assert_uint_ne(next_lost(&b, 8 * ms), UINT64_MAX);
    ck_assert_uint_eq(b.loss.packets, LOSS_PACKETS);
    ck_assert_uint_eq(b.loss.eighths, LOSS_EIGHTHS);
    free(b.ring);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        loss__nothing_is_lost_before_a_later_ack,
        loss__three_packets_behind_is_lost_and_two_is_not,
        loss__time_threshold_finds_the_rest,
        loss__time_threshold_follows_a_late_sample,
        loss__all_of_a_burst_are_found_in_order,
        loss__spurious_losses_raise_both_thresholds,
        loss__thresholds_have_a_limit,
        loss__thresholds_shrink_when_losses_are_real,
    };

    return SUITE_MAIN(argc, argv, "loss", tests);
}
