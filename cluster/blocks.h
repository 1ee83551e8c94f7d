/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_BLOCKS_H
#define CLUSTER_BLOCKS_H

/*
 * The blocks of C that a product is computed in.  Pure arithmetic of the shapes: nothing here
 * depends on the number of nodes or threads, and a block is always one call of BLAS, so C has the
 * same bits whoever computes which.
 */

#include <cluster/body.h>

/* Rows of the blocks of a product with these shapes; fills product->block_rows.  false: even a
 * block of one row is more than a message holds, or BLAS cannot count so far. */
bool blocks_plan(struct body_product *product);

uint64_t blocks_count(const struct body_product *product);

struct block {
    uint64_t first; /* row of A and C */
    uint64_t rows;
};

struct block blocks_at(const struct body_product *product, uint64_t idx);

/* Messages that carry B: pieces of BODY_PIECE_FLOATS.  None when B goes along with the blocks. */
uint64_t blocks_pieces(const struct body_product *product);
uint64_t blocks_piece_floats(const struct body_product *product, uint64_t idx);

#endif
