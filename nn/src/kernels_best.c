/* SPDX-License-Identifier: MIT */
/* Chooses among the builds of kernels.c; their bits are the same, their speed is not. */
#include "cpu.h"
#include "kernels.h"

const struct kernels *kernels_best(void)
{
#if defined(__x86_64__)
    switch (cpu_class_here()) {
    case CPU_AVX512:
        return &kernels_avx512;
    case CPU_AVX2:
        return &kernels_avx2;
    case CPU_OLD:
        break;
    }
#endif
    return &kernels_base;
}
