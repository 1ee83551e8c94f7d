/* SPDX-License-Identifier: MIT */
#include "rdt/core/ranges.h"

#include "rdt/core/prng.h"
#include "suite.h"

START_TEST(ranges__starts_empty)
{
    struct ranges set;
    struct range out[4];

    ranges_init(&set);
    ck_assert_uint_eq(ranges_newest(&set, out, 4), 0);
    ck_assert(!ranges_has_gap(&set));
    ck_assert_int_eq(ranges_check(&set, 0), RANGES_NEW);
}
END_TEST

START_TEST(ranges__duplicate_is_found)
{
    struct ranges set;

    ranges_init(&set);
    ck_assert_int_eq(ranges_add(&set, 7), RANGES_NEW);
    ck_assert_int_eq(ranges_check(&set, 7), RANGES_DUPLICATE);
    ck_assert_int_eq(ranges_add(&set, 7), RANGES_DUPLICATE);
    ck_assert_int_eq(ranges_add(&set, 6), RANGES_NEW);
    ck_assert_int_eq(ranges_add(&set, 6), RANGES_DUPLICATE);
}
END_TEST

/* The window must hold 8192 packets: a late one is told from a repeated one that far back. */
START_TEST(ranges__window_reaches_back_8192_packets)
{
    enum { FAR = 8192 };
    struct ranges set;

    ck_assert_int_ge(RANGES_WINDOW, FAR);
    ranges_init(&set);
    ranges_add(&set, 0);
    ranges_add(&set, FAR);
    ck_assert_int_eq(ranges_check(&set, 0), RANGES_DUPLICATE);
    ck_assert_int_eq(ranges_add(&set, 1), RANGES_NEW);
    ranges_add(&set, RANGES_WINDOW);
    ck_assert_int_eq(ranges_check(&set, 0), RANGES_STALE);
    ck_assert_int_eq(ranges_check(&set, 1), RANGES_DUPLICATE);
}
END_TEST

START_TEST(ranges__forgotten_is_stale)
{
    struct ranges set;
    struct range out[4];

    ranges_init(&set);
    for (uint64_t seq = 0; seq < 100; seq += 2)
        ranges_add(&set, seq);
    ck_assert(ranges_has_gap(&set));
    ranges_forget_below(&set, 97);
    ck_assert_int_eq(ranges_check(&set, 96), RANGES_STALE);
    ck_assert_int_eq(ranges_check(&set, 97), RANGES_NEW);
    ck_assert_uint_eq(ranges_newest(&set, out, 4), 1);
    ck_assert_uint_eq(out[0].first, 98);
    ck_assert(ranges_has_gap(&set));
    ranges_add(&set, 97);
    ck_assert(!ranges_has_gap(&set));
    ranges_forget_below(&set, 50);
    ck_assert_int_eq(ranges_check(&set, 60), RANGES_STALE);
    ranges_forget_below(&set, 1000);
    ck_assert_uint_eq(ranges_newest(&set, out, 4), 0);
    ck_assert_int_eq(ranges_add(&set, 999), RANGES_STALE);
    ck_assert_int_eq(ranges_add(&set, 1000), RANGES_NEW);
    ck_assert_uint_eq(ranges_newest(&set, out, 4), 1);
    ck_assert_uint_eq(out[0].first, 1000);
}
END_TEST

START_TEST(ranges__newest_come_first_and_older_ones_are_cut)
{
    struct ranges set;
    struct range out[2];

    ranges_init(&set);
    ranges_add(&set, 1);
    ranges_add(&set, 5);
    ranges_add(&set, 6);
    ranges_add(&set, 9);
    ck_assert_uint_eq(ranges_newest(&set, out, 2), 2);
    ck_assert_uint_eq(out[0].first, 9);
    ck_assert_uint_eq(out[0].last, 9);
    ck_assert_uint_eq(out[1].first, 5);
    ck_assert_uint_eq(out[1].last, 6);
    ck_assert_uint_eq(ranges_newest(&set, out, 0), 0);
}
END_TEST

START_TEST(ranges__largest_number_is_refused)
{
    struct ranges set;
    struct range out[1];

    ranges_init(&set);
    ck_assert_int_eq(ranges_add(&set, UINT64_MAX), RANGES_STALE);
    ck_assert_int_eq(ranges_add(&set, UINT64_MAX - 1), RANGES_NEW);
    ck_assert_int_eq(ranges_add(&set, 0), RANGES_STALE);
    ck_assert_uint_eq(ranges_newest(&set, out, 1), 1);
    ck_assert_uint_eq(out[0].last, UINT64_MAX - 1);
}
END_TEST

