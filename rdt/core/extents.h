/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_EXTENTS_H
#define RDT_CORE_EXTENTS_H

/*
 * A set of byte positions of one message, kept as sorted extents in a fixed array: what arrived,
 * what was acknowledged, what has to be sent again.  In order it is one extent that grows, O(1);
 * out of order a binary search and a move of the few extents behind.
 */

#include <stdbool.h>
#include <stdint.h>

/* first <= position < end */
struct extent {
    uint32_t first;
    uint32_t end;
};

struct extents {
    struct extent *at; /* borrowed */
    uint32_t count;
    uint32_t capacity;
};

void extents_init(struct extents *set, struct extent *memory, uint32_t capacity);

/* Adds positions; *fresh is how many of them were not there.  false: it would take one extent more
 * than there is room for, and nothing was changed. */
bool extents_add(struct extents *set, struct extent part, uint32_t *fresh);

/* Adds them whatever it takes: without room the gap to the nearest extent is added, too. */
void extents_add_coarse(struct extents *set, struct extent part);

/* Takes positions out.  Where this would split an extent and there is no room, they stay. */
void extents_remove(struct extents *set, struct extent part);

/* The first stretch of `within` that is not in the set; false: all of it is. */
bool extents_next_gap(const struct extents *set, struct extent within, struct extent *gap);

#endif
