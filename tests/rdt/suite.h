/* SPDX-License-Identifier: MIT */
#ifndef TESTS_RDT_SUITE_H
#define TESTS_RDT_SUITE_H

/*
 * The main function of a test program of rdt.  Random tests take suite_seed(); `--seed N` replays.
 *
 *     int main(int argc, char **argv)
 *     {
 *         const TTest *const tests[] = {ranges__x, ranges__y};
 *
 *         return SUITE_MAIN(argc, argv, "ranges", tests);
 *     }
 */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long suite_first_seed = 1;

/* The seed of the n-th run of a random test. */
static inline unsigned long long suite_seed(unsigned long long n)
{
    return suite_first_seed + n;
}

static inline int suite_main(int argc, char **argv, const char *name, const TTest *const *tests,
                             size_t count)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    SRunner *runner;
    int failed;

    if (argc == 3 && strcmp(argv[1], "--seed") == 0)
        suite_first_seed = strtoull(argv[2], NULL, 10);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    if (failed > 0)
        printf("%s: random tests began with --seed %llu\n", name, suite_first_seed);
    srunner_free(runner);
    return failed > 0;
}

#define SUITE_MAIN(argc, argv, name, tests)                                                        \
    suite_main(argc, argv, name, tests, sizeof(tests) / sizeof((tests)[0]))

#endif
