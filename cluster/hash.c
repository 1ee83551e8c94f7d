/* SPDX-License-Identifier: MIT */
#include <cluster/hash.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}
