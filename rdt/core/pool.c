/* SPDX-License-Identifier: MIT */
/*
 * Messages of any size need contiguous memory without a malloc per message; see pool.h.
 */
#include "pool.h"

#include <assert.h>
#include <string.h>

#define NIL UINT32_MAX

enum {
    ORDER_FREE = 0x80,
};

/* Lies in the first bytes of every free block. */
struct free_block {
    uint32_t prev;
    uint32_t next;
};

static uint64_t region_rounded(uint64_t region_bytes)
{
    return (region_bytes + POOL_BLOCK_MIN - 1) / POOL_BLOCK_MIN * POOL_BLOCK_MIN;
}

static unsigned order_for(uint64_t len)
{
    unsigned order = 0;

    while (((uint64_t)POOL_BLOCK_MIN << order) < len)
        order++;
    return order;
}

uint64_t pool_cost(uint64_t len)
{
    return (uint64_t)POOL_BLOCK_MIN << order_for(len);
}

size_t pool_bytes(uint64_t region_bytes)
{
    uint64_t region = region_rounded(region_bytes);
    uint64_t blocks = region / POOL_BLOCK_MIN;

    return (size_t)(region + blocks * (sizeof(struct pool_owner) + 1));
}

static void *block_at(const struct pool *pool, uint32_t block)
{
    return pool->region + (size_t)block * POOL_BLOCK_MIN;
}

static void push_free(struct pool *pool, uint32_t block, unsigned order)
{
    struct free_block fresh = {.prev = NIL, .next = pool->heads[order]};
    struct free_block after;

    if (fresh.next != NIL) {
        memcpy(&after, block_at(pool, fresh.next), sizeof after);
        after.prev = block;
        memcpy(block_at(pool, fresh.next), &after, sizeof after);
    }
    memcpy(block_at(pool, block), &fresh, sizeof fresh);
    pool->heads[order] = block;
    pool->orders[block] = (uint8_t)((order + 1) | ORDER_FREE);
}

static void unlink_free(struct pool *pool, uint32_t block, unsigned order)
{
    struct free_block gone;
    struct free_block other;

    memcpy(&gone, block_at(pool, block), sizeof gone);
    if (gone.prev == NIL) {
        pool->heads[order] = gone.next;
    } else {
        memcpy(&other, block_at(pool, gone.prev), sizeof other);
        other.next = gone.next;
        memcpy(block_at(pool, gone.prev), &other, sizeof other);
    }
    if (gone.next != NIL) {
        memcpy(&other, block_at(pool, gone.next), sizeof other);
        other.prev = gone.prev;
        memcpy(block_at(pool, gone.next), &other, sizeof other);
    }
    pool->orders[block] = 0;
}

void pool_init(struct pool *pool, void *memory, uint64_t region_bytes)
{
    uint64_t region = region_rounded(region_bytes);
    uint32_t at = 0;

    assert(region / POOL_BLOCK_MIN < NIL);
    pool->region = memory;
    pool->blocks = (uint32_t)(region / POOL_BLOCK_MIN);
    pool->owners = (struct pool_owner *)(void *)(pool->region + region);
    pool->orders = (uint8_t *)(pool->owners + pool->blocks);
    pool->free_bytes = region;
    memset(pool->orders, 0, pool->blocks);
    for (unsigned order = 0; order < POOL_ORDERS; order++)
        pool->heads[order] = NIL;
    while (at < pool->blocks) {
        unsigned order = POOL_ORDERS - 1;

        /* The largest aligned block that still fits. */
        while ((at & ((1u << order) - 1)) != 0 || (1u << order) > pool->blocks - at)
            order--;
        push_free(pool, at, order);
        at += 1u << order;
    }
}

void *pool_take(struct pool *pool, uint64_t len, struct pool_owner owner)
{
    unsigned want = order_for(len);
    unsigned order = want;
    uint32_t block;

    while (order < POOL_ORDERS && pool->heads[order] == NIL)
        order++;
    if (order >= POOL_ORDERS)
        return NULL;
    block = pool->heads[order];
    unlink_free(pool, block, order);
    while (order > want) {
        order--;
        push_free(pool, block + (1u << order), order);
    }
    pool->orders[block] = (uint8_t)(want + 1);
    pool->owners[block] = owner;
    pool->free_bytes -= (uint64_t)POOL_BLOCK_MIN << want;
    return block_at(pool, block);
}

bool pool_holds(const struct pool *pool, const void *bytes)
{
    uintptr_t at = (uintptr_t)bytes;
    uintptr_t base = (uintptr_t)pool->region;
    uint8_t order;

    if (at < base || at >= base + (uintptr_t)pool->blocks * POOL_BLOCK_MIN)
        return false;
    if ((at - base) % POOL_BLOCK_MIN != 0)
        return false;
    order = pool->orders[(at - base) / POOL_BLOCK_MIN];
    return order != 0 && (order & ORDER_FREE) == 0;
}

static uint32_t block_of(const struct pool *pool, const void *bytes)
{
    assert(pool_holds(pool, bytes));
    return (uint32_t)(((uintptr_t)bytes - (uintptr_t)pool->region) / POOL_BLOCK_MIN);
}

struct pool_owner *pool_owner(struct pool *pool, const void *bytes)
{
    return &pool->owners[block_of(pool, bytes)];
}

void pool_give(struct pool *pool, const void *bytes)
{
    uint32_t block = block_of(pool, bytes);
    unsigned order = pool->orders[block] - 1u;

    pool->orders[block] = 0;
    pool->free_bytes += (uint64_t)POOL_BLOCK_MIN << order;
    while (order + 1 < POOL_ORDERS) {
        uint32_t buddy = block ^ (1u << order);

        if (buddy >= pool->blocks || pool->orders[buddy] != ((order + 1) | ORDER_FREE))
            break;
        unlink_free(pool, buddy, order);
        block &= ~(1u << order);
        order++;
    }
    push_free(pool, block, order);
}
