/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_PRNG_H
#define RDT_CORE_PRNG_H

/*
 * Random numbers from given entropy: nonces, CIDs, the phase of probes (xoshiro256**), and
 * splitmix64 for the simulated link.  Not for keys that must withstand an attacker.
 */

#include <stddef.h>
#include <stdint.h>

struct prng {
    uint64_t state[4];
};

void prng_init(struct prng *prng, const uint8_t entropy[32]);
uint64_t prng_u64(struct prng *prng);
void prng_bytes(struct prng *prng, void *out, size_t len);

/* One step of splitmix64. */
uint64_t prng_splitmix64(uint64_t *state);

#endif
