/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_APPROX_H
#define NN_SRC_APPROX_H

/*
 * exp, sigmoid and tanh of one float, written so that a loop over them becomes vector code: no
 * branch, no table, no call.  Within 2 units in the last place (tests/nn/test_kernels.c); results
 * below the smallest normal number are 0, so the floating-point mode does not matter.
 */
#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/*
 * e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2.  Adding 1.5 * 2^23 rounds to a whole
 * number and leaves it in the low bits.  ln 2 is subtracted in two parts, the first short enough
 * for n times it to be exact.  The polynomial was fitted to (e^r - 1 - r) / r^2 on that interval.
 */
static inline float approx_exp(float x)
{
    const float round_magic = 12582912.0f;
    const float ln2_high = 0x1.62e4p-1f;
    const float ln2_low = 0x1.7f7d1cp-20f;

    float clamped = x < -88.0f ? -88.0f : x;
    clamped = clamped > 89.0f ? 89.0f : clamped;
    float shifted = clamped * 1.44269504088896341f + round_magic;
    float n = shifted - round_magic;
    float r = (clamped - n * ln2_high) - n * ln2_low;

    float p = 0.00019908877f;
    p = p * r + 0.0013934534f;
    p = p * r + 0.008333284f;
    p = p * r + 0.041666456f;
    p = p * r + 0.16666667f;
    p = p * r + 0.5f;
    p = (p * (r * r) + r) + 1.0f;

    /* 2^n in two factors: n = 128 does not fit in one. */
    int32_t exponent = (int32_t)(bits_of_float(shifted) - 0x4b400000u);
    int32_t half = exponent >> 1;
    float scale1 = float_of_bits((uint32_t)(half + 127) << 23);
    float scale2 = float_of_bits((uint32_t)(exponent - half + 127) << 23);
    float result = p * scale1 * scale2;
    return x < -87.3365f ? 0.0f : result;
}

static inline float approx_sigmoid(float x)
{
    return 1.0f / (1.0f + approx_exp(-x));
}

/* Odd: an odd polynomial near zero, where 1 - 2 / (e^2x + 1) would cancel. */
static inline float approx_tanh(float x)
{
    float magnitude = float_of_bits(bits_of_float(x) & 0x7fffffffu);
    float squared = x * x;

    float p = -0.0057170135f;
    p = p * squared + 0.020650556f;
    p = p * squared - 0.05374349f;
    p = p * squared + 0.13331491f;
    p = p * squared - 0.33333284f;
    float small = p * squared * x + x;

    float large = 1.0f - 2.0f / (approx_exp(magnitude + magnitude) + 1.0f);
    uint32_t sign = bits_of_float(x) & 0x80000000u;
    large = float_of_bits(bits_of_float(large) | sign);
    return magnitude < 0.625f ? small : large;
}

#endif
