/* SPDX-License-Identifier: MIT */
#include "random.h"

#include <cluster/body.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint8_t buffer[BODY_MAX];

static const struct body_join join_example = {
    .instance = UINT64_C(0x0123456789abcdef), .threads = 2, .name = "n1"};

static struct body_welcome welcome_example(void)
{
    static const char model[] = "{\"input\": [784]}";
    struct body_welcome welcome = {
        .parameters = 669706,
        .seed = 7,
        .epochs = 3,
        .batch = 256,
        .leaf = 32,
        .eval_leaf = 1000,
        .drop_last = true,
        .scale = 1.0 / 255,
        .deviation = 1,
        .train = {.digest = {1, 2, 3},
                  .count = 60000,
                  .sample_bytes = 788,
                  .images = "/data/train-images.gz",
                  .labels = "/data/train-labels.gz"},
        .kernel = "SkylakeX",
        .model = model,
        .model_len = sizeof model - 1,
    };

    return welcome;
}

/* Every length but the right one must be refused; each prefix in a block of exactly its size. */
static void check_lengths(bool (*decodes)(const uint8_t *, size_t), size_t len)
{
    for (size_t n = 0; n <= len + 1; n++) {
        uint8_t *copy = malloc(n + (n == 0));

        ck_assert_ptr_nonnull(copy);
        memcpy(copy, buffer, n);
        ck_assert_int_eq(decodes(copy, n), n == len);
        free(copy);
    }
}

static bool join_decodes(const uint8_t *body, size_t len)
{
    struct body_join out;

    return body_join_decode(&out, body, len);
}

static bool welcome_decodes(const uint8_t *body, size_t len)
{
    static struct body_welcome out;

    return body_welcome_decode(&out, body, len);
}

static bool refuse_decodes(const uint8_t *body, size_t len)
{
    char out[BODY_TEXT_MAX];

    return body_refuse_decode(out, body, len);
}

static bool ready_decodes(const uint8_t *body, size_t len)
{
    struct body_ready out;

    return body_ready_decode(&out, body, len);
}

static bool samples_decodes(const uint8_t *body, size_t len)
{
    struct body_samples out;

    return body_samples_decode(&out, body, len);
}

static bool partial_decodes(const uint8_t *body, size_t len)
{
    struct body_trailer out;

    return body_partial_decode(&out, 3, body, len);
}

START_TEST(body__join_round_trip_and_golden_bytes)
{
    static const uint8_t golden[] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
                                     0x02, 0x00, 0x00, 0x00, 0x02, 0x00, 'n',  '1'};
    struct body_join out;
    size_t len = body_join_encode(&join_example, buffer);

    ck_assert_uint_eq(len, sizeof golden);
    ck_assert_mem_eq(buffer, golden, len);
    ck_assert(body_join_decode(&out, buffer, len));
    ck_assert_uint_eq(out.instance, join_example.instance);
    ck_assert_uint_eq(out.threads, 2);
    ck_assert_str_eq(out.name, "n1");
    check_lengths(join_decodes, len);
}
END_TEST

START_TEST(body__names_are_labels)
{
    char longest[BODY_NAME_MAX + 1] = {0};

    ck_assert(body_name_ok("a-B_9.x"));
    ck_assert(!body_name_ok(""));
    ck_assert(!body_name_ok("a b"));
    ck_assert(!body_name_ok("a=b"));
    ck_assert(!body_name_ok("a\nlost"));
    ck_assert(!body_name_ok("\xc3\xa9"));
    memset(longest, 'x', BODY_NAME_MAX - 1);
    ck_assert(body_name_ok(longest));
    longest[BODY_NAME_MAX - 1] = 'x';
    ck_assert(!body_name_ok(longest));
}
END_TEST

START_TEST(body__join_with_a_bad_name_or_no_threads_is_garbage)
{
    size_t len = body_join_encode(&join_example, buffer);

    buffer[14] = ' ';
    ck_assert(!join_decodes(buffer, len));
    buffer[14] = '\0';
    ck_assert(!join_decodes(buffer, len));
    buffer[14] = 'n';
    buffer[8] = 0;
    ck_assert(!join_decodes(buffer, len));
    buffer[8] = 2;
    buffer[10] = 1;
    ck_assert(!join_decodes(buffer, len));
    buffer[10] = 0;
    ck_assert(join_decodes(buffer, len));
}
END_TEST

