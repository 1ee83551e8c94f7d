/* SPDX-License-Identifier: MIT */
#include "nn/nn.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

enum { COUNT = 70, INPUTS = 3, SAMPLE_BYTES = INPUTS + 4 };

static struct nn_dataset *data;

static void set_up(void)
{
    ck_assert_int_eq(nn_dataset_open(&data, COUNT, SAMPLE_BYTES), NN_OK);
}

static void tear_down(void)
{
    nn_dataset_free(data);
}

/* Sample id: pixels id, id + 1, id + 2, label id * 1000. */
static void fill_sample(uint8_t sample[SAMPLE_BYTES], uint32_t id)
{
    uint32_t label = id * 1000;

    for (uint32_t i = 0; i < INPUTS; i++)
        sample[i] = (uint8_t)(id + i);
    for (uint32_t i = 0; i < 4; i++)
        sample[INPUTS + i] = (uint8_t)(label >> (8 * i));
}

static void put(uint32_t id)
{
    uint8_t sample[SAMPLE_BYTES];

    fill_sample(sample, id);
    nn_dataset_put(data, id, sample);
}

START_TEST(dataset__holds_only_what_was_put)
{
    uint8_t expected[SAMPLE_BYTES];

    put(0);
    put(64);
    put(COUNT - 1);
    for (uint32_t id = 0; id < COUNT; id++)
        ck_assert_int_eq(nn_dataset_has(data, id), id == 0 || id == 64 || id == COUNT - 1);
    ck_assert_ptr_null(nn_dataset_get(data, 1));
    fill_sample(expected, 64);
    ck_assert_mem_eq(nn_dataset_get(data, 64), expected, SAMPLE_BYTES);
    ck_assert_uint_eq(nn_dataset_count(data), COUNT);
    ck_assert_uint_eq(nn_dataset_sample_bytes(data), SAMPLE_BYTES);
}
END_TEST

START_TEST(dataset__has_nothing_outside)
{
    ck_assert(!nn_dataset_has(data, COUNT));
    ck_assert(!nn_dataset_has(data, UINT64_MAX));
    ck_assert_ptr_null(nn_dataset_get(data, COUNT));
}
END_TEST

START_TEST(dataset__a_held_sample_stays_as_it_is)
{
    static const uint8_t other[SAMPLE_BYTES] = {9, 9, 9, 9, 9, 9, 9};
    uint8_t expected[SAMPLE_BYTES];

    put(5);
    nn_dataset_put(data, 5, other);
    fill_sample(expected, 5);
    ck_assert_mem_eq(nn_dataset_get(data, 5), expected, SAMPLE_BYTES);
}
END_TEST

START_TEST(dataset__gathers_normalised_floats_and_labels)
{
    static const struct nn_normalize normalize = {1.0 / 255, 0.5, 0.25};
    static const uint64_t ids[2] = {66, 3};
    float x[2 * INPUTS];
    uint32_t labels[2];

    put(3);
    put(66);
    ck_assert_int_eq(nn_dataset_gather(data, &normalize, ids, 2, x, labels), NN_OK);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(labels[i], ids[i] * 1000);
        for (size_t j = 0; j < INPUTS; j++) {
            double pixel = (double)(ids[i] + j);

            /* Rounded once, from double: no tolerance. */
            ck_assert(x[i * INPUTS + j] == (float)((pixel * (1.0 / 255) - 0.5) / 0.25));
        }
    }
}
END_TEST

START_TEST(dataset__gathering_a_missing_sample_touches_nothing)
{
    static const struct nn_normalize normalize = {1.0, 0.0, 1.0};
    static const uint64_t missing[2] = {3, 4};
    static const uint64_t outside[2] = {3, COUNT};
    float x[2 * INPUTS] = {-1, -1, -1, -1, -1, -1};
    uint32_t labels[2] = {77, 77};

    put(3);
    ck_assert_int_eq(nn_dataset_gather(data, &normalize, missing, 2, x, labels), NN_EMISSING);
    ck_assert_int_eq(nn_dataset_gather(data, &normalize, outside, 2, x, labels), NN_EMISSING);
    ck_assert(x[0] == -1.0f);
    ck_assert_uint_eq(labels[0], 77);
}
END_TEST

START_TEST(dataset__refuses_a_normalisation_that_is_not_finite)
{
    static const struct nn_normalize zero = {1.0, 0.0, 0.0};
    static const struct nn_normalize huge = {1e300, 0.0, 1e-300};
    static const uint64_t ids[1] = {3};
    float x[INPUTS];
    uint32_t label;

    put(3);
    ck_assert(!nn_normalize_ok(&zero));
    ck_assert(!nn_normalize_ok(&huge));
    ck_assert_int_eq(nn_dataset_gather(data, &zero, ids, 1, x, &label), NN_EINVAL);
    ck_assert_int_eq(nn_dataset_gather(data, &huge, ids, 1, x, &label), NN_EINVAL);
}
END_TEST

