/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CLUSTER_RANDOM_H
#define TESTS_CLUSTER_RANDOM_H

/* Numbers for property tests: splitmix64 from a printed seed (GRADWIRE_SEED replays one). */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
    assert(bound > 0);
    return random_next(state) % bound;
}

static inline void random_fill(uint64_t *state, uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)random_next(state);
}

static inline uint64_t random_seed(void)
{
    const char *seed = getenv("GRADWIRE_SEED");

    return seed ? strtoull(seed, NULL, 0) : 1;
}

#endif
