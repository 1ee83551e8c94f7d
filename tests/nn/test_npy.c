/* SPDX-License-Identifier: MIT */
#include "disk.h"
#include "nn/nn.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 10, HEAD = 128 };

static struct nn_matrix matrix;
static struct nn_error error;

static void set_up(void)
{
    disk_open();
    memset(&matrix, 0, sizeof matrix);
    memset(&error, 0, sizeof error);
}

static void tear_down(void)
{
    nn_matrix_free(&matrix);
    disk_close();
}

/* Puts a version 1 file together: this dictionary, these elements. */
static const char *put_npy(const char *dictionary, const void *elements, size_t len)
{
    uint8_t bytes[1024] = "\x93NUMPY\1\0";
    size_t text = strlen(dictionary);

    ck_assert_uint_le(PREFIX + text + len, sizeof bytes);
    bytes[8] = (uint8_t)(text & 0xff);
    bytes[9] = (uint8_t)(text >> 8);
    disk_lay(disk_lay(bytes + PREFIX, dictionary, text), elements, len);
    return disk_put("m.npy", bytes, PREFIX + text + len);
}

static void expect_failure(const char *path, int code, const char *reason)
{
    ck_assert_int_eq(nn_npy_read(&matrix, path, &error), code);
    ck_assert_ptr_null(matrix.data);
    ck_assert_msg(strstr(error.text, reason) != NULL, "'%s' is not in: %s", reason, error.text);
    ck_assert_ptr_null(strchr(error.text, '\n'));
}

static void expect_matrix(size_t rows, size_t cols, const float *expected)
{
    ck_assert_uint_eq(matrix.rows, rows);
    ck_assert_uint_eq(matrix.cols, cols);
    ck_assert_uint_eq((uintptr_t)matrix.data % 64, 0);
    ck_assert_int_eq(memcmp(matrix.data, expected, rows * cols * sizeof(float)), 0);
}

static const float six[6] = {1, 2, 3, 4, 5, 6};

START_TEST(npy__writes_these_bytes)
{
    const struct nn_matrix written = {.rows = 2, .cols = 3, .data = (float[]){1, 2, 3, 4, 5, -6}};
    const char *path = disk_path("w.npy");
    uint8_t expected[HEAD + 24];
    size_t len = 0;
    uint8_t *bytes;

    memset(expected, ' ', sizeof expected);
    disk_lay(expected, "\x93NUMPY\1\0\x76\0", PREFIX);
    disk_lay(expected + PREFIX, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 59);
    expected[HEAD - 1] = '\n';
    disk_lay(expected + HEAD,
             "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\xc0", 24);
    ck_assert_int_eq(nn_npy_write(path, &written, &error), NN_OK);
    bytes = disk_get(path, &len);
    ck_assert_uint_eq(len, sizeof expected);
    ck_assert_mem_eq(bytes, expected, sizeof expected);
    free(bytes);
}
END_TEST

START_TEST(npy__what_is_written_is_read)
{
    float special[5] = {0.0f, -0.0f, INFINITY, 1e-45f, 3.4028235e38f};
    const struct nn_matrix written = {.rows = 5, .cols = 1, .data = special};
    const char *path = disk_path("w.npy");

    ck_assert_int_eq(nn_npy_write(path, &written, &error), NN_OK);
    ck_assert_int_eq(nn_npy_read(&matrix, path, &error), NN_OK);
    expect_matrix(5, 1, special);
}
END_TEST

static const struct good {
    const char *dictionary;
    size_t rows, cols;
} good[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 2, 3},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 2, 3},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2,), }", 3, 2},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }   \n", 1, 6},
    {"{\"shape\":(6,1),\"descr\":\"<f4\",\"fortran_order\":False}", 6, 1},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }", 1, 6},
};

START_TEST(npy__reads_every_good_header)
{
    const struct good *g = &good[_i];

    ck_assert_int_eq(nn_npy_read(&matrix, put_npy(g->dictionary, six, sizeof six), &error), NN_OK);
    expect_matrix(g->rows, g->cols, six);
}
END_TEST

START_TEST(npy__reads_versions_2_and_3)
{
    static const char dictionary[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    uint8_t bytes[12 + sizeof dictionary - 1 + sizeof six] = "\x93NUMPY";

    bytes[8] = sizeof dictionary - 1;
    disk_lay(disk_lay(bytes + 12, dictionary, sizeof dictionary - 1), six, sizeof six);
    for (uint8_t version = 2; version <= 3; version++) {
        bytes[6] = version;
        ck_assert_int_eq(nn_npy_read(&matrix, disk_put("v", bytes, sizeof bytes), &error), NN_OK);
        expect_matrix(2, 3, six);
        nn_matrix_free(&matrix);
    }
    bytes[6] = 4;
    expect_failure(disk_put("v", bytes, sizeof bytes), NN_EFORMAT, "version 4.0");
    bytes[6] = 2;
    bytes[11] = 0x7f;
    expect_failure(disk_put("v", bytes, sizeof bytes), NN_EFORMAT, "a header of");
}
END_TEST

START_TEST(npy__reads_fortran_order)
{
    static const float expected[6] = {1, 3, 5, 2, 4, 6};

    ck_assert_int_eq(
        nn_npy_read(
            &matrix,
            put_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", six, sizeof six),
            &error),
        NN_OK);
    expect_matrix(2, 3, expected);
}
END_TEST

START_TEST(npy__narrows_doubles)
{
    static const double wide[2] = {0.1, -INFINITY};
    static const float expected[2] = {0.1f, -INFINITY};

    ck_assert_int_eq(
        nn_npy_read(&matrix,
                    put_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }", wide,
                            sizeof wide),
                    &error),
        NN_OK);
    expect_matrix(1, 2, expected);
}
END_TEST

