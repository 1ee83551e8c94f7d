/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_INIT_H
#define NN_SRC_INIT_H

/* Initial weights: each value is a pure function of (seed, stream, index). */
#include <stddef.h>
#include <stdint.h>

/* Where the numbers come from: no two tensors of a run share a stream. */
struct init_stream {
    uint64_t seed;
    uint32_t tensor;
};

void init_normal(const struct init_stream *stream, double deviation, float *out, size_t count);

/* Uniform in [-limit, limit). */
void init_uniform(const struct init_stream *stream, double limit, float *out, size_t count);

#endif
