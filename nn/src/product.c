/* SPDX-License-Identifier: MIT */
/* What the matrix service computes beside the product itself, and the hash by which two machines
 * know that both compute it to the same bits. */
#include "nn/nn.h"

#include <assert.h>

enum {
    /* The largest of the shapes below. */
    A_FLOATS = 128 * 1100,
    B_FLOATS = 1100 * 160,
    C_FLOATS = 128 * 160,
};

void nn_combine(const struct nn_combination *combination, const float *a, const float *b, float *c)
{
    const double x = combination->x, y = combination->y;

    for (size_t i = 0; i < combination->count; i++)
        c[i] = (float)(x * (double)a[i] + y * (double)b[i]);
}

static void fill(uint64_t counter, float *out, size_t count)
{
    for (size_t i = 0; i < count; i += 4) {
        uint32_t words[4];

        nn_philox(UINT64_C(0x70726f6475637473), counter, i, words);
        for (size_t j = 0; j < 4 && i + j < count; j++)
            out[i + j] = (float)words[j] / 4294967296.0f - 0.5f;
    }
}

int nn_product_fingerprint(uint64_t *out)
{
    /* Tall, long, thin, single: BLAS goes other ways for each, and splits a long inner side. */
    static const size_t shapes[][3] = {{128, 160, 1100}, {64, 160, 200}, {7, 33, 5},
                                       {1, 50, 600},     {100, 1, 700},  {1, 1, 1000}};
    const struct nn_combination thirds = {.count = C_FLOATS, .x = 1.0 / 3, .y = 2.0 / 3};
    uint64_t hashes[sizeof shapes / sizeof *shapes + 1];
    float *a = nn_floats(A_FLOATS), *b = nn_floats(B_FLOATS), *c = nn_floats(C_FLOATS);
    size_t count = 0;
    int err = a && b && c ? 0 : NN_ENOMEM;

    if (err == 0) {
        fill(0, a, A_FLOATS);
        fill(1, b, B_FLOATS);
        for (; count < sizeof shapes / sizeof *shapes; count++) {
            const size_t *shape = shapes[count];

            nn_matmul(shape[0], shape[1], shape[2], a, b, c);
            hashes[count] = nn_hash64(c, shape[0] * shape[1] * sizeof *c);
        }
        nn_combine(&thirds, a, b, c);
        hashes[count++] = nn_hash64(c, C_FLOATS * sizeof *c);
        *out = nn_hash64(hashes, count * sizeof *hashes);
    }
    nn_floats_free(a);
    nn_floats_free(b);
    nn_floats_free(c);
    return err;
}
