/* SPDX-License-Identifier: MIT */
#include <cluster/hash.h>
#include <cluster/text.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(text__is_cut_and_terminated)
{
    char out[8];

    text_format(out, sizeof out, "%s=%d", "value", 12345);
    ck_assert_str_eq(out, "value=1");
    text_append(out, sizeof out, "more");
    ck_assert_str_eq(out, "value=1");
    text_format(out, sizeof out, "ab");
    text_append(out, sizeof out, "%c%c", 'c', 'd');
    ck_assert_str_eq(out, "abcd");
    text_format(out, 1, "x");
    ck_assert_str_eq(out, "");
}
END_TEST

START_TEST(text__a_line_stays_one_line)
{
    char out[64];

    text_format(out, sizeof out, "node=%s", "a\nlost node=b\x1b[2J\x7f");
    ck_assert_str_eq(out, "node=a?lost node=b?[2J?");
    text_format(out, sizeof out, "%s", "caf\xc3\xa9");
    ck_assert_str_eq(out, "caf\xc3\xa9");
}
END_TEST

/* The reference values of XXH3-64 with seed 0: any other program must find the same. */
START_TEST(hash64__is_xxh3)
{
    ck_assert_uint_eq(hash64("", 0), UINT64_C(0x2d06800538d394c2));
    ck_assert_uint_ne(hash64("abc", 3), hash64("abd", 3));
}
END_TEST

START_TEST(text__numbers_are_json)
{
    char out[TEXT_NUMBER_MAX];

    ck_assert_str_eq(text_number(0.25, 6, out), "0.25");
    ck_assert_str_eq(text_number((double)INFINITY, 6, out), "null");
    ck_assert_str_eq(text_number(-(double)NAN, 17, out), "null");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tcase = tcase_create("text");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, text__numbers_are_json);
    tcase_add_test(tcase, text__is_cut_and_terminated);
    tcase_add_test(tcase, text__a_line_stays_one_line);
    tcase_add_test(tcase, hash64__is_xxh3);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
