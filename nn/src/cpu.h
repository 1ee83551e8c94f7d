/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_CPU_H
#define NN_SRC_CPU_H

/*
 * What the processor offers, as plain data so that a test can invent one, and which of OpenBLAS's
 * kernels that means.
 */
#include <stdbool.h>

struct cpu {
    char vendor[13]; /* "GenuineIntel" */
    unsigned family, model;
    /* What the operating system saves as well: a bit without it is as good as absent. */
    bool avx2_fma;
    bool avx512; /* F, DQ, BW, VL and CD */
};

struct cpu cpu_read(void);

/* What a kernel needs and a processor has; in order: each can run those before it. */
enum cpu_class { CPU_OLD, CPU_AVX2, CPU_AVX512 };

enum cpu_class cpu_class(const struct cpu *cpu);

/* Of this processor, and cheap. */
enum cpu_class cpu_class_here(void);

/* CPU_OLD for kernels it does not know. */
enum cpu_class cpu_kernel_class(const char *kernel);

/* OpenBLAS takes names in upper and lower case. */
bool cpu_same_kernel(const char *a, const char *b);

/* The fastest kernel of OpenBLAS 0.3.21 for this processor; NULL: let OpenBLAS decide. */
const char *cpu_kernel(const struct cpu *cpu);

#endif
