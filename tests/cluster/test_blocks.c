/* SPDX-License-Identifier: MIT */
/* The blocks of a product and the body that describes it. */
#include "tests/cluster/random.h"

#include <cluster/blocks.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct body_product example = {.op = BODY_COMBINE,
                                            .rows = 0x0102030405,
                                            .inner = 1,
                                            .cols = 1,
                                            .block_rows = 0x100000,
                                            .depth = 3,
                                            .x = 0.5,
                                            .y = -2,
                                            .kernel = "Zen"};

static struct body_product shape_of(enum body_op op, uint64_t rows, uint64_t inner, uint64_t cols)
{
    return (struct body_product){
        .op = op, .rows = rows, .inner = inner, .cols = cols, .block_rows = 1, .depth = 1};
}

START_TEST(product__round_trip_and_golden_bytes)
{
    static const uint8_t golden[] = {
        0x01, 0x05, 0x04, 0x03, 0x02, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x3f,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc0, 0x03, 0x00, 'Z',  'e',  'n'};
    uint8_t buffer[BODY_PRODUCT_BYTES];
    struct body_product out;
    size_t len = body_product_encode(&example, buffer);

    ck_assert_uint_eq(len, sizeof golden);
    ck_assert_mem_eq(buffer, golden, len);
    ck_assert(body_product_decode(&out, buffer, len));
    ck_assert_uint_eq(out.op, BODY_COMBINE);
    ck_assert_uint_eq(out.rows, example.rows);
    ck_assert_uint_eq(out.inner, 1);
    ck_assert_uint_eq(out.cols, 1);
    ck_assert_uint_eq(out.block_rows, example.block_rows);
    ck_assert_uint_eq(out.depth, 3);
    ck_assert_double_eq(out.x, 0.5);
    ck_assert_double_eq(out.y, -2);
    ck_assert_str_eq(out.kernel, "Zen");
    for (size_t n = 0; n <= len + 1; n++) {
        uint8_t *copy = malloc(n + (n == 0));

        ck_assert_ptr_nonnull(copy);
        memcpy(copy, buffer, n < len ? n : len);
        ck_assert_int_eq(body_product_decode(&out, copy, n), n == len);
        free(copy);
    }
}
END_TEST

START_TEST(product__senseless_or_unsendable_shapes_are_garbage)
{
    const uint64_t huge = UINT64_C(1) << 40;
    struct body_product bad[] = {
        shape_of(BODY_MULTIPLY, 0, 1, 1),
        shape_of(BODY_MULTIPLY, 1, 0, 1),
        shape_of(BODY_MULTIPLY, 1, 1, 0),
        shape_of(BODY_MULTIPLY, 2, UINT64_C(1) << 31, 1), /* beyond int */
        shape_of(BODY_MULTIPLY, 2, 1, UINT64_C(1) << 30), /* a row beyond a message */
        shape_of(BODY_MULTIPLY, UINT64_C(1) << 62, 4, 4), /* bytes wrap */
        shape_of(BODY_COMBINE, huge, huge, huge),         /* elements wrap */
        shape_of(BODY_COMBINE, 4, 3, 4),                  /* not of one shape */
        shape_of(BODY_MULTIPLY, 4, 4, 4),                 /* these three are changed below */
        shape_of(BODY_MULTIPLY, 4, 4, 4),
        shape_of(BODY_MULTIPLY, 4, 4, 4),
    };
    size_t count = sizeof bad / sizeof *bad;
    struct body_product good = shape_of(BODY_MULTIPLY, 4, 4, 4);

    bad[count - 1].block_rows = 5;
    bad[count - 2].depth = BODY_DEPTH_MAX + 1;
    bad[count - 3].x = NAN;
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(!body_product_ok(&bad[i]), "case %zu", i);
    ck_assert(body_product_ok(&good));
}
END_TEST