START_TEST(body__welcome_round_trip)
{
    static struct body_welcome out;
    struct body_welcome in = welcome_example();
    size_t len = body_welcome_encode(&in, buffer);

    ck_assert(body_welcome_decode(&out, buffer, len));
    ck_assert_uint_eq(out.parameters, in.parameters);
    ck_assert_uint_eq(out.seed, 7);
    ck_assert_uint_eq(out.epochs, 3);
    ck_assert_uint_eq(out.batch, 256);
    ck_assert_uint_eq(out.leaf, 32);
    ck_assert_uint_eq(out.eval_leaf, 1000);
    ck_assert(out.drop_last);
    ck_assert_double_eq(out.scale, 1.0 / 255);
    ck_assert_double_eq(out.mean, 0);
    ck_assert_double_eq(out.deviation, 1);
    ck_assert_mem_eq(out.train.digest, in.train.digest, BODY_DIGEST);
    ck_assert_uint_eq(out.train.count, 60000);
    ck_assert_uint_eq(out.train.sample_bytes, 788);
    ck_assert_str_eq(out.train.images, in.train.images);
    ck_assert_str_eq(out.train.labels, in.train.labels);
    ck_assert_uint_eq(out.test.count, 0);
    ck_assert_str_eq(out.test.images, "");
    ck_assert_str_eq(out.kernel, "SkylakeX");
    ck_assert_uint_eq(out.model_len, in.model_len);
    ck_assert_mem_eq(out.model, in.model, in.model_len);
    check_lengths(welcome_decodes, len);
}
END_TEST

START_TEST(body__welcome_with_senseless_numbers_is_garbage)
{
    static const double bad[] = {0, NAN, INFINITY};
    struct body_welcome in;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        in = welcome_example();
        in.deviation = bad[i];
        ck_assert(!welcome_decodes(buffer, body_welcome_encode(&in, buffer)));
    }
    in = welcome_example();
    in.batch = 0;
    ck_assert(!welcome_decodes(buffer, body_welcome_encode(&in, buffer)));
    in = welcome_example();
    in.leaf = 0;
    ck_assert(!welcome_decodes(buffer, body_welcome_encode(&in, buffer)));
    in = welcome_example();
    in.eval_leaf = 0;
    ck_assert(!welcome_decodes(buffer, body_welcome_encode(&in, buffer)));
    in = welcome_example();
    in.train.sample_bytes = 0;
    ck_assert(!welcome_decodes(buffer, body_welcome_encode(&in, buffer)));
    in = welcome_example();
    ck_assert(welcome_decodes(buffer, body_welcome_encode(&in, buffer)));
}
END_TEST

START_TEST(body__the_largest_welcome_fits)
{
    static char model[BODY_MODEL_MAX];
    static struct body_welcome in;
    static struct body_welcome out;
    size_t len;

    in = welcome_example();
    memset(model, ' ', sizeof model);
    in.model = model;
    in.model_len = sizeof model;
    memset(in.train.images, 'x', BODY_PATH_MAX - 1);
    memset(in.train.labels, 'x', BODY_PATH_MAX - 1);
    memset(in.test.images, 'x', BODY_PATH_MAX - 1);
    memset(in.test.labels, 'x', BODY_PATH_MAX - 1);
    memset(in.kernel, 'x', BODY_NAME_MAX - 1);
    len = body_welcome_encode(&in, buffer);
    ck_assert(body_welcome_decode(&out, buffer, len));
    ck_assert_str_eq(out.test.labels, in.test.labels);
    ck_assert_str_eq(out.kernel, in.kernel);
}
END_TEST

START_TEST(body__refuse_round_trip_cuts_and_cleans)
{
    char text[2 * BODY_TEXT_MAX];
    char out[BODY_TEXT_MAX];
    size_t len = body_refuse_encode("no: \x1b[2J another\nkernel", buffer);

    ck_assert(body_refuse_decode(out, buffer, len));
    ck_assert_str_eq(out, "no: ?[2J another?kernel");
    check_lengths(refuse_decodes, len);
    buffer[3] = '\n';
    ck_assert(!refuse_decodes(buffer, len));
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert(body_refuse_decode(out, buffer, body_refuse_encode(text, buffer)));
    ck_assert_uint_eq(strlen(out), BODY_TEXT_MAX - 1);
}
END_TEST

