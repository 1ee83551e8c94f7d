/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_TIMERS_H
#define RDT_CORE_TIMERS_H

/*
 * One deadline per connection, in a binary heap: thousands of idle connections cost nothing until
 * the first of them is due.
 */

#include <stddef.h>
#include <stdint.h>

struct timer_entry {
    uint64_t deadline_ns;
    uint32_t slot;
};

struct timers {
    struct timer_entry *heap; /* borrowed */
    uint32_t *places;         /* slot -> index in the heap, UINT32_MAX: none */
    uint32_t count;
};

size_t timers_bytes(uint32_t slots);
void timers_init(struct timers *timers, void *memory, uint32_t slots);

/* Replaces the slot's deadline; UINT64_MAX: it has none. */
void timers_set(struct timers *timers, uint32_t slot, uint64_t deadline_ns);

/* The earliest deadline, UINT64_MAX when there is none. */
uint64_t timers_next(const struct timers *timers);

/* Whose it is; there must be one. */
uint32_t timers_next_slot(const struct timers *timers);

#endif
