/* SPDX-License-Identifier: MIT */
#include "rdt/core/rtt.h"

#include "suite.h"

static const uint64_t ms = 1000000;

START_TEST(rtt__before_a_sample_it_assumes)
{
    struct rtt rtt;

    rtt_init(&rtt);
    ck_assert_uint_eq(rtt_smoothed_ns(&rtt), RTT_INITIAL_NS);
    ck_assert_uint_eq(rtt_pto_ns(&rtt, ms), 3 * (uint64_t)RTT_INITIAL_NS + ms);
}
END_TEST

START_TEST(rtt__first_sample_is_taken_whole)
{
    struct rtt rtt;

    rtt_init(&rtt);
    rtt_sample(&rtt, 10 * ms, 0);
    ck_assert_uint_eq(rtt.smoothed_ns, 10 * ms);
    ck_assert_uint_eq(rtt.var_ns, 5 * ms);
    ck_assert_uint_eq(rtt.min_ns, 10 * ms);
    ck_assert_uint_eq(rtt_pto_ns(&rtt, 0), 30 * ms);
}
END_TEST

/* RFC 9002, 5.3: weights of 7/8 and 3/4. */
START_TEST(rtt__later_samples_are_smoothed)
{
    struct rtt rtt;

    rtt_init(&rtt);
    rtt_sample(&rtt, 8 * ms, 0);
    rtt_sample(&rtt, 16 * ms, 0);
    ck_assert_uint_eq(rtt.smoothed_ns, 9 * ms);
    ck_assert_uint_eq(rtt.var_ns, 3 * ms + 2 * ms);
    ck_assert_uint_eq(rtt.latest_ns, 16 * ms);
    ck_assert_uint_eq(rtt.min_ns, 8 * ms);
}
END_TEST

START_TEST(rtt__ack_delay_is_taken_off_but_never_below_the_minimum)
{
    struct rtt rtt;

    rtt_init(&rtt);
    rtt_sample(&rtt, 10 * ms, 5 * ms);
    ck_assert_uint_eq(rtt.latest_ns, 10 * ms);
    rtt_sample(&rtt, 14 * ms, 3 * ms);
    ck_assert_uint_eq(rtt.latest_ns, 11 * ms);
    rtt_sample(&rtt, 14 * ms, 6 * ms);
    ck_assert_uint_eq(rtt.latest_ns, 14 * ms);
}
END_TEST

START_TEST(rtt__is_never_zero)
{
    struct rtt rtt;

    rtt_init(&rtt);
    for (int i = 0; i < 100; i++)
        rtt_sample(&rtt, 0, 0);
    ck_assert_uint_ge(rtt.smoothed_ns, 1);
    ck_assert_uint_ge(rtt.min_ns, 1);
}
END_TEST

/* T25 needs it: on a path of 100 us a lost tail is probed for well within 10 ms. */
START_TEST(rtt__pto_has_no_floor_beyond_granularity)
{
    struct rtt rtt;

    rtt_init(&rtt);
    for (int i = 0; i < 100; i++)
        rtt_sample(&rtt, 100000, 0);
    ck_assert_uint_ge(rtt_pto_ns(&rtt, 0), 100000 + RTT_GRANULARITY_NS);
    ck_assert_uint_lt(rtt_pto_ns(&rtt, 0), 200000);
}
END_TEST

/* T64: only differences of times come in, but they may be huge. */
START_TEST(rtt__huge_samples_do_not_overflow)
{
    struct rtt rtt;

    rtt_init(&rtt);
    rtt_sample(&rtt, 3600000 * ms, 0);
    rtt_sample(&rtt, 1, 0);
    rtt_sample(&rtt, 3600000 * ms, 1000 * ms);
    ck_assert_uint_gt(rtt_pto_ns(&rtt, 0), rtt.smoothed_ns);
    ck_assert_uint_lt(rtt_pto_ns(&rtt, 0), 5 * 3600000 * ms);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        rtt__before_a_sample_it_assumes,
        rtt__first_sample_is_taken_whole,
        rtt__later_samples_are_smoothed,
        rtt__ack_delay_is_taken_off_but_never_below_the_minimum,
        rtt__is_never_zero,
        rtt__pto_has_no_floor_beyond_granularity,
        rtt__huge_samples_do_not_overflow,
    };

    return SUITE_MAIN(argc, argv, "rtt", tests);
}
