/* SPDX-License-Identifier: MIT */
#include "disk.h"
#include "nn/nn.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three images of 2 x 2 pixels, and their labels. */
static const uint8_t images[] = {0, 0, 8,  3,  0,  0,  0,  3,  0,  0,  0,  2,  0,  0,
                                 0, 2, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};

static struct nn_dataset *data;
static struct nn_error error;

static void set_up(void)
{
    disk_open();
    data = NULL;
    memset(&error, 0, sizeof error);
}

static void tear_down(void)
{
    nn_dataset_free(data);
    disk_close();
}

/* Reading must fail with this code, name this file and give this reason. */
static void expect_failure(const char *image_path, const char *label_path, int code,
                           const char *culprit, const char *reason)
{
    ck_assert_int_eq(nn_dataset_read_idx(&data, image_path, label_path, 0, 10, &error), code);
    ck_assert_ptr_null(data);
    ck_assert_msg(strstr(error.text, culprit) != NULL, "'%s' is not in: %s", culprit, error.text);
    ck_assert_msg(strstr(error.text, reason) != NULL, "'%s' is not in: %s", reason, error.text);
    ck_assert_ptr_null(strchr(error.text, '\n'));
}

static void expect_all_three(void)
{
    ck_assert_uint_eq(nn_dataset_count(data), 3);
    ck_assert_uint_eq(nn_dataset_sample_bytes(data), 8);
    ck_assert_mem_eq(nn_dataset_get(data, 0), "\x0a\x0b\x0c\x0d\x07\0\0\0", 8);
    ck_assert_mem_eq(nn_dataset_get(data, 1), "\x14\x15\x16\x17\0\0\0\0", 8);
    ck_assert_mem_eq(nn_dataset_get(data, 2), "\x1e\x1f\x20\x21\x09\0\0\0", 8);
}

START_TEST(idx__reads_plain_files)
{
    ck_assert_int_eq(nn_dataset_read_idx(&data, disk_put("i", images, sizeof images),
                                         disk_put("l", labels, sizeof labels), 0, 10, &error),
                     NN_OK);
    expect_all_three();
}
END_TEST

START_TEST(idx__reads_gzip_with_the_same_digest)
{
    struct nn_dataset *plain;
    struct nn_digest a;
    struct nn_digest b;

    ck_assert_int_eq(nn_dataset_read_idx(&data, disk_put_gzip("i.gz", images, sizeof images),
                                         disk_put_gzip("l.gz", labels, sizeof labels), 0, 10,
                                         &error),
                     NN_OK);
    expect_all_three();
    ck_assert_int_eq(nn_dataset_read_idx(&plain, disk_put("i", images, sizeof images),
                                         disk_put("l", labels, sizeof labels), 0, 10, &error),
                     NN_OK);
    a = nn_dataset_digest(data);
    b = nn_dataset_digest(plain);
    ck_assert_mem_eq(a.bytes, b.bytes, sizeof a.bytes);
    nn_dataset_free(plain);
}
END_TEST

START_TEST(idx__limit_takes_the_first_samples)
{
    const char *image_path = disk_put("i", images, sizeof images);
    const char *label_path = disk_put("l", labels, sizeof labels);

    ck_assert_int_eq(nn_dataset_read_idx(&data, image_path, label_path, 2, 10, &error), NN_OK);
    ck_assert_uint_eq(nn_dataset_count(data), 2);
    ck_assert_mem_eq(nn_dataset_get(data, 1), "\x14\x15\x16\x17\0\0\0\0", 8);
    nn_dataset_free(data);
    ck_assert_int_eq(nn_dataset_read_idx(&data, image_path, label_path, 99, 10, &error), NN_OK);
    expect_all_three();
}
END_TEST

START_TEST(idx__missing_file_is_named)
{
    expect_failure(disk_path("none"), disk_put("l", labels, sizeof labels), NN_EIO, "none",
                   "No such file");
    expect_failure(disk_put("i", images, sizeof images), disk_path("none"), NN_EIO, "none",
                   "No such file");
}
END_TEST

START_TEST(idx__directory_and_device_are_refused)
{
    expect_failure(disk_path("."), disk_path("l"), NN_EIO, "", "is a directory");
    expect_failure("/dev/zero", disk_path("l"), NN_EIO, "/dev/zero", "not a file");
}
END_TEST

START_TEST(idx__pipe_without_writer_does_not_block)
{
    ck_assert(disk_shell("mkfifo pipe"));
    expect_failure(disk_path("pipe"), disk_path("l"), NN_EIO, "pipe", "not a file");
}
END_TEST

/* One byte of a good file changed: at `at` to `value`. */
static const struct bent {
    size_t at;
    uint8_t value;
    const char *reason;
} bent[] = {
    {0, 1, "not an IDX file"},
    {1, 0xff, "not an IDX file"},
    {2, 0x0d, "type 0x0d"},
    {3, 1, "1 dimensions, but images have 2 to 4"},
    {3, 5, "5 dimensions"},
    {3, 0, "0 dimensions"},
    {7, 0, "dimension 0 is 0"},
    {11, 0, "dimension 1 is 0"},
    {4, 0xff, "truncated"},   /* four billion samples */
    {8, 0xff, "larger than"}, /* of four billion rows */
    {15, 3, "truncated"},
    {15, 1, "bytes follow"},
    {7, 2, "2 samples, but 3 labels"},
    {7, 4, "4 samples, but 3 labels"},
};

