/* SPDX-License-Identifier: MIT */
#include "rdt/core/extents.h"
#include "suite.h"

enum {
    SPACE = 200,
    CAPACITY = 8,
};

static struct extent memory[CAPACITY];
static struct extents set;

static bool add(uint32_t first, uint32_t end, uint32_t *fresh)
{
    return extents_add(&set, (struct extent){first, end}, fresh);
}

START_TEST(extents__in_order_stays_one)
{
    uint32_t fresh;

    extents_init(&set, memory, CAPACITY);
    for (uint32_t at = 0; at < 1000; at += 10) {
        ck_assert(add(at, at + 10, &fresh));
        ck_assert_uint_eq(fresh, 10);
    }
    ck_assert_uint_eq(set.count, 1);
    ck_assert_uint_eq(set.at[0].end, 1000);
}
END_TEST

START_TEST(extents__overlap_counts_only_what_is_new)
{
    uint32_t fresh;

    extents_init(&set, memory, CAPACITY);
    ck_assert(add(10, 20, &fresh));
    ck_assert(add(30, 40, &fresh));
    ck_assert(add(15, 35, &fresh));
    ck_assert_uint_eq(fresh, 10);
    ck_assert_uint_eq(set.count, 1);
    ck_assert(add(10, 40, &fresh));
    ck_assert_uint_eq(fresh, 0);
    ck_assert(add(5, 5, &fresh));
    ck_assert_uint_eq(fresh, 0);
    ck_assert_uint_eq(set.count, 1);
}
END_TEST

START_TEST(extents__full_changes_nothing)
{
    uint32_t fresh;

    extents_init(&set, memory, CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++)
        ck_assert(add(10 * i, 10 * i + 1, &fresh));
    ck_assert(!add(5, 6, &fresh));
    ck_assert_uint_eq(set.count, CAPACITY);
    ck_assert(add(1, 2, &fresh)); /* touches: needs no room */
    ck_assert_uint_eq(fresh, 1);
    extents_add_coarse(&set, (struct extent){5, 6});
    ck_assert_uint_eq(set.count, CAPACITY);
    ck_assert_uint_le(set.at[0].first, 5);
    ck_assert(set.at[0].end >= 6 || set.at[1].first <= 5);
}
END_TEST

/* Against a plain array of flags. */
START_TEST(extents__random_against_flags)
{
    bool flags[SPACE] = {false};
    uint32_t fresh;

    srand((unsigned)suite_seed(0));
    extents_init(&set, memory, CAPACITY);
    for (unsigned step = 0; step < 30000; step++) {
        uint32_t first = (uint32_t)rand() % SPACE;
        uint32_t end = first + (uint32_t)rand() % (SPACE - first + 1);
        struct extent part = {first, end};
        struct extent gap;
        uint32_t want = 0;

        end = rand() % 2 ? end : first + (end - first) / 8;
        part.end = end;
        if (rand() % 2 == 0) {
            for (uint32_t i = first; i < end; i++)
                want += !flags[i];
            if (extents_add(&set, part, &fresh)) {
                ck_assert_uint_eq(fresh, want);
                for (uint32_t i = first; i < end; i++)
                    flags[i] = true;
            } else {
                ck_assert_uint_eq(set.count, CAPACITY);
            }
        } else if (set.count < CAPACITY) {
            extents_remove(&set, part);
            for (uint32_t i = first; i < end; i++)
                flags[i] = false;
        }
        for (uint32_t i = 0; i + 1 < set.count; i++)
            ck_assert_uint_lt(set.at[i].end, set.at[i + 1].first);
        want = first;
        while (want < end && flags[want])
            want++;
        ck_assert_int_eq(extents_next_gap(&set, part, &gap), want < end);
        if (want < end) {
            ck_assert_uint_eq(gap.first, want);
            while (want < end && !flags[want])
                want++;
            ck_assert_uint_eq(gap.end, want);
        }
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        extents__in_order_stays_one,
        extents__overlap_counts_only_what_is_new,
        extents__full_changes_nothing,
        extents__random_against_flags,
    };

    return SUITE_MAIN(argc, argv, "extents", tests);
}
