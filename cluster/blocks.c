/* SPDX-License-Identifier: MIT */
#include <cluster/blocks.h>

#include <assert.h>

enum {
    /* Enough blocks that two, three, four or six nodes have the same number; enough rows that the
     * packing of B, which BLAS does anew for every block, does not weigh: of the speed of 512 rows
     * at n = 2000, 64 rows have 66 %, 128 have 76 %, 256 have 96 %. */
    BLOCKS_WANTED = 12,
    ROWS_MIN = 64,
    ROWS_MAX = 256,
    ROWS_STEP = 16,
    /* Small rows: blocks grow until one is worth a message. */
    TALL_ROWS_MAX = 16384,
    WORTH_PRODUCTS = 1 << 22, /* multiplications */
    MESSAGE_FLOATS = 1 << 24, /* 64 MiB, where rows are not longer than that */
    COMBINE_FLOATS_MIN = 1 << 14,
    COMBINE_FLOATS_MAX = 1 << 20,
};

static uint64_t clamp(uint64_t value, uint64_t min, uint64_t max)
{
    return value < min ? min : value > max ? max : value;
}

static uint64_t part_of(uint64_t all, uint64_t step)
{
    uint64_t part = all / BLOCKS_WANTED + (all % BLOCKS_WANTED != 0);

    return (part + step - 1) / step * step;
}

static uint64_t multiply_rows(const struct body_product *product)
{
    uint64_t longest = product->inner > product->cols ? product->inner : product->cols;
    uint64_t rows = clamp(part_of(product->rows, ROWS_STEP), ROWS_MIN, ROWS_MAX);

    while (rows < TALL_ROWS_MAX && rows * product->inner < WORTH_PRODUCTS / product->cols)
        rows *= 2;
    return clamp(rows, 1, clamp(MESSAGE_FLOATS / longest, 1, TALL_ROWS_MAX));
}

static uint64_t combine_rows(const struct body_product *product)
{
    uint64_t floats =
        clamp(part_of(product->rows, 1) * product->cols, COMBINE_FLOATS_MIN, COMBINE_FLOATS_MAX);

    return clamp(floats / product->cols, 1, UINT64_MAX);
}

bool blocks_plan(struct body_product *product)
{
    uint64_t rows;

    assert(product->rows > 0 && product->inner > 0 && product->cols > 0);
    /* First the sizes alone: what does not fit with one row, fits with none. */
    product->block_rows = 1;
    if (!body_product_ok(product))
        return false;
    rows = product->op == BODY_MULTIPLY ? multiply_rows(product) : combine_rows(product);
    product->block_rows = clamp(rows, 1, product->rows);
    assert(body_product_ok(product));
    return true;
}

uint64_t blocks_count(const struct body_product *product)
{
    return product->rows / product->block_rows + (product->rows % product->block_rows != 0);
}

struct block blocks_at(const struct body_product *product, uint64_t idx)
{
    uint64_t first = idx * product->block_rows;

    assert(idx < blocks_count(product));
    return (struct block){first, clamp(product->rows - first, 1, product->block_rows)};
}

static uint64_t b_floats(const struct body_product *product)
{
    return product->op == BODY_MULTIPLY ? product->inner * product->cols : 0;
}

uint64_t blocks_pieces(const struct body_product *product)
{
    return (b_floats(product) + BODY_PIECE_FLOATS - 1) / BODY_PIECE_FLOATS;
}

uint64_t blocks_piece_floats(const struct body_product *product, uint64_t idx)
{
    assert(idx < blocks_pieces(product));
    return clamp(b_floats(product) - idx * BODY_PIECE_FLOATS, 1, BODY_PIECE_FLOATS);
}