START_TEST(product__hostile_bytes_never_pass_unchecked)
{
    uint64_t state = random_seed(), passed = 0;

    for (int i = 0; i < 30000; i++) {
        uint8_t bytes[BODY_PRODUCT_BYTES];
        struct body_product out;
        size_t len = body_product_encode(&example, bytes);

        for (uint64_t flips = random_below(&state, 4); flips > 0; flips--)
            bytes[random_below(&state, len)] = (uint8_t)random_next(&state);
        if (!body_product_decode(&out, bytes, len))
            continue;
        passed++;
        ck_assert(body_product_ok(&out));
    }
    ck_assert_uint_gt(passed, 300);
}
END_TEST

/* Whatever the shape: the blocks cover C once and in order, and fit their messages. */
START_TEST(blocks__cover_every_row_once)
{
    uint64_t state = random_seed();

    for (int i = 0; i < 3000; i++) {
        bool multiplies = random_below(&state, 2);
        uint64_t rows = 1 + random_below(&state, UINT64_C(1) << random_below(&state, 22));
        uint64_t cols = 1 + random_below(&state, UINT64_C(1) << random_below(&state, 28));
        uint64_t inner = 1 + random_below(&state, UINT64_C(1) << random_below(&state, 28));
        struct body_product shape = shape_of(multiplies ? BODY_MULTIPLY : BODY_COMBINE, rows,
                                             multiplies ? inner : cols, cols);
        uint64_t next, count;

        ck_assert(blocks_plan(&shape));
        count = blocks_count(&shape);
        for (uint64_t idx = 0; idx < count; idx += 1 + random_below(&state, count / 8 + 1)) {
            struct block block = blocks_at(&shape, idx);

            ck_assert_uint_eq(block.first, idx * shape.block_rows);
            ck_assert_uint_le(block.rows, shape.block_rows);
            ck_assert_uint_ge(block.rows, 1);
            ck_assert(idx + 1 == count || block.rows == shape.block_rows);
        }
        next = blocks_at(&shape, count - 1).first + blocks_at(&shape, count - 1).rows;
        ck_assert_uint_eq(next, rows);
        ck_assert_uint_le(shape.block_rows * shape.inner * sizeof(float), UINT32_MAX - 64);
        ck_assert_uint_le(shape.block_rows * shape.cols * sizeof(float), UINT32_MAX - 64);
    }
}
END_TEST

START_TEST(blocks__grow_with_the_shape_alone)
{
    static const uint64_t shapes[][4] = {
        /* rows, inner, cols, rows of a block */
        {1, 1, 1, 1},
        {200, 200, 200, 128},
        {2000, 2000, 2000, 176},
        {4000, 4000, 4000, 256},
        {10000000, 10, 10, 16384},
        {5000, 1 << 20, 3, 16},
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct body_product shape =
            shape_of(BODY_MULTIPLY, shapes[i][0], shapes[i][1], shapes[i][2]);

        ck_assert(blocks_plan(&shape));
        ck_assert_msg(shape.block_rows == shapes[i][3], "case %zu: %llu", i,
                      (unsigned long long)shape.block_rows);
    }
}
END_TEST

START_TEST(blocks__pieces_make_up_b)
{
    struct body_product shape = shape_of(BODY_MULTIPLY, 5, 1025, 2048);

    ck_assert_uint_eq(blocks_pieces(&shape), 3);
    ck_assert_uint_eq(blocks_piece_floats(&shape, 0), BODY_PIECE_FLOATS);
    ck_assert_uint_eq(blocks_piece_floats(&shape, 2), 2048);
    shape = shape_of(BODY_MULTIPLY, 5, 1024, 1024);
    ck_assert_uint_eq(blocks_pieces(&shape), 1);
    ck_assert_uint_eq(blocks_piece_floats(&shape, 0), BODY_PIECE_FLOATS);
    shape = shape_of(BODY_COMBINE, 1 << 24, 1, 1);
    ck_assert_uint_eq(blocks_pieces(&shape), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("blocks");
    TCase *tcase = tcase_create("blocks");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, product__round_trip_and_golden_bytes);
    tcase_add_test(tcase, product__senseless_or_unsendable_shapes_are_garbage);
    tcase_add_test(tcase, product__hostile_bytes_never_pass_unchecked);
    tcase_add_test(tcase, blocks__cover_every_row_once);
    tcase_add_test(tcase, blocks__grow_with_the_shape_alone);
    tcase_add_test(tcase, blocks__pieces_make_up_b);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
