/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_POOL_H
#define RDT_CORE_POOL_H

/*
 * Memory for messages that nobody posted a buffer for: a binary buddy allocator over one region.
 *
 * DESIGN: a message needs contiguous bytes, comes in any size up to a limit and lives as long as
 * the application likes.  Buddies merge at once when freed, cost O(log n), and their rounding - the
 * next power of two - is simple enough to be part of the protocol: the sender pays the same cost
 * for a message that the pool will charge (pool_cost).  The smallest sufficient free block is
 * always split first, which keeps large blocks whole.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_NO_OWNER UINT32_MAX

enum {
    POOL_BLOCK_MIN = 256,
    POOL_ORDERS = 32, /* blocks of POOL_BLOCK_MIN << 0 ... << 31 */
};

/* Whose message lies in a block. */
struct pool_owner {
    uint32_t connection; /* POOL_NO_OWNER: it has ended */
    uint32_t message;
};

struct pool {
    uint8_t *region;
    struct pool_owner *owners; /* one per smallest block; valid at the first of an allocated one */
    uint8_t *orders; /* likewise: order + 1 of the block that begins here, top bit: free */
    uint32_t blocks; /* smallest blocks in the region */
    uint32_t heads[POOL_ORDERS];
    uint64_t free_bytes;
};

/* What a message of `len` bytes takes of the pool: the power of two that holds it. */
uint64_t pool_cost(uint64_t len);

/* Memory that pool_init wants for a region of so many bytes (rounded up to whole blocks). */
size_t pool_bytes(uint64_t region_bytes);

/* `memory` (64-byte aligned, pool_bytes long) is borrowed for the pool's life. */
void pool_init(struct pool *pool, void *memory, uint64_t region_bytes);

/* pool_cost(len) bytes, 64-byte aligned, or NULL when there is no block of that size. */
void *pool_take(struct pool *pool, uint64_t len, struct pool_owner owner);
void pool_give(struct pool *pool, const void *bytes);

/* True when `bytes` was returned by pool_take and not given back. */
bool pool_holds(const struct pool *pool, const void *bytes);

/* The owner of an allocated block, to read or change. */
struct pool_owner *pool_owner(struct pool *pool, const void *bytes);

#endif
