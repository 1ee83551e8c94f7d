/* SPDX-License-Identifier: MIT */
#include "rdt/core/pool.h"
#include "suite.h"

enum {
    REGION = 256 * 1000, /* not a power of two */
    HELD_MAX = 512,
};

static struct pool pool;
static void *memory;

static void set_up(void)
{
    memory = aligned_alloc(64, (pool_bytes(REGION) + 63) / 64 * 64);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0xCC, pool_bytes(REGION));
    pool_init(&pool, memory, REGION);
}

START_TEST(pool__cost_is_the_power_of_two)
{
    ck_assert_uint_eq(pool_cost(0), 256);
    ck_assert_uint_eq(pool_cost(256), 256);
    ck_assert_uint_eq(pool_cost(257), 512);
    ck_assert_uint_eq(pool_cost(65536), 65536);
    ck_assert_uint_eq(pool_cost(65537), 131072);
}
END_TEST

START_TEST(pool__takes_exactly_what_there_is)
{
    const struct pool_owner owner = {.connection = 3, .message = 7};
    uint32_t count = 0;
    void *first = NULL;

    set_up();
    for (void *at; (at = pool_take(&pool, 256, owner)) != NULL; count++) {
        memset(at, (int)count, 256);
        ck_assert_uint_eq((uintptr_t)at % 64, 0);
        first = first ? first : at;
    }
    ck_assert_uint_eq(count, 1000);
    ck_assert_uint_eq(pool.free_bytes, 0);
    ck_assert_uint_eq(pool_owner(&pool, first)->message, 7);
    pool_give(&pool, first);
    ck_assert_ptr_eq(pool_take(&pool, 1, owner), first);
    free(memory);
}
END_TEST

START_TEST(pool__holds_what_was_taken_only)
{
    const struct pool_owner owner = {0};
    uint8_t *at;

    set_up();
    at = pool_take(&pool, 1000, owner);
    ck_assert(pool_holds(&pool, at));
    ck_assert(!pool_holds(&pool, at + 256));
    ck_assert(!pool_holds(&pool, at + 1));
    ck_assert(!pool_holds(&pool, &pool));
    pool_give(&pool, at);
    ck_assert(!pool_holds(&pool, at));
    free(memory);
}
END_TEST

/* Blocks never overlap, and when all are given back the largest can be had again. */
START_TEST(pool__random_use_merges_back)
{
    const struct pool_owner owner = {0};
    uint8_t *held[HELD_MAX];
    uint64_t cost[HELD_MAX];
    uint32_t count = 0;

    srand((unsigned)suite_seed(0));
    set_up();
    for (unsigned step = 0; step < 50000; step++) {
        uint32_t pick = count > 0 ? (uint32_t)rand() % count : 0;

        if (count < HELD_MAX && rand() % 2 == 0) {
            uint64_t len = 1u << rand() % 17;

            held[count] = pool_take(&pool, len, owner);
            cost[count] = pool_cost(len);
            if (!held[count])
                continue;
            memset(held[count], (int)(count & 0xff), cost[count]);
            held[count][0] = 1;
            count++;
        } else if (count > 0) {
            ck_assert_uint_eq(held[pick][0], 1); /* nobody wrote over its beginning */
            pool_give(&pool, held[pick]);
            held[pick] = held[--count];
            cost[pick] = cost[count];
        }
    }
    while (count > 0)
        pool_give(&pool, held[--count]);
    ck_assert_uint_eq(pool.free_bytes, REGION);
    ck_assert_ptr_nonnull(pool_take(&pool, 131072, owner));
    ck_assert_ptr_null(pool_take(&pool, 131072, owner));
    free(memory);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        pool__cost_is_the_power_of_two,
        pool__takes_exactly_what_there_is,
        pool__holds_what_was_taken_only,
        pool__random_use_merges_back,
    };

    return SUITE_MAIN(argc, argv, "pool", tests);
}