START_TEST(npy__refuses_doubles_that_do_not_fit)
{
    static const double wide[2] = {0.1, 1e300};

    expect_failure(
        put_npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }", wide, sizeof wide),
        NN_EFORMAT, "element (0, 1)");
}
END_TEST

static const struct bad {
    const char *dictionary;
    const char *reason;
} bad[] = {
    {"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }", "dtype '<i8'"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", "dtype '>f4'"},
    {"{'descr': '<f16', 'fortran_order': False, 'shape': (2, 3), }", "dtype '<f16'"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", "dtype: only"},
    {"{'descr': '<f4............', 'fortran_order': False, 'shape': (6,), }", "dtype: only"},
    {"{'descr': '<f4, 'fortran_order': False, 'shape': (6,), }", "dtype"},
    {"{'descr': '<f4", "dtype"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "one or two dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }", "one or two dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", "without elements"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", "one or two dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6), }", "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': [6], }", "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2", "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }", "truncated: 2 x 4"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", "truncated: 2 x 3"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", "8 bytes too many"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "truncated"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 6148914691236517207), }", "truncated"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }", "too large"},
    {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (6,), }", "only True and False"},
    {"{'descr': '<f4', 'fortran_order': False, }", "all needed"},
    {"{'shape': (6,), 'fortran_order': False, 'shape': (6,), }", "twice"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}", "are allowed"},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (6,), }", "a comma"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } x", "bytes after"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), ", "are allowed"},
    {"[]", "a dictionary"},
    {"", "a dictionary"},
};

START_TEST(npy__refuses_every_bad_header)
{
    expect_failure(put_npy(bad[_i].dictionary, six, sizeof six), NN_EFORMAT, bad[_i].reason);
}
END_TEST

START_TEST(npy__refuses_every_truncation)
{
    size_t len;
    uint8_t *bytes = disk_get(
        put_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", six, sizeof six),
        &len);

    for (size_t cut = 0; cut < len; cut++)
        expect_failure(disk_put("cut", bytes, cut), NN_EFORMAT, "truncated");
    free(bytes);
}
END_TEST

START_TEST(npy__refuses_what_is_not_npy)
{
    expect_failure(disk_put("text", "hello, world", 12), NN_EFORMAT, "not a .npy file");
    expect_failure(disk_path("none"), NN_EIO, "No such file");
    expect_failure(disk_path("."), NN_EIO, "is a directory");
}
END_TEST

START_TEST(npy__full_disk_leaves_the_old_file_and_nothing_else)
{
    static float ones[4096] = {1};
    const struct nn_matrix large = {.rows = 64, .cols = 64, .data = ones};
    const char *path = disk_put("out.npy", "old", 3);
    uint8_t *bytes;
    size_t len;
    int err;

    disk_limit(1000);
    err = nn_npy_write(path, &large, &error);
    disk_unlimit();
    ck_assert_int_eq(err, NN_EIO);
    ck_assert_ptr_nonnull(strstr(error.text, "out.npy: cannot be written: File too large"));
    ck_assert_int_eq(disk_files(), 1);
    bytes = disk_get(path, &len);
    ck_assert_uint_eq(len, 3);
    ck_assert_mem_eq(bytes, "old", 3);
    free(bytes);
}
END_TEST

START_TEST(npy__refuses_to_write_where_it_cannot)
{
    const struct nn_matrix small = {.rows = 1, .cols = 1, .data = (float[]){1}};

    ck_assert_int_eq(nn_npy_write(disk_path("none/out.npy"), &small, &error), NN_EIO);
    ck_assert_ptr_nonnull(strstr(error.text, "No such file"));
    ck_assert_int_eq(nn_npy_write("/dev/null", &small, &error), NN_EIO);
    ck_assert_ptr_nonnull(strstr(error.text, "not a regular file"));
    ck_assert_int_eq(nn_npy_write("/proc/out.npy", &small, &error), NN_EIO);
    ck_assert_ptr_nonnull(strstr(error.text, "cannot be written"));
    ck_assert_int_eq(disk_files(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("npy");
    TCase *tests = tcase_create("npy");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, npy__writes_these_bytes);
    tcase_add_test(tests, npy__what_is_written_is_read);
    tcase_add_loop_test(tests, npy__reads_every_good_header, 0,
                        (int)(sizeof good / sizeof good[0]));
    tcase_add_test(tests, npy__reads_versions_2_and_3);
    tcase_add_test(tests, npy__reads_fortran_order);
    tcase_add_test(tests, npy__narrows_doubles);
    tcase_add_test(tests, npy__refuses_doubles_that_do_not_fit);
    tcase_add_loop_test(tests, npy__refuses_every_bad_header, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(tests, npy__refuses_every_truncation);
    tcase_add_test(tests, npy__refuses_what_is_not_npy);
    tcase_add_test(tests, npy__full_disk_leaves_the_old_file_and_nothing_else);
    tcase_add_test(tests, npy__refuses_to_write_where_it_cannot);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