START_TEST(body__ready_round_trip)
{
    struct body_ready in = {.fingerprint = UINT64_MAX - 5, .has_train = true};
    struct body_ready out;
    size_t len = body_ready_encode(&in, buffer);

    ck_assert(body_ready_decode(&out, buffer, len));
    ck_assert_uint_eq(out.fingerprint, in.fingerprint);
    ck_assert(out.has_train);
    ck_assert(!out.has_test);
    check_lengths(ready_decodes, len);
    buffer[9] = 2;
    ck_assert(!ready_decodes(buffer, len));
}
END_TEST

START_TEST(body__samples_round_trip)
{
    uint8_t sample[5];
    struct body_samples out;
    size_t len = body_samples_len(3, sizeof sample);

    body_samples_start(buffer, BODY_TEST, 3, sizeof sample);
    for (uint32_t i = 0; i < 3; i++) {
        memset(sample, (int)('a' + i), sizeof sample);
        body_samples_put(buffer, i, UINT64_C(10000000000) * i, sample);
    }
    ck_assert(body_samples_decode(&out, buffer, len));
    ck_assert_int_eq(out.which, BODY_TEST);
    ck_assert_uint_eq(out.count, 3);
    ck_assert_uint_eq(out.sample_bytes, 5);
    for (uint32_t i = 0; i < 3; i++) {
        memset(sample, (int)('a' + i), sizeof sample);
        ck_assert_uint_eq(body_samples_id(&out, i), UINT64_C(10000000000) * i);
        ck_assert_mem_eq(body_samples_at(&out, i), sample, sizeof sample);
    }
    check_lengths(samples_decodes, len);
}
END_TEST

START_TEST(body__samples_fill_a_message_and_not_more)
{
    ck_assert_uint_eq(body_samples_max(788), 82);
    ck_assert_uint_le(body_samples_len(82, 788), BODY_MAX);
    ck_assert_uint_eq(body_samples_max(1), (BODY_MAX - 12) / 9);
    ck_assert_uint_eq(body_samples_max(BODY_MAX), 0);
    ck_assert_uint_eq(body_samples_max(UINT32_MAX), 0);
}
END_TEST

/* Counts and sizes whose product wraps must not pass. */
START_TEST(body__samples_with_hostile_counts_are_garbage)
{
    static const uint32_t hostile[] = {0,          1,          2,          0x10000,    0x20000000,
                                       0x55555556, 0x7fffffff, 0x80000000, 0xfffffffb, UINT32_MAX};
    size_t n = sizeof hostile / sizeof *hostile;

    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            memset(buffer, 0, 64);
            memcpy(buffer + 4, &hostile[a], 4);
            memcpy(buffer + 8, &hostile[b], 4);
            for (size_t len = 0; len <= 64; len++) {
                bool fits = len >= 12 && hostile[a] > 0 && hostile[b] > 0 && hostile[a] < 64 &&
                            hostile[b] < 64 && len - 12 == hostile[a] * (8 + (size_t)hostile[b]);

                ck_assert_int_eq(samples_decodes(buffer, len), fits);
            }
        }
    }
    memset(buffer, 0, 64);
    body_samples_start(buffer, BODY_TRAIN, 1, 1);
    buffer[0] = 2;
    ck_assert(!samples_decodes(buffer, body_samples_len(1, 1)));
}
END_TEST

