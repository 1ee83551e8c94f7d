/* SPDX-License-Identifier: MIT */
#include "nn/nn.h"

#include <check.h>
#include <stdlib.h>

static const uint64_t counts[] = {1,  2,   3,   4,   5,   7,   8,   13,   16,   17,   31,   64,
                                  97, 100, 127, 128, 255, 256, 257, 1000, 1024, 4095, 4099, 60000};

START_TEST(order__visits_every_sample_exactly_once)
{
    uint64_t count = counts[_i];
    bool *seen = calloc(count, sizeof *seen);

    ck_assert_ptr_nonnull(seen);
    for (uint64_t position = 0; position < count; position++) {
        uint64_t id = nn_order(42, 3, count, position);

        ck_assert_uint_lt(id, count);
        ck_assert_msg(!seen[id], "count %llu: sample %llu stands there twice",
                      (unsigned long long)count, (unsigned long long)id);
        seen[id] = true;
    }
    free(seen);
}
END_TEST

/* How many of 1000 positions hold the same sample in both orders; by chance it is one. */
static int same_places(uint64_t seed_a, uint64_t epoch_a, uint64_t seed_b, uint64_t epoch_b)
{
    int same = 0;

    for (uint64_t position = 0; position < 1000; position++)
        same +=
            nn_order(seed_a, epoch_a, 1000, position) == nn_order(seed_b, epoch_b, 1000, position);
    return same;
}

START_TEST(order__differs_from_epoch_to_epoch)
{
    for (uint64_t epoch = 0; epoch < 20; epoch++)
        ck_assert_int_lt(same_places(7, epoch, 7, epoch + 1), 12);
}
END_TEST

START_TEST(order__differs_from_seed_to_seed)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        ck_assert_int_lt(same_places(seed, 0, seed + 1, 0), 12);
    ck_assert_int_lt(same_places(1, 0, UINT64_C(1) << 32 | 1, 0), 12);
}
END_TEST

START_TEST(order__is_the_same_on_every_machine)
{
    /* From a second implementation, in Python. */
    static const uint64_t expected[8] = {13962, 10162, 16440, 24677, 49507, 41024, 53077, 18213};

    for (uint64_t position = 0; position < 8; position++)
        ck_assert_uint_eq(nn_order(1, 0, 60000, position), expected[position]);
    ck_assert_uint_eq(nn_order(UINT64_C(0xfedcba9876543210), 9, UINT64_C(1) << 40, 12345),
                      UINT64_C(270237242469));
    ck_assert_uint_eq(nn_order(5, 2, UINT64_MAX, 0), UINT64_C(9872919326751940121));
}
END_TEST

/* A sample's neighbours are spread over the whole set: in every tenth of an epoch about a tenth of
 * the samples come from each tenth of the file. */
START_TEST(order__mixes_the_whole_range)
{
    int tenths[10][10] = {{0}};

    for (uint64_t position = 0; position < 10000; position++)
        tenths[position / 1000][nn_order(11, 0, 10000, position) / 1000]++;
    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < 10; j++) {
            ck_assert_int_gt(tenths[i][j], 50); /* 100 expected, 9 deviates by one sigma */
            ck_assert_int_lt(tenths[i][j], 150);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("order");
    TCase *tests = tcase_create("order");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, order__visits_every_sample_exactly_once, 0,
                        (int)(sizeof counts / sizeof counts[0]));
    tcase_add_test(tests, order__differs_from_epoch_to_epoch);
    tcase_add_test(tests, order__differs_from_seed_to_seed);
    tcase_add_test(tests, order__is_the_same_on_every_machine);
    tcase_add_test(tests, order__mixes_the_whole_range);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
