/* SPDX-License-Identifier: MIT */
#include "nn/nn.h"

#include "suite.h"

#include <stdio.h>

/* XXH3's answers for no bytes, as published. */
START_TEST(hash__known_answers)
{
    static const uint8_t empty128[16] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
                                         0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};

    ck_assert_uint_eq(nn_hash64(NULL, 0), UINT64_C(0x2d06800538d394c2));
    struct nn_digest digest = nn_hash128(NULL, 0);
    ck_assert_mem_eq(digest.bytes, empty128, sizeof empty128);
}
END_TEST

START_TEST(hash__of_weights_is_text_of_the_bytes)
{
    const float weights[3] = {1.0f, -2.5f, 0.0f};
    const uint8_t bytes[12] = {0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0, 0, 0, 0, 0};
    char text[17];
    char expected[17];

    nn_weights_hash(weights, 3, text);
    snprintf(expected, sizeof expected, "%016llx",
             (unsigned long long)nn_hash64(bytes, sizeof bytes));
    ck_assert_str_eq(text, expected);
    nn_weights_hash(weights, 0, text);
    ck_assert_str_eq(text, "2d06800538d394c2");
}
END_TEST

START_TEST(memory__aligned_and_zero)
{
    for (size_t count = 0; count < 100; count += 7) {
        float *floats = nn_floats(count);
        ck_assert_ptr_nonnull(floats);
        ck_assert_uint_eq((uintptr_t)floats % 64, 0);
        for (size_t i = 0; i < count; i++)
            ck_assert_float_eq(floats[i], 0.0f);
        nn_floats_free(floats);
    }
    ck_assert_ptr_null(nn_floats(SIZE_MAX / 2));
    ck_assert_ptr_null(nn_floats(SIZE_MAX));
    nn_floats_free(NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {hash__known_answers, hash__of_weights_is_text_of_the_bytes,
                                  memory__aligned_and_zero};

    return RUN_SUITE("hash", tests);
}