/* ---------- against an oracle: one byte per number, searched the slow way ---------- */

enum { UNIVERSE = 60000 };

struct oracle {
    uint8_t has[UNIVERSE];
    uint64_t end;
    uint64_t floor;
};

static uint64_t oracle_low(const struct oracle *o)
{
    const uint64_t window = o->end > RANGES_WINDOW ? o->end - RANGES_WINDOW : 0;

    return window > o->floor ? window : o->floor;
}

static enum ranges_verdict oracle_add(struct oracle *o, uint64_t seq)
{
    if (seq < oracle_low(o))
        return RANGES_STALE;
    if (o->has[seq])
        return RANGES_DUPLICATE;
    o->has[seq] = 1;
    if (seq >= o->end)
        o->end = seq + 1;
    return RANGES_NEW;
}

static size_t oracle_newest(const struct oracle *o, struct range *out, size_t max)
{
    const uint64_t low = oracle_low(o);
    size_t count = 0;
    uint64_t at = o->end;

    while (at > low && count < max) {
        at--;
        if (!o->has[at])
            continue;
        out[count].last = at;
        while (at > low && o->has[at - 1])
            at--;
        out[count++].first = at;
    }
    return count;
}

static void compare(const struct ranges *set, const struct oracle *o)
{
    static struct range ours[300];
    static struct range theirs[300];
    const size_t count = ranges_newest(set, ours, 300);
    bool gap = false;

    ck_assert_uint_eq(count, oracle_newest(o, theirs, 300));
    for (size_t i = 0; i < count; i++) {
        if (ours[i].first != theirs[i].first || ours[i].last != theirs[i].last)
            ck_abort_msg("range %zu of %zu differs", i, count);
    }
    for (uint64_t at = oracle_low(o); at < o->end; at++)
        gap = gap || !o->has[at];
    ck_assert_int_eq(ranges_has_gap(set), gap);
}

/* Where the next packet comes from: mostly in order, sometimes late, early or far away. */
static uint64_t pick(const struct oracle *o, uint64_t *random)
{
    const uint64_t roll = prng_splitmix64(random) % 100;
    const uint64_t back = prng_splitmix64(random) % (roll < 90 ? 100 : 20000);
    uint64_t seq = o->end;

    if (roll < 50)
        return seq;
    if (roll < 70)
        return seq + back % 5;
    if (roll == 99)
        return seq + back % 700;
    return seq > back ? seq - back : 0;
}

START_TEST(ranges__agrees_with_an_oracle)
{
    static struct oracle o;

    for (uint64_t n = 0; n < 20; n++) {
        struct ranges set;
        uint64_t random = suite_seed(n);

        ranges_init(&set);
        memset(&o, 0, sizeof o);
        for (int step = 0; o.end < UNIVERSE - 1000; step++) {
            const uint64_t seq = pick(&o, &random);

            if (ranges_add(&set, seq) != oracle_add(&o, seq))
                ck_abort_msg("seed %llu, step %d", suite_seed(n), step);
            if (prng_splitmix64(&random) % 200 == 0) {
                const uint64_t floor = o.end - prng_splitmix64(&random) % 3000;

                ranges_forget_below(&set, floor < UNIVERSE ? floor : 0);
                if (floor < UNIVERSE && floor > o.floor)
                    o.floor = floor;
            }
            if (step % 500 == 0)
                compare(&set, &o);
        }
    }
}
END_TEST

/* T58: 10^5 holes cost fixed memory, and a list costs a bounded scan. */
START_TEST(ranges__T58_many_holes_stay_bounded)
{
    static struct range out[RANGES_WINDOW];
    struct ranges set;

    ranges_init(&set);
    for (uint64_t hole = 0; hole < 100000; hole++)
        ranges_add(&set, 2 * hole);
    ck_assert_uint_eq(ranges_newest(&set, out, RANGES_WINDOW), RANGES_WINDOW / 2);
    ck_assert_uint_eq(out[0].first, 199998);
    ck_assert_uint_eq(out[1].last, 199996);
    ck_assert_uint_le(sizeof set, 4096);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        ranges__starts_empty,
        ranges__duplicate_is_found,
        ranges__window_reaches_back_8192_packets,
        ranges__forgotten_is_stale,
        ranges__newest_come_first_and_older_ones_are_cut,
        ranges__largest_number_is_refused,
        ranges__agrees_with_an_oracle,
        ranges__T58_many_holes_stay_bounded,
    };

    return SUITE_MAIN(argc, argv, "ranges", tests);
}
