/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_KERNELS_H
#define NN_SRC_KERNELS_H

/*
 * Loops over float vectors, compiled once for each instruction set.  Every element goes through
 * the same IEEE operations in the same order in each of them (no contraction, no reassociation, no
 * libm), so all give the same bits; tests/nn/test_kernels.c compares them.
 */
#include <stddef.h>
#include <stdint.h>

enum activation { ACT_NONE, ACT_RELU, ACT_SIGMOID, ACT_TANH, ACT_COUNT };

/* Coefficients of one optimiser step, already rounded to float. */
struct step_sgd {
    float gradient_scale; /* 1 / samples */
    float decay;
    float lr;
    float momentum;
};

struct step_adam {
    float gradient_scale;
    float decay;
    float beta1, rest1; /* rest1 = 1 - beta1, before rounding */
    float beta2, rest2;
    float step_size;            /* lr / (1 - beta1^t) */
    float root_bias_correction; /* sqrt(1 - beta2^t) */
    float epsilon;
};

struct kernels {
    const char *name;

    /* y[i][j] = act(y[i][j] + bias[j]), y (rows, cols); bias may be NULL. */
    void (*forward[ACT_COUNT])(float *y, const float *bias, size_t rows, size_t cols);

    /* dy[i] *= act'(x), written with the activation's output y = act(x). */
    void (*backward[ACT_COUNT])(float *dy, const float *y, size_t count);

    /* sum[j] = m[0][j] + m[1][j] + ..., in this order. */
    void (*column_sum)(float *sum, const float *m, size_t rows, size_t cols);

    /* Bits of the largest magnitude: 0x7f800000 and above if there is an infinity or a NaN. */
    uint32_t (*magnitude)(const float *x, size_t count);

    void (*exponential)(float *x, size_t count);

    void (*sgd)(const struct step_sgd *step, size_t count, float *w, const float *g);
    void (*momentum)(const struct step_sgd *step, size_t count, float *w, const float *g,
                     float *velocity);
    void (*adam)(const struct step_adam *step, size_t count, float *w, const float *g,
                 float *moments); /* moments: first, then second, count floats each */
};

extern const struct kernels kernels_base;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx512;
#endif

/* The widest that this processor runs. */
const struct kernels *kernels_best(void);

enum { INFINITY_BITS = 0x7f800000 };

#endif
