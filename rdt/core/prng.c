/* SPDX-License-Identifier: MIT */

/* Random numbers from given entropy. */

#include "prng.h"

#include "bytes.h"

static uint64_t rotl(uint64_t x, unsigned k)
{
    return x << k | x >> (64 - k);
}

uint64_t prng_splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void prng_init(struct prng *prng, const uint8_t entropy[32])
{
    uint64_t mix = 0;

    /* splitmix64 in between, so that an all-zero or nearly equal entropy still starts well apart */
    for (size_t i = 0; i < 4; i++) {
        mix ^= load_le64(entropy + 8 * i);
        prng->state[i] = prng_splitmix64(&mix);
    }
}

uint64_t prng_u64(struct prng *prng)
{
    uint64_t *s = prng->state;
    const uint64_t result = rotl(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

void prng_bytes(struct prng *prng, void *out, size_t len)
{
    uint8_t *at = out;

    while (len > 0) {
        uint8_t word[8];
        const size_t take = len < sizeof word ? len : sizeof word;

        store_le64(word, prng_u64(prng));
        memcpy(at, word, take);
        at += take;
        len -= take;
    }
}
