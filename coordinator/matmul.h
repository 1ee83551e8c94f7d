/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_MATMUL_H
#define COORDINATOR_MATMUL_H

/* `matmul` from the command line to the exit code. */

#include <cluster/blocks.h>
#include <coordinator/args.h>
#include <coordinator/coord.h>
#include <coordinator/progress.h>
#include <coordinator/standalone.h>
#include <nn/nn.h>

/* Operands read and checked, the result's memory taken. */
struct matmul {
    const struct args *args;
    uint32_t threads; /* of this process, or of each local node */
    struct nn_matrix a, b, c;
    struct body_product shape; /* element by element: of one long column */
    double flops;
    struct progress progress; /* its voice: one line each */
};

enum { MATMUL_WHY_MAX = 640 };

/* 0 or an exit code with one line in `why`. */
int matmul_open(struct matmul *matmul, const struct args *args, char why[MATMUL_WHY_MAX]);
void matmul_close(struct matmul *matmul);

/* What a computation says of itself at the end. */
struct matmul_result {
    double seconds;
    uint64_t bytes; /* of datagrams, both ways */
    uint32_t nodes; /* 0: in process */
    uint64_t blocks, again;
    uint32_t wrong;
};

/* In this process: the same blocks, the same bits.  Exit code. */
int matmul_local(struct matmul *matmul, struct matmul_result *result, char why[MATMUL_WHY_MAX]);

/* Over nodes; `nodes` are the local ones, forked but not started (count 0: none). */
int matmul_remote(struct matmul *matmul, struct standalone *nodes, struct matmul_result *result,
                  char why[MATMUL_WHY_MAX]);

/* Writes C and says what happened.  Exit code. */
int matmul_end(struct matmul *matmul, const struct matmul_result *result, char why[MATMUL_WHY_MAX]);

#endif
