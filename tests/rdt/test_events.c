/* SPDX-License-Identifier: MIT */
#include "rdt/core/events.h"
#include "suite.h"

START_TEST(events__first_in_first_out_around_the_ring)
{
    struct event_note ring[7];
    struct event_note note;
    struct events events;
    uint32_t in = 0;
    uint32_t out = 0;

    srand((unsigned)suite_seed(0));
    events_init(&events, ring, 7);
    ck_assert(!events_pop(&events, &note));
    for (unsigned step = 0; step < 10000; step++) {
        if (rand() % 2 == 0 && in - out < 7) {
            events_push(&events, (struct event_note){.subject = in++});
        } else if (in != out) {
            ck_assert(events_pop(&events, &note));
            ck_assert_uint_eq(note.subject, out++);
        } else {
            ck_assert(!events_pop(&events, &note));
        }
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {events__first_in_first_out_around_the_ring};

    return SUITE_MAIN(argc, argv, "events", tests);
}