START_TEST(body__partial_is_floats_and_a_trailer)
{
    struct body_trailer in = {.loss = 1.25, .correct = 17, .finite = true};
    struct body_trailer out;
    size_t len = body_partial_len(3);

    memset(buffer, 0, len);
    ck_assert_uint_eq(len, 28);
    body_trailer_encode(&in, buffer + 12);
    ck_assert(body_partial_decode(&out, 3, buffer, len));
    ck_assert_double_eq(out.loss, 1.25);
    ck_assert_uint_eq(out.correct, 17);
    ck_assert(out.finite);
    check_lengths(partial_decodes, len);
    ck_assert(!body_partial_decode(&out, 2, buffer, len));
    ck_assert(!body_partial_decode(&out, UINT64_MAX / 4, buffer, len));
    buffer[24] = 2;
    ck_assert(!partial_decodes(buffer, len));
    in = (struct body_trailer){.loss = NAN};
    body_trailer_encode(&in, buffer + 12);
    ck_assert(body_partial_decode(&out, 3, buffer, len));
    ck_assert(!out.finite);
    buffer[24] = 1;
    ck_assert(!partial_decodes(buffer, len));
}
END_TEST

START_TEST(body__evaluated_round_trip)
{
    struct body_result in = {.loss = 2.5, .correct = 9};
    struct body_result out;

    body_evaluated_put(buffer, 0, &in);
    in.correct = 10;
    body_evaluated_put(buffer, 1, &in);
    ck_assert_uint_eq(body_evaluated_len(2), 24);
    ck_assert(body_evaluated_ok(2, 24));
    ck_assert(!body_evaluated_ok(2, 23));
    ck_assert(!body_evaluated_ok(UINT32_MAX, 24));
    ck_assert(!body_evaluated_ok(BODY_RESULTS_MAX + 1, (BODY_RESULTS_MAX + 1) * 12));
    out = body_evaluated_get(buffer, 1);
    ck_assert_double_eq(out.loss, 2.5);
    ck_assert_uint_eq(out.correct, 10);
}
END_TEST

static void decode_all(const uint8_t *body, size_t len)
{
    struct body_samples samples;

    join_decodes(body, len);
    welcome_decodes(body, len);
    refuse_decodes(body, len);
    ready_decodes(body, len);
    partial_decodes(body, len);
    if (!body_samples_decode(&samples, body, len))
        return;
    for (uint32_t i = 0; i < samples.count; i++) {
        const uint8_t *sample = body_samples_at(&samples, i);

        body_samples_id(&samples, i);
        ck_assert(sample >= body && sample + samples.sample_bytes <= body + len);
    }
}

/* Random bytes, and good bodies with some bytes changed, in blocks of exactly their size. */
START_TEST(body__hostile_bytes_never_crash)
{
    uint64_t state = random_seed();
    struct body_welcome welcome = welcome_example();

    for (int i = 0; i < 50000; i++) {
        size_t len = random_below(&state, 200);
        bool grown = i % 2 != 0;
        uint8_t *body;

        if (grown && i % 4 == 1)
            len = body_welcome_encode(&welcome, buffer);
        else if (grown)
            len = body_join_encode(&join_example, buffer);
        body = malloc(len + (len == 0));
        ck_assert_ptr_nonnull(body);
        memcpy(body, buffer, len);
        if (!grown)
            random_fill(&state, body, len);
        for (uint64_t flips = random_below(&state, 4); grown && flips > 0; flips--)
            body[random_below(&state, len)] = (uint8_t)random_next(&state);
        decode_all(body, len);
        free(body);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("body");
    TCase *tcase = tcase_create("body");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, body__join_round_trip_and_golden_bytes);
    tcase_add_test(tcase, body__names_are_labels);
    tcase_add_test(tcase, body__join_with_a_bad_name_or_no_threads_is_garbage);
    tcase_add_test(tcase, body__welcome_round_trip);
    tcase_add_test(tcase, body__welcome_with_senseless_numbers_is_garbage);
    tcase_add_test(tcase, body__the_largest_welcome_fits);
    tcase_add_test(tcase, body__refuse_round_trip_cuts_and_cleans);
    tcase_add_test(tcase, body__ready_round_trip);
    tcase_add_test(tcase, body__samples_round_trip);
    tcase_add_test(tcase, body__samples_fill_a_message_and_not_more);
    tcase_add_test(tcase, body__samples_with_hostile_counts_are_garbage);
    tcase_add_test(tcase, body__partial_is_floats_and_a_trailer);
    tcase_add_test(tcase, body__evaluated_round_trip);
    tcase_add_test(tcase, body__hostile_bytes_never_crash);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
