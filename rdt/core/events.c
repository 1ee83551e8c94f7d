/* SPDX-License-Identifier: MIT */
/*
 * The queue of events; see events.h.
 */
#include "events.h"

#include <assert.h>

void events_init(struct events *events, struct event_note *ring, uint32_t capacity)
{
    *events = (struct events){.ring = ring, .capacity = capacity};
}

void events_push(struct events *events, struct event_note note)
{
    uint32_t tail = events->head + events->count;

    assert(events->count < events->capacity);
    events->ring[tail < events->capacity ? tail : tail - events->capacity] = note;
    events->count++;
}

bool events_pop(struct events *events, struct event_note *out)
{
    if (events->count == 0)
        return false;
    *out = events->ring[events->head];
    events->head = events->head + 1 < events->capacity ? events->head + 1 : 0;
    events->count--;
    if (events->count == 0)
        events->head = 0; /* stay in the part of the ring that is in the cache */
    return true;
}
