/* SPDX-License-Identifier: MIT */
/*
 * Files that numpy itself wrote, and ours read by it.  Debian's numpy belongs to /usr/bin/python3,
 * whatever python3 comes first in the path.
 */
#include "disk.h"
#include "nn/nn.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

static char script[1024];

static void set_up(void)
{
    disk_open();
}

static void tear_down(void)
{
    disk_close();
}

static bool run(const char *command)
{
    char line[2048];

    snprintf(line, sizeof line, "/usr/bin/python3 '%s' %s", script, command);
    return disk_shell(line);
}

START_TEST(numpy__files_are_read_and_written_as_numpy_does)
{
    static const char *const names[] = {"c4",     "f4",    "c8", "f8", "row",
                                        "column", "large", "v1", "v2", "v3"};

    ck_assert(run("make"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct nn_matrix matrix;
        struct nn_error error;
        char name[64];

        snprintf(name, sizeof name, "%s.npy", names[i]);
        ck_assert_msg(nn_npy_read(&matrix, disk_path(name), &error) == NN_OK, "%s", error.text);
        snprintf(name, sizeof name, "%s-out.npy", names[i]);
        ck_assert_msg(nn_npy_write(disk_path(name), &matrix, &error) == NN_OK, "%s", error.text);
        nn_matrix_free(&matrix);
    }
    ck_assert(run("check"));
}
END_TEST

int main(void)
{
    const char *source = getenv("GRADWIRE_SOURCE");
    Suite *suite;
    TCase *tests;
    SRunner *runner;
    int failed;

    snprintf(script, sizeof script, "%s/tests/nn/numpy_files.py", source ? source : ".");
    if (system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
        printf("skipped: /usr/bin/python3 has no numpy (Debian: python3-numpy)\n");
        return SKIPPED;
    }
    suite = suite_create("numpy");
    tests = tcase_create("numpy");
    runner = srunner_create(suite);
    suite_add_tcase(suite, tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, numpy__files_are_read_and_written_as_numpy_does);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
