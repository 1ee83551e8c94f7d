/* SPDX-License-Identifier: MIT */
#include "rdt/core/timers.h"
#include "suite.h"

enum {
    SLOTS = 100,
};

static struct timers timers;
static uint64_t memory[SLOTS * 4];

START_TEST(timers__empty_has_no_deadline)
{
    timers_init(&timers, memory, SLOTS);
    ck_assert_uint_eq(timers_next(&timers), UINT64_MAX);
    timers_set(&timers, 3, UINT64_MAX);
    ck_assert_uint_eq(timers_next(&timers), UINT64_MAX);
    timers_set(&timers, 3, 0);
    ck_assert_uint_eq(timers_next(&timers), 0);
    ck_assert_uint_eq(timers_next_slot(&timers), 3);
    timers_set(&timers, 3, UINT64_MAX);
    ck_assert_uint_eq(timers_next(&timers), UINT64_MAX);
}
END_TEST

/* Against a plain array. */
START_TEST(timers__random_against_array)
{
    uint64_t want[SLOTS];

    ck_assert_uint_le(timers_bytes(SLOTS), sizeof memory);
    srand((unsigned)suite_seed(0));
    timers_init(&timers, memory, SLOTS);
    memset(want, 0xff, sizeof want);
    for (unsigned step = 0; step < 3000; step++) {
        uint32_t slot = (uint32_t)rand() % SLOTS;
        uint64_t least = UINT64_MAX;

        want[slot] = rand() % 4 == 0 ? UINT64_MAX : (uint64_t)rand() % 1000;
        timers_set(&timers, slot, want[slot]);
        for (uint32_t i = 0; i < SLOTS; i++)
            least = want[i] < least ? want[i] : least;
        ck_assert_uint_eq(timers_next(&timers), least);
        if (least != UINT64_MAX)
            ck_assert_uint_eq(want[timers_next_slot(&timers)], least);
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        timers__empty_has_no_deadline,
        timers__random_against_array,
    };

    return SUITE_MAIN(argc, argv, "timers", tests);
}
