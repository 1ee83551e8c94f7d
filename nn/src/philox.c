/* SPDX-License-Identifier: MIT */
/*
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC11).
 * Random numbers without state: whoever computes a sample gets the same ones.
 */
#include "nn/nn.h"

static const uint32_t multiplier[2] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t weyl[2] = {0x9E3779B9u, 0xBB67AE85u};

enum { ROUNDS = 10 };

void nn_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high, uint32_t out[4])
{
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t c[4] = {(uint32_t)counter_low, (uint32_t)(counter_low >> 32), (uint32_t)counter_high,
                     (uint32_t)(counter_high >> 32)};

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)multiplier[0] * c[0];
        uint64_t p1 = (uint64_t)multiplier[1] * c[2];
        uint32_t c1 = c[1];
        uint32_t c3 = c[3];
        c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k[0];
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k[1];
        c[3] = (uint32_t)p0;
        k[0] += weyl[0];
        k[1] += weyl[1];
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}
