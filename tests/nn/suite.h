/* SPDX-License-Identifier: MIT */
#ifndef TESTS_NN_SUITE_H
#define TESTS_NN_SUITE_H

/*
 * The same main for every test of the engine.  Check runs each test in a process of its own, so
 * each may open BLAS in its own way.
 */
#include <check.h>
#include <stdlib.h>

static inline int run_suite(const char *name, const TTest *const *tests, size_t count)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);

    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#define RUN_SUITE(name, tests) run_suite(name, tests, sizeof(tests) / sizeof((tests)[0]))

#endif
