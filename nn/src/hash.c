/* SPDX-License-Identifier: MIT */
/* The one door of nn to xxHash. */
#include "nn/nn.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

uint64_t nn_hash64(const void *bytes, size_t len)
{
    assert(bytes != NULL || len == 0);

    return XXH3_64bits(bytes, len);
}

struct nn_digest nn_hash128(const void *bytes, size_t len)
{
    assert(bytes != NULL || len == 0);

    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, len));
    struct nn_digest digest;
    static_assert(sizeof digest.bytes == sizeof canonical.digest, "a 128-bit digest");
    memcpy(digest.bytes, canonical.digest, sizeof digest.bytes);
    return digest;
}

void nn_weights_hash(const float *weights, size_t count, char out[17])
{
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are hashed as they lie");
    static_assert(sizeof(float) == 4, "IEEE single precision");

    uint64_t hash = nn_hash64(weights, count * sizeof(float));
    snprintf(out, 17, "%016llx", (unsigned long long)hash);
}
