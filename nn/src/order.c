/* SPDX-License-Identifier: MIT */
/*
 * The order of the samples of an epoch, without memory: any node knows which sample stands at any
 * position.
 *
 * DESIGN: a balanced Feistel network is a bijection of [0, 4^half) whatever its round function is.
 * We take the smallest one that covers [0, count) and walk: an image outside is fed in again until
 * it falls inside.  The walk follows a cycle of the larger bijection, so it ends, and the result
 * is a bijection of [0, count).  The domain is below four times count: fewer than four turns are
 * expected.
 */
#include "nn/nn.h"

#include <assert.h>

enum {
    ROUNDS = 6,
    ORDER_DOMAIN = 0x6f72 /* keeps these counters apart from those of other uses of the seed */
};

/* Half the bits, rounded up, that numbers below count need. */
static unsigned half_bits(uint64_t count)
{
    unsigned bits = 0;

    while (bits < 64 && (count - 1) >> bits != 0)
        bits++;
    return (bits + 1) / 2;
}

static uint32_t round_bits(uint64_t seed, uint64_t epoch, unsigned round, uint32_t half)
{
    uint32_t words[4];
    uint64_t low = (uint64_t)ORDER_DOMAIN << 48 | (uint64_t)round << 32 | half;

    nn_philox(seed, low, epoch, words);
    return words[0];
}

static uint64_t feistel(uint64_t seed, uint64_t epoch, unsigned half, uint64_t value)
{
    uint32_t mask = (uint32_t)((UINT64_C(1) << half) - 1);
    uint32_t left = (uint32_t)(value >> half);
    uint32_t right = (uint32_t)value & mask;

    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t next = left ^ (round_bits(seed, epoch, round, right) & mask);

        left = right;
        right = next;
    }
    return (uint64_t)left << half | right;
}

uint64_t nn_order(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position)
{
    unsigned half;
    uint64_t value = position;

    assert(position < count);
    if (count == 1)
        return 0;
    half = half_bits(count);
    do
        value = feistel(seed, epoch, half, value);
    while (value >= count);
    return value;
}
