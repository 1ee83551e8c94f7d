/* SPDX-License-Identifier: MIT */
/*
 * Byte positions of a message as a bounded list of extents; see extents.h.
 */
#include "extents.h"

#include <assert.h>
#include <string.h>

void extents_init(struct extents *set, struct extent *memory, uint32_t capacity)
{
    assert(capacity > 0);
    set->at = memory;
    set->count = 0;
    set->capacity = capacity;
}

/* Index of the first extent that ends at or behind `position`; count when there is none. */
static uint32_t find(const struct extents *set, uint32_t position)
{
    uint32_t low = 0;
    uint32_t high = set->count;

    if (high == 0 || set->at[high - 1].end < position)
        return high;
    if (set->at[high - 1].first <= position)
        return high - 1; /* in order, the usual case */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (set->at[middle].end < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void erase(struct extents *set, uint32_t first, uint32_t end)
{
    memmove(&set->at[first], &set->at[end], (set->count - end) * sizeof *set->at);
    set->count -= end - first;
}

static void insert(struct extents *set, uint32_t idx, struct extent part)
{
    assert(set->count < set->capacity);
    memmove(&set->at[idx + 1], &set->at[idx], (set->count - idx) * sizeof *set->at);
    set->at[idx] = part;
    set->count++;
}

bool extents_add(struct extents *set, struct extent part, uint32_t *fresh)
{
    uint32_t first = find(set, part.first);
    uint32_t end = first;
    uint32_t covered = 0;

    assert(part.first <= part.end);
    *fresh = 0;
    if (part.first == part.end)
        return true;
    for (; end < set->count && set->at[end].first <= part.end; end++) {
        const struct extent *e = &set->at[end];
        uint32_t from = e->first > part.first ? e->first : part.first;
        uint32_t to = e->end < part.end ? e->end : part.end;

        covered += to - from;
    }
    if (first == end && set->count == set->capacity)
        return false;
    *fresh = part.end - part.first - covered;
    if (first == end) {
        insert(set, first, part);
        return true;
    }
    if (set->at[first].first < part.first)
        part.first = set->at[first].first;
    if (set->at[end - 1].end > part.end)
        part.end = set->at[end - 1].end;
    set->at[first] = part;
    erase(set, first + 1, end);
    return true;
}

void extents_add_coarse(struct extents *set, struct extent part)
{
    uint32_t fresh;
    uint32_t idx;

    if (extents_add(set, part, &fresh))
        return;
    idx = find(set, part.first);
    if (idx == set->count ||
        (idx > 0 && part.first - set->at[idx - 1].end < set->at[idx].first - part.end))
        part.first = set->at[idx - 1].end;
    else
        part.end = set->at[idx].first;
    if (!extents_add(set, part, &fresh))
        assert(false && "a part that touches an extent needs no room");
}

void extents_remove(struct extents *set, struct extent part)
{
    uint32_t idx = find(set, part.first);

    while (part.first < part.end && idx < set->count && set->at[idx].first < part.end) {
        struct extent *e = &set->at[idx];

        if (e->end <= part.first) {
            idx++; /* only touches */
        } else if (e->first < part.first && e->end > part.end) {
            struct extent behind = {.first = part.end, .end = e->end};

            if (set->count == set->capacity)
                return;
            e->end = part.first;
            insert(set, idx + 1, behind);
            return;
        } else if (e->first < part.first) {
            e->end = part.first;
            idx++;
        } else if (e->end > part.end) {
            e->first = part.end;
            return;
        } else {
            erase(set, idx, idx + 1);
        }
    }
}

bool extents_next_gap(const struct extents *set, struct extent within, struct extent *gap)
{
    uint32_t idx = find(set, within.first);

    while (idx < set->count && set->at[idx].first <= within.first) {
        if (set->at[idx].end > within.first)
            within.first = set->at[idx].end;
        idx++;
    }
    if (within.first >= within.end)
        return false;
    gap->first = within.first;
    gap->end =
        idx < set->count && set->at[idx].first < within.end ? set->at[idx].first : within.end;
    return true;
}
