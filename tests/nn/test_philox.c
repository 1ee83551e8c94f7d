/* SPDX-License-Identifier: MIT */
#include "nn/nn.h"

#include "suite.h"

#include <string.h>

/* The known answers published with Random123. */
START_TEST(philox__known_answers)
{
    static const struct {
        uint64_t key, low, high;
        uint32_t out[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {UINT64_C(0x299f31d0a4093822),
         UINT64_C(0x85a308d3243f6a88),
         UINT64_C(0x0370734413198a2e),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[4];
        nn_philox(known[i].key, known[i].low, known[i].high, out);
        for (int j = 0; j < 4; j++)
            ck_assert_uint_eq(out[j], known[i].out[j]);
    }
}
END_TEST

START_TEST(philox__every_argument_counts)
{
    uint32_t base[4];
    uint32_t other[4];

    nn_philox(1, 2, 3, base);
    for (int bit = 0; bit < 64; bit++) {
        uint64_t flip = (uint64_t)1 << bit;
        nn_philox(1 ^ flip, 2, 3, other);
        ck_assert_int_ne(memcmp(base, other, sizeof base), 0);
        nn_philox(1, 2 ^ flip, 3, other);
        ck_assert_int_ne(memcmp(base, other, sizeof base), 0);
        nn_philox(1, 2, 3 ^ flip, other);
        ck_assert_int_ne(memcmp(base, other, sizeof base), 0);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {philox__known_answers, philox__every_argument_counts};

    return RUN_SUITE("philox", tests);
}
