/* SPDX-License-Identifier: MIT */
#include "rdt/core/rate.h"

#include "suite.h"

static const uint64_t ms = 1000000;

struct bench {
    struct rate rate;
    struct sent_record records[16];
};

static void send(struct bench *b, size_t i, uint64_t now_ns, uint64_t in_flight_before)
{
    b->records[i] = (struct sent_record){.seq = i, .sent_ns = now_ns, .bytes = 1000};
    rate_on_sent(&b->rate, &b->records[i], in_flight_before);
}

static struct rate_sample ack(struct bench *b, size_t i, uint64_t now_ns, uint64_t min_rtt_ns)
{
    struct rate_sample sample = {.rate_bps = 0};

    rate_on_acked(&b->rate, &b->records[i], &sample, now_ns);
    rate_finish(&b->rate, &sample, min_rtt_ns);
    return sample;
}

/* Ten packets a millisecond apart through a path of 5 ms: a million bytes a second. */
START_TEST(rate__is_what_arrives_in_a_round_trip)
{
    struct bench b = {.records = {{0}}};
    struct rate_sample sample = {.rate_bps = 0};

    rate_init(&b.rate);
    for (size_t i = 0; i < 5; i++)
        send(&b, i, i * ms, i * 1000);
    for (size_t i = 0; i < 10; i++) {
        sample = ack(&b, i, (i + 5) * ms, 5 * ms);
        if (i + 5 < 10)
            send(&b, i + 5, (i + 5) * ms, 4000);
    }
    ck_assert_uint_eq(sample.rate_bps, 1000000);
    ck_assert_uint_eq(sample.acked_bytes, 1000);
    ck_assert(!sample.app_limited);
}
END_TEST

/* The receiver acknowledged a second's worth at once: the pace of sending is what counts. */
START_TEST(rate__lumps_of_acknowledgements_do_not_inflate_it)
{
    struct bench b = {.records = {{0}}};
    struct rate_sample sample = {.rate_bps = 0};

    rate_init(&b.rate);
    for (size_t i = 0; i < 10; i++)
        send(&b, i, i * 100 * ms, i * 1000);
    for (size_t i = 0; i < 10; i++)
        rate_on_acked(&b.rate, &b.records[i], &sample, 905 * ms);
    rate_finish(&b.rate, &sample, 5 * ms);
    ck_assert_uint_le(sample.rate_bps, 10000 * 1000 / 900);
}
END_TEST

START_TEST(rate__interval_below_the_shortest_round_trip_is_no_sample)
{
    struct bench b = {.records = {{0}}};

    rate_init(&b.rate);
    send(&b, 0, 0, 0);
    ck_assert_uint_eq(ack(&b, 0, 3 * ms, 5 * ms).rate_bps, 0);
    send(&b, 1, 10 * ms, 0);
    ck_assert_uint_eq(ack(&b, 1, 10 * ms, 0).rate_bps, 0);
}
END_TEST

START_TEST(rate__an_idle_sender_says_so)
{
    struct bench b = {.records = {{0}}};

    rate_init(&b.rate);
    rate_on_app_limited(&b.rate, 0);
    send(&b, 0, 0, 0);
    send(&b, 1, 0, 1000);
    ck_assert(ack(&b, 0, 5 * ms, 0).app_limited);
    send(&b, 2, 5 * ms, 1000);
    ck_assert(ack(&b, 1, 6 * ms, 0).app_limited);
    ck_assert(!ack(&b, 2, 10 * ms, 0).app_limited);
}
END_TEST

START_TEST(rate__arithmetic_does_not_overflow)
{
    ck_assert_uint_eq(rate_per_second(1000, ms), 1000000);
    ck_assert_uint_eq(rate_per_second(UINT64_MAX, 1), UINT64_MAX);
    ck_assert_uint_eq(rate_per_second(UINT64_MAX, 1000000000), UINT64_MAX);
    ck_assert_uint_eq(rate_bytes_in(1000000000000, 1000000000), 1000000000000);
    ck_assert_uint_eq(rate_bytes_in(UINT64_MAX, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(rate_time_of(125000000, 1250), 10000);
    ck_assert_uint_eq(rate_time_of(1, UINT64_MAX), UINT64_MAX);
    /* 2^40 bytes in an hour, exact to a millionth */
    ck_assert_uint_le(rate_per_second((uint64_t)1 << 40, 3600 * 1000 * ms) - 305419896, 305);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        rate__is_what_arrives_in_a_round_trip,
        rate__lumps_of_acknowledgements_do_not_inflate_it,
        rate__interval_below_the_shortest_round_trip_is_no_sample,
        rate__an_idle_sender_says_so,
        rate__arithmetic_does_not_overflow,
    };

    return SUITE_MAIN(argc, argv, "rate", tests);
}
