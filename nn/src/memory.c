/* SPDX-License-Identifier: MIT */
/*
 * Float vectors whose alignment never differs: kernels see the same addresses modulo a cache line
 * on every machine, so no code path can depend on where the heap put a buffer.
 */
#include "nn/nn.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

float *nn_floats(size_t count)
{
    if (count > (SIZE_MAX - ALIGNMENT) / sizeof(float))
        return NULL;

    size_t bytes = (count * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes == 0)
        bytes = ALIGNMENT;
    float *floats = aligned_alloc(ALIGNMENT, bytes);
    if (floats != NULL)
        memset(floats, 0, bytes);
    return floats;
}

void nn_floats_free(float *floats)
{
    free(floats);
}
