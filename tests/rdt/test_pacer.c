/* SPDX-License-Identifier: MIT */
#include "rdt/core/pacer.h"

#include "suite.h"

static const uint64_t ms = 1000000;

enum { DATAGRAM = 1452, TRAIN = 44 * DATAGRAM };

static struct pacer make(uint64_t rate_bps)
{
    const struct pacer_config config = {
        .rate_bps = rate_bps, .datagram_bytes = DATAGRAM, .train_bytes = TRAIN};
    struct pacer pacer;

    pacer_init(&pacer);
    pacer_set(&pacer, &config);
    return pacer;
}

START_TEST(pacer__without_a_rate_holds_nothing_back)
{
    struct pacer pacer = make(0);

    pacer_spend(&pacer, 1000000, 5);
    ck_assert_uint_eq(pacer_budget(&pacer, 5), UINT64_MAX);
    ck_assert_uint_eq(pacer_deadline(&pacer), 0);
}
END_TEST

START_TEST(pacer__burst_is_two_milliseconds_within_limits)
{
    struct pacer slow = make(125000);       /* 1 Mbit/s */
    struct pacer medium = make(12500000);   /* 100 Mbit/s */
    struct pacer fast = make(12500000000u); /* 100 Gbit/s */

    ck_assert_uint_eq(pacer_budget(&slow, ms), 2 * DATAGRAM);
    ck_assert_uint_eq(pacer_budget(&medium, ms), 25000);
    ck_assert_uint_eq(pacer_budget(&fast, ms), TRAIN);
}
END_TEST

START_TEST(pacer__next_burst_waits_as_long_as_the_last_one_takes)
{
    struct pacer pacer = make(1000000); /* a byte a microsecond */
    uint64_t now = 1000 * ms;

    pacer_spend(&pacer, 2 * DATAGRAM, now);
    pacer_spend(&pacer, 2 * DATAGRAM, now);
    ck_assert_uint_eq(pacer_budget(&pacer, now), 0);
    ck_assert_uint_eq(pacer_deadline(&pacer), now + 2 * DATAGRAM * 1000);
    ck_assert_uint_eq(pacer_budget(&pacer, pacer_deadline(&pacer) - 1), 0);
    ck_assert_uint_gt(pacer_budget(&pacer, pacer_deadline(&pacer)), 0);
}
END_TEST

/* Whoever comes late at every deadline still gets the rate; whoever pauses gets two bursts. */
START_TEST(pacer__rate_is_kept_over_time)
{
    struct pacer pacer = make(10000000);
    uint64_t now = 1000 * ms;
    uint64_t sent = 0;

    while (now < 2000 * ms) {
        const uint64_t budget = pacer_budget(&pacer, now);

        sent += budget;
        if (budget > 0)
            pacer_spend(&pacer, budget, now);
        now += 300000; /* a coarse timer */
    }
    ck_assert_uint_ge(sent, 9900000);
    ck_assert_uint_le(sent, 10000000 + 2 * 20000);
    now += 60000 * ms;
    sent = 0;
    while (pacer_budget(&pacer, now) > 0) {
        sent += pacer_budget(&pacer, now);
        pacer_spend(&pacer, pacer_budget(&pacer, now), now);
    }
    ck_assert_uint_le(sent, 2 * 20000);
}
END_TEST

START_TEST(pacer__starts_at_any_time)
{
    const uint64_t starts[] = {0, 1, (uint64_t)1 << 32, (uint64_t)1 << 53, UINT64_MAX / 2};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct pacer pacer = make(1000000);

        ck_assert_uint_gt(pacer_budget(&pacer, starts[i]), 0);
        pacer_spend(&pacer, 4 * DATAGRAM, starts[i]);
        ck_assert_uint_eq(pacer_budget(&pacer, starts[i]), 0);
        ck_assert_uint_gt(pacer_budget(&pacer, starts[i] + 10 * ms), 0);
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        pacer__without_a_rate_holds_nothing_back,
        pacer__burst_is_two_milliseconds_within_limits,
        pacer__next_burst_waits_as_long_as_the_last_one_takes,
        pacer__rate_is_kept_over_time,
        pacer__starts_at_any_time,
    };

    return SUITE_MAIN(argc, argv, "pacer", tests);
}