START_TEST(idx__refuses_a_bent_header)
{
    const struct bent *b = &bent[_i];
    uint8_t bytes[sizeof images];

    memcpy(bytes, images, sizeof images);
    bytes[b->at] = b->value;
    expect_failure(disk_put("i", bytes, sizeof bytes), disk_put("l", labels, sizeof labels),
                   NN_EFORMAT, "/i: ", b->reason);
    expect_failure(disk_put_gzip("i", bytes, sizeof bytes), disk_put("l", labels, sizeof labels),
                   NN_EFORMAT, "/i: ", b->reason);
}
END_TEST

START_TEST(idx__refuses_every_truncation)
{
    for (size_t len = 0; len < sizeof images; len++)
        expect_failure(disk_put("i", images, len), disk_put("l", labels, sizeof labels), NN_EFORMAT,
                       "/i: ", "truncated");
    for (size_t len = 0; len < sizeof labels; len++)
        expect_failure(disk_put("i", images, sizeof images), disk_put("l", labels, len), NN_EFORMAT,
                       "/l: ", "truncated");
}
END_TEST

/* The compressed stream itself cut, at every place. */
START_TEST(idx__refuses_every_truncation_of_the_gzip_stream)
{
    size_t len;
    uint8_t *bytes = disk_get(disk_put_gzip("whole", images, sizeof images), &len);

    for (size_t cut = 0; cut < len; cut++) {
        const char *path = disk_put("i", bytes, cut);

        ck_assert_int_eq(
            nn_dataset_read_idx(&data, path, disk_put("l", labels, sizeof labels), 0, 10, &error),
            NN_EFORMAT);
    }
    free(bytes);
}
END_TEST

START_TEST(idx__refuses_a_damaged_gzip_stream)
{
    size_t len;
    uint8_t *bytes = disk_get(disk_put_gzip("whole", images, sizeof images), &len);

    bytes[len - 6] ^= 1; /* of the checksum at the end */
    expect_failure(disk_put("i", bytes, len), disk_put("l", labels, sizeof labels), NN_EFORMAT,
                   "/i: ", "damaged gzip");
    free(bytes);
}
END_TEST

START_TEST(idx__refuses_bytes_after_the_last_sample)
{
    uint8_t bytes[sizeof labels + 1] = {0};

    memcpy(bytes, labels, sizeof labels);
    expect_failure(disk_put("i", images, sizeof images), disk_put("l", bytes, sizeof bytes),
                   NN_EFORMAT, "/l: ", "bytes follow");
}
END_TEST

START_TEST(idx__refuses_swapped_files)
{
    expect_failure(disk_put("l", labels, sizeof labels), disk_put("i", images, sizeof images),
                   NN_EFORMAT, "/l: ", "swapped");
    expect_failure(disk_put("i", images, sizeof images), disk_path("i"), NN_EFORMAT,
                   "/i: ", "swapped");
}
END_TEST

START_TEST(idx__refuses_a_label_the_model_has_no_output_for)
{
    int err = nn_dataset_read_idx(&data, disk_put("i", images, sizeof images),
                                  disk_put("l", labels, sizeof labels), 0, 9, &error);

    ck_assert_int_eq(err, NN_EFORMAT);
    ck_assert_ptr_nonnull(strstr(error.text, "label 9 of sample 2"));
    ck_assert_ptr_nonnull(strstr(error.text, "0 to 8"));
}
END_TEST

START_TEST(idx__error_may_be_null)
{
    ck_assert_int_eq(nn_dataset_read_idx(&data, disk_path("a"), disk_path("b"), 0, 10, NULL),
                     NN_EIO);
}
END_TEST

/* A long path loses its beginning, never the reason. */
START_TEST(idx__long_path_keeps_the_reason)
{
    char path[600];

    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    expect_failure(path, "l", NN_EIO, "...aaa", "File name too long");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("idx");
    TCase *tests = tcase_create("idx");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, idx__reads_plain_files);
    tcase_add_test(tests, idx__reads_gzip_with_the_same_digest);
    tcase_add_test(tests, idx__limit_takes_the_first_samples);
    tcase_add_test(tests, idx__missing_file_is_named);
    tcase_add_test(tests, idx__directory_and_device_are_refused);
    tcase_add_test(tests, idx__pipe_without_writer_does_not_block);
    tcase_add_loop_test(tests, idx__refuses_a_bent_header, 0, (int)(sizeof bent / sizeof bent[0]));
    tcase_add_test(tests, idx__refuses_every_truncation);
    tcase_add_test(tests, idx__refuses_every_truncation_of_the_gzip_stream);
    tcase_add_test(tests, idx__refuses_a_damaged_gzip_stream);
    tcase_add_test(tests, idx__refuses_bytes_after_the_last_sample);
    tcase_add_test(tests, idx__refuses_swapped_files);
    tcase_add_test(tests, idx__refuses_a_label_the_model_has_no_output_for);
    tcase_add_test(tests, idx__error_may_be_null);
    tcase_add_test(tests, idx__long_path_keeps_the_reason);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
