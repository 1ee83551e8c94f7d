/* SPDX-License-Identifier: MIT */

/* Which SEQs have been received. */

#include "ranges.h"

#include <assert.h>
#include <string.h>

enum {
    WORDS = RANGES_WINDOW / 64,
};

static_assert((RANGES_WINDOW & (RANGES_WINDOW - 1)) == 0, "a power of two");

void ranges_init(struct ranges *set)
{
    memset(set, 0, sizeof *set);
}

static bool has_bit(const struct ranges *set, uint64_t seq)
{
    return set->bits[seq / 64 % WORDS] >> seq % 64 & 1;
}

/* The lowest number the window and the floor leave. */
static uint64_t lowest(const struct ranges *set)
{
    const uint64_t window = set->end > RANGES_WINDOW ? set->end - RANGES_WINDOW : 0;

    return set->floor > window ? set->floor : window;
}

enum ranges_verdict ranges_check(const struct ranges *set, uint64_t seq)
{
    if (seq >= set->end)
        return seq < set->floor || seq == UINT64_MAX ? RANGES_STALE : RANGES_NEW;
    if (seq < lowest(set))
        return RANGES_STALE;
    return has_bit(set, seq) ? RANGES_DUPLICATE : RANGES_NEW;
}

/* Moves the window's end up to `end`, with the numbers it gains as not received. */
static void extend(struct ranges *set, uint64_t end)
{
    uint64_t seq = set->end;

    if (end - seq >= RANGES_WINDOW) {
        memset(set->bits, 0, sizeof set->bits);
        seq = end;
    }
    while (seq < end) {
        const uint64_t count = end - seq < 64 - seq % 64 ? end - seq : 64 - seq % 64;
        const uint64_t ones = count == 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;

        set->bits[seq / 64 % WORDS] &= ~(ones << seq % 64);
        seq += count;
    }
    set->end = end;
}

/* The lowest number of the unbroken run that ends with `seq`, 64 a step. */
static uint64_t run_first(const struct ranges *set, uint64_t seq, uint64_t low)
{
    for (;;) {
        const uint64_t word = set->bits[seq / 64 % WORDS] << (63 - seq % 64);
        const unsigned ones = ~word == 0 ? 64 : (unsigned)__builtin_clzll(~word);

        if (seq - low < ones)
            return low;
        if (ones <= seq % 64)
            return seq - ones + 1;
        seq -= seq % 64 + 1;
        if (!has_bit(set, seq))
            return seq + 1;
    }
}

enum ranges_verdict ranges_add(struct ranges *set, uint64_t seq)
{
    const enum ranges_verdict verdict = ranges_check(set, seq);

    if (verdict != RANGES_NEW)
        return verdict;
    if (seq >= set->end) {
        if (seq > set->end || set->end == 0)
            set->newest_first = seq;
        extend(set, seq + 1);
    }
    set->bits[seq / 64 % WORDS] |= (uint64_t)1 << seq % 64;
    if (seq + 1 == set->newest_first || seq == set->newest_first)
        set->newest_first = run_first(set, seq, lowest(set));
    if (set->newest_first < lowest(set))
        set->newest_first = lowest(set);
    return RANGES_NEW;
}

void ranges_forget_below(struct ranges *set, uint64_t floor)
{
    if (floor <= set->floor)
        return;
    set->floor = floor;
    if (set->newest_first < floor)
        set->newest_first = floor;
}

/* The highest received number at or below `seq` and not below `low`; false when there is none. */
static bool highest_set(const struct ranges *set, uint64_t seq, uint64_t low, uint64_t *out)
{
    while (seq >= low) {
        const uint64_t word = set->bits[seq / 64 % WORDS] << (63 - seq % 64);

        if (word != 0) {
            const unsigned zeroes = (unsigned)__builtin_clzll(word);

            if (seq - low < zeroes)
                return false;
            *out = seq - zeroes;
            return true;
        }
        if (seq < 64)
            return false;
        seq -= seq % 64 + 1;
    }
    return false;
}

size_t ranges_newest(const struct ranges *set, struct range *out, size_t max)
{
    const uint64_t low = lowest(set);
    uint64_t at;
    size_t count = 0;

    if (set->end <= low || max == 0)
        return 0;
    out[count++] = (struct range){.first = set->newest_first, .last = set->end - 1};
    at = set->newest_first;
    while (count < max && at > low && highest_set(set, at - 1, low, &at)) {
        out[count].last = at;
        at = run_first(set, at, low);
        out[count++].first = at;
    }
    return count;
}

bool ranges_has_gap(const struct ranges *set)
{
    return set->end > set->floor && set->newest_first > lowest(set);
}
