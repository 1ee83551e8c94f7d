/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_RANGES_H
#define RDT_CORE_RANGES_H

/*
 * Which SEQs have been received: the replay and duplicate window, and the source of ACK ranges.
 *
 * DESIGN: a ring of bits over the newest RANGES_WINDOW numbers.  Adding, asking and forgetting cost
 * O(1) whatever the peer does; listing ranges scans 64 packets a step and stops at the floor.  The
 * memory is fixed: a peer that leaves a hole at every second packet gets no list to grow.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RANGES_WINDOW = 16384, /* packets; a power of two */
};

/* Packets first .. last, both received. */
struct range {
    uint64_t first;
    uint64_t last;
};

enum ranges_verdict {
    RANGES_NEW,
    RANGES_DUPLICATE,
    RANGES_STALE, /* below the window or the floor: received or given up long ago */
};

struct ranges {
    uint64_t end;          /* largest received + 1; 0: nothing yet */
    uint64_t floor;        /* below this everything is stale */
    uint64_t newest_first; /* where the range of the largest begins (not below floor) */
    uint64_t bits[RANGES_WINDOW / 64];
};

void ranges_init(struct ranges *set);

/* What adding it would say. */
enum ranges_verdict ranges_check(const struct ranges *set, uint64_t seq);

/* Only RANGES_NEW changes the set. */
enum ranges_verdict ranges_add(struct ranges *set, uint64_t seq);

/* The sender will never repeat or ask about anything below `floor`.  Lower values are ignored. */
void ranges_forget_below(struct ranges *set, uint64_t floor);

/* The newest ranges, newest first.  Returns how many. */
size_t ranges_newest(const struct ranges *set, struct range *out, size_t max);

/* True when a packet is missing between the floor and the largest. */
bool ranges_has_gap(const struct ranges *set);

#endif
