/* SPDX-License-Identifier: MIT */
/* The floating-point mode is part of the numbers: a thread that keeps denormals gets other bits. */
#include "nn/nn.h"

enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };

void nn_thread_init(void)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#endif
}
