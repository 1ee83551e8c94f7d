/* SPDX-License-Identifier: MIT */
#include "yard.h"

#include "tests/cluster/random.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct yard_result result;
static struct plan ran;

static void run(const struct plan *plan)
{
    ran = *plan;
    yard_run(plan, &result);
}

static bool said(const char *text)
{
    return strstr(result.events, text) != NULL;
}

static void expect_right(void)
{
    ck_assert_msg(result.code == EXIT_DONE, "seed %llu: code %d: %s\n%s",
                  (unsigned long long)ran.seed, result.code, result.text, result.events);
    ck_assert_mem_eq(result.c, result.want, ran.rows * ran.cols * sizeof(float));
}

START_TEST(product__any_nodes_give_the_same_bits)
{
    for (uint32_t nodes = 1; nodes <= 4; nodes++) {
        run(&(struct plan){
            .seed = nodes, .rows = 101, .inner = 40, .cols = 37, .block_rows = 8, .nodes = nodes});
        expect_right();
        ck_assert_uint_eq(result.status.done, 13);
        ck_assert_uint_eq(result.status.helped, nodes);
        yard_free(&result);
    }
}
END_TEST

START_TEST(product__odd_shapes)
{
    static const uint64_t shapes[][3] = {{1, 1, 1},   {1, 300, 500}, {500, 300, 1}, {1, 7, 1},
                                         {333, 1, 5}, {70, 600, 33}, {3000, 3, 2}};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int op = BODY_MULTIPLY; op <= BODY_COMBINE; op++) {
            uint64_t cols = shapes[i][2], inner = op == BODY_MULTIPLY ? shapes[i][1] : cols;

            run(&(struct plan){.seed = i + 1,
                               .rows = shapes[i][0],
                               .inner = inner,
                               .cols = cols,
                               .op = (enum body_op)op,
                               .nodes = 2});
            expect_right();
            yard_free(&result);
        }
    }
}
END_TEST

/* B in more than one piece, its last one small enough to be pooled. */
START_TEST(product__a_large_operand_comes_in_pieces)
{
    run(&(struct plan){
        .seed = 3, .rows = 20, .inner = 1030, .cols = 9166, .block_rows = 5, .nodes = 2});
    expect_right();
    yard_free(&result);
}
END_TEST

START_TEST(product__blocks_of_the_dead_go_to_the_others)
{
    uint64_t seed = random_seed(), again = 0;

    for (uint64_t i = 0; i < 60; i++) {
        bool combines = i % 3 == 2;

        run(&(struct plan){.seed = seed + i,
                           .rows = 160,
                           .inner = combines ? 130 : 30,
                           .cols = 130,
                           .block_rows = 4,
                           .op = combines ? BODY_COMBINE : BODY_MULTIPLY,
                           .nodes = 4,
                           .kills = 1 + (uint32_t)(i % 3),
                           .late = i % 4 == 0,
                           .check = i % 5 == 0});
        expect_right();
        again += result.status.again;
        yard_free(&result);
    }
    ck_assert_uint_gt(again, 20); /* kills hit nodes that had blocks */
}
END_TEST

START_TEST(product__with_no_node_left_it_waits_then_ends)
{
    run(&(struct plan){.seed = 5,
                       .rows = 4000,
                       .inner = 30,
                       .cols = 130,
                       .block_rows = 4,
                       .nodes = 2,
                       .kills = 2});
    ck_assert_int_eq(result.code, EXIT_NODES);
    ck_assert_ptr_nonnull(strstr(result.text, "no node is left"));
    ck_assert(said("waiting 5 s"));
    yard_free(&result);
}
END_TEST

START_TEST(product__a_late_node_ends_the_wait)
{
    run(&(struct plan){.seed = 6,
                       .rows = 2000,
                       .inner = 30,
                       .cols = 130,
                       .block_rows = 4,
                       .nodes = 1,
                       .kills = 1,
                       .late = true});
    expect_right();
    ck_assert_uint_eq(result.status.helped, 2);
    ck_assert(said("lost node=n1"));
    yard_free(&result);
}
END_TEST

START_TEST(product__too_few_nodes_are_named)
{
    run(&(struct plan){.seed = 7, .rows = 5, .inner = 5, .cols = 5, .nodes = 2, .wanted = 3});
    ck_assert_int_eq(result.code, EXIT_NOT_STARTED);
    ck_assert_ptr_nonnull(strstr(result.text, "2 of 3 nodes"));
    ck_assert_ptr_nonnull(strstr(result.text, "n1"));
    yard_free(&result);
}
END_TEST

START_TEST(product__b26_a_node_that_computes_wrong_is_named)
{
    for (int op = BODY_MULTIPLY; op <= BODY_COMBINE; op++) {
        run(&(struct plan){.seed = 8,
                           .rows = 64,
                           .inner = 50,
                           .cols = 50,
                           .block_rows = 4,
                           .op = (enum body_op)op,
                           .nodes = 3,
                           .check = true,
                           .liar = 2});
        expect_right();
        ck_assert_uint_eq(result.status.wrong, 1);
        ck_assert(said("wrong node=n2"));
        ck_assert(!said("wrong node=n1") && !said("wrong node=n3"));
        yard_free(&result);
    }
}
END_TEST

START_TEST(product__nobody_is_blamed_for_rounding)
{
    run(&(struct plan){.seed = 9,
                       .rows = 200,
                       .inner = 700,
                       .cols = 60,
                       .block_rows = 10,
                       .nodes = 3,
                       .check = true});
    expect_right();
    ck_assert_uint_eq(result.status.wrong, 0);
    yard_free(&result);
}
END_TEST

START_TEST(product__other_arithmetic_is_refused)
{
    run(&(struct plan){.seed = 10,
                       .rows = 50,
                       .inner = 50,
                       .cols = 50,
                       .block_rows = 5,
                       .nodes = 2,
                       .wanted = 1,
                       .liar = 1,
                       .other_bits = true});
    expect_right();
    ck_assert(said("numerics differ"));
    ck_assert_uint_eq(result.status.helped, 1);
    yard_free(&result);
}
END_TEST

START_TEST(product__the_user_may_stop_it)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run(&(struct plan){.seed = seed,
                           .rows = 4000,
                           .inner = 50,
                           .cols = 50,
                           .block_rows = 4,
                           .nodes = 2,
                           .stop = true,
                           .check = true});
        ck_assert_int_eq(result.code, EXIT_STOPPED);
        yard_free(&result);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("product");
    TCase *tcase = tcase_create("product");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, product__any_nodes_give_the_same_bits);
    tcase_add_test(tcase, product__odd_shapes);
    tcase_add_test(tcase, product__a_large_operand_comes_in_pieces);
    tcase_add_test(tcase, product__blocks_of_the_dead_go_to_the_others);
    tcase_add_test(tcase, product__with_no_node_left_it_waits_then_ends);
    tcase_add_test(tcase, product__a_late_node_ends_the_wait);
    tcase_add_test(tcase, product__too_few_nodes_are_named);
    tcase_add_test(tcase, product__b26_a_node_that_computes_wrong_is_named);
    tcase_add_test(tcase, product__nobody_is_blamed_for_rounding);
    tcase_add_test(tcase, product__other_arithmetic_is_refused);
    tcase_add_test(tcase, product__the_user_may_stop_it);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
