/* SPDX-License-Identifier: MIT */
#include "rdt/core/credit.h"
#include "suite.h"

static void spend(struct credit *credit, uint64_t cost)
{
    credit->begun += cost;
    ck_assert_uint_le(credit->begun, credit->limit);
}

START_TEST(credit__first_takes_half_of_the_bank)
{
    struct credit_bank bank = {.left = 1000};
    struct credit a;
    struct credit b;

    credit_init(&a, &bank, 100);
    credit_init(&b, &bank, 100);
    ck_assert_uint_eq(a.limit, 100 + 500);
    ck_assert_uint_eq(b.limit, 100 + 250);
    ck_assert_uint_eq(bank.left, 250);
    credit_fini(&a, &bank);
    credit_fini(&b, &bank);
    ck_assert_uint_eq(bank.left, 1000);
}
END_TEST

START_TEST(credit__limit_rises_by_what_is_returned)
{
    struct credit_bank bank = {.left = 0};
    struct credit a;

    credit_init(&a, &bank, 100);
    spend(&a, 60);
    ck_assert_uint_eq(a.limit, 100);
    credit_return(&a, &bank, 60);
    ck_assert_uint_eq(a.limit, 160);
    spend(&a, 100);
}
END_TEST

/* Random use by several: what is promised never exceeds what there is, and limits never fall. */
START_TEST(credit__promises_are_covered)
{
    enum {
        COUNT = 5,
        BASE = 1000,
        BANK = 50000,
    };
    struct credit_bank bank = {.left = BANK};
    struct credit credits[COUNT];
    uint64_t limits[COUNT];

    srand((unsigned)suite_seed(0));
    for (int i = 0; i < COUNT; i++) {
        credit_init(&credits[i], &bank, BASE);
        limits[i] = credits[i].limit;
    }
    for (unsigned step = 0; step < 3000; step++) {
        struct credit *c = &credits[rand() % COUNT];
        uint64_t room = c->limit - c->begun;
        uint64_t out = c->begun - c->returned;
        uint64_t promised = 0;

        if (rand() % 2 == 0 && room > 0)
            spend(c, 1 + (uint64_t)rand() % room);
        else if (out > 0)
            credit_return(c, &bank, 1 + (uint64_t)rand() % out);
        for (int i = 0; i < COUNT; i++) {
            ck_assert_uint_ge(credits[i].limit, limits[i]);
            limits[i] = credits[i].limit;
            promised += credits[i].limit - credits[i].returned;
        }
        ck_assert_uint_le(promised, COUNT * BASE + BANK);
    }
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {
        credit__first_takes_half_of_the_bank,
        credit__limit_rises_by_what_is_returned,
        credit__promises_are_covered,
    };

    return SUITE_MAIN(argc, argv, "credit", tests);
}
