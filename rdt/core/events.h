/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_EVENTS_H
#define RDT_CORE_EVENTS_H

/*
 * What happened and was not yet told: a queue of small notes, each about a connection or one of its
 * messages.  It never overflows: whatever an event is about keeps its slot until the event is
 * taken, so the sum of all slots is room enough.
 */

#include <rdt/rdt.h>

struct event_note {
    enum rdt_event_kind kind;
    uint32_t connection;
    uint32_t subject; /* MESSAGE, OFFER: slot in the inbox; RELEASED: in the outbox */
    int32_t detail;   /* RELEASED: status; CLOSED: reason; CONNECTED: incoming */
};

struct events {
    struct event_note *ring; /* borrowed */
    uint32_t capacity;
    uint32_t head;
    uint32_t count;
};

void events_init(struct events *events, struct event_note *ring, uint32_t capacity);
void events_push(struct events *events, struct event_note note);
bool events_pop(struct events *events, struct event_note *out);

#endif