static void *put_all(void *unused)
{
    (void)unused;
    for (uint32_t id = 1; id < COUNT; id++)
        put(id);
    return NULL;
}

/* Of use under the thread sanitizer: samples arrive while a leaf is gathered. */
START_TEST(dataset__takes_samples_in_while_others_are_read)
{
    static const struct nn_normalize normalize = {1.0, 0.0, 1.0};
    static const uint64_t first[1] = {0};
    pthread_t thread;
    float x[INPUTS];
    uint32_t label = 1;

    put(0);
    ck_assert_int_eq(pthread_create(&thread, NULL, put_all, NULL), 0);
    for (uint64_t id = 0; id < COUNT; id++) {
        ck_assert_int_eq(nn_dataset_gather(data, &normalize, first, 1, x, &label), NN_OK);
        ck_assert_uint_eq(label, 0);
        if (nn_dataset_has(data, id))
            ck_assert_uint_eq(nn_dataset_get(data, id)[0], id);
    }
    pthread_join(thread, NULL);
    ck_assert(nn_dataset_has(data, COUNT - 1));
}
END_TEST

/* The digest hashes, in this order: count, sample_bytes (u64 LE each), the samples. */
START_TEST(dataset__digest_is_that_of_dimensions_and_bytes)
{
    uint8_t bytes[16 + COUNT * SAMPLE_BYTES] = {COUNT, [8] = SAMPLE_BYTES};
    struct nn_digest expected;
    struct nn_digest digest;

    for (uint32_t id = 0; id < COUNT; id++) {
        put(id);
        fill_sample(bytes + 16 + id * SAMPLE_BYTES, id);
    }
    expected = nn_hash128(bytes, sizeof bytes);
    digest = nn_dataset_digest(data);
    ck_assert_mem_eq(digest.bytes, expected.bytes, sizeof digest.bytes);
}
END_TEST

/* The same bytes cut another way are other data. */
START_TEST(dataset__digest_depends_on_the_dimensions)
{
    static const uint8_t zeros[12] = {0};
    struct nn_dataset *tall;
    struct nn_dataset *wide;
    struct nn_digest digest_tall;
    struct nn_digest digest_wide;

    ck_assert_int_eq(nn_dataset_open(&tall, 2, 6), NN_OK);
    ck_assert_int_eq(nn_dataset_open(&wide, 1, 12), NN_OK);
    nn_dataset_put(tall, 0, zeros);
    nn_dataset_put(tall, 1, zeros);
    nn_dataset_put(wide, 0, zeros);
    digest_tall = nn_dataset_digest(tall);
    digest_wide = nn_dataset_digest(wide);
    ck_assert_mem_ne(digest_tall.bytes, digest_wide.bytes, sizeof digest_tall.bytes);
    nn_dataset_free(tall);
    nn_dataset_free(wide);
}
END_TEST

START_TEST(dataset__refuses_absurd_dimensions)
{
    struct nn_dataset *none = NULL;

    ck_assert_int_eq(nn_dataset_open(&none, 0, 5), NN_EINVAL);
    ck_assert_int_eq(nn_dataset_open(&none, 1, 4), NN_EINVAL);
    ck_assert_int_eq(nn_dataset_open(&none, UINT64_MAX, 5), NN_ENOMEM);
    ck_assert_int_eq(nn_dataset_open(&none, UINT64_C(1) << 62, 16), NN_ENOMEM);
    ck_assert_ptr_null(none);
    nn_dataset_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dataset");
    TCase *tests = tcase_create("dataset");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, dataset__holds_only_what_was_put);
    tcase_add_test(tests, dataset__has_nothing_outside);
    tcase_add_test(tests, dataset__a_held_sample_stays_as_it_is);
    tcase_add_test(tests, dataset__gathers_normalised_floats_and_labels);
    tcase_add_test(tests, dataset__gathering_a_missing_sample_touches_nothing);
    tcase_add_test(tests, dataset__refuses_a_normalisation_that_is_not_finite);
    tcase_add_test(tests, dataset__takes_samples_in_while_others_are_read);
    tcase_add_test(tests, dataset__digest_is_that_of_dimensions_and_bytes);
    tcase_add_test(tests, dataset__digest_depends_on_the_dimensions);
    tcase_add_test(tests, dataset__refuses_absurd_dimensions);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
