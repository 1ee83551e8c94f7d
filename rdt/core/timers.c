/* SPDX-License-Identifier: MIT */
/*
 * A binary heap of deadlines, indexed by connection; see timers.h.
 */
#include "timers.h"

#include <assert.h>

#define NOWHERE UINT32_MAX

size_t timers_bytes(uint32_t slots)
{
    return slots * (sizeof(struct timer_entry) + sizeof(uint32_t));
}

void timers_init(struct timers *timers, void *memory, uint32_t slots)
{
    timers->heap = memory;
    timers->places = (uint32_t *)(void *)(timers->heap + slots);
    timers->count = 0;
    for (uint32_t slot = 0; slot < slots; slot++)
        timers->places[slot] = NOWHERE;
}

static void put(struct timers *timers, uint32_t place, struct timer_entry entry)
{
    timers->heap[place] = entry;
    timers->places[entry.slot] = place;
}

static void move_up(struct timers *timers, uint32_t place, struct timer_entry entry)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 2;

        if (timers->heap[parent].deadline_ns <= entry.deadline_ns)
            break;
        put(timers, place, timers->heap[parent]);
        place = parent;
    }
    put(timers, place, entry);
}

static void move_down(struct timers *timers, uint32_t place, struct timer_entry entry)
{
    for (;;) {
        uint32_t child = 2 * place + 1;

        if (child >= timers->count)
            break;
        if (child + 1 < timers->count &&
            timers->heap[child + 1].deadline_ns < timers->heap[child].deadline_ns)
            child++;
        if (timers->heap[child].deadline_ns >= entry.deadline_ns)
            break;
        put(timers, place, timers->heap[child]);
        place = child;
    }
    put(timers, place, entry);
}

static void settle(struct timers *timers, uint32_t place, struct timer_entry entry)
{
    if (place > 0 && timers->heap[(place - 1) / 2].deadline_ns > entry.deadline_ns)
        move_up(timers, place, entry);
    else
        move_down(timers, place, entry);
}

static void take_out(struct timers *timers, uint32_t slot)
{
    uint32_t place = timers->places[slot];
    struct timer_entry last = timers->heap[timers->count - 1];

    timers->places[slot] = NOWHERE;
    timers->count--;
    if (last.slot != slot)
        settle(timers, place, last);
}

void timers_set(struct timers *timers, uint32_t slot, uint64_t deadline_ns)
{
    struct timer_entry entry = {.deadline_ns = deadline_ns, .slot = slot};
    uint32_t place = timers->places[slot];

    if (deadline_ns == UINT64_MAX) {
        if (place != NOWHERE)
            take_out(timers, slot);
    } else if (place == NOWHERE) {
        move_up(timers, timers->count++, entry);
    } else if (timers->heap[place].deadline_ns != deadline_ns) {
        settle(timers, place, entry);
    }
}

uint64_t timers_next(const struct timers *timers)
{
    return timers->count > 0 ? timers->heap[0].deadline_ns : UINT64_MAX;
}

uint32_t timers_next_slot(const struct timers *timers)
{
    assert(timers->count > 0);
    return timers->heap[0].slot;
}
