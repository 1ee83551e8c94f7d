/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_GEMM_H
#define NN_SRC_GEMM_H

/*
 * Matrix products: the one door to OpenBLAS.  nn_blas_open comes first.
 *
 * One call is one thread, and its bits depend on the shape and the kernel alone: not on where the
 * operands lie, not on what other threads compute.
 */
#include "cpu.h"
#include "nn/nn.h"

#include <stdbool.h>
#include <stddef.h>

/* Row-major without gaps: a (m, k), or (k, m) if transposed; b (k, n) or (n, k); c (m, n). */
struct gemm {
    size_t m, n, k;
    bool transpose_a, transpose_b;
};

/* c = op(a) op(b).  c is overwritten and overlaps neither operand. */
void gemm(const struct gemm *shape, const float *a, const float *b, float *c);

/* What nn_blas_open does on an invented processor.  `kernel` as there. */
int gemm_open(const struct cpu *cpu, const char *kernel, struct nn_error *error);

/* Which kernel to demand of OpenBLAS that chose `chosen` on its own, or NULL: it chose well. */
const char *gemm_better(const struct cpu *cpu, const char *chosen);

#endif
