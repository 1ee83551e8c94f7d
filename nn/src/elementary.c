/* SPDX-License-Identifier: MIT */
/* Series on small intervals, longest-standing term last. */
#include "elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MANTISSA_BITS = 52, EXPONENT_BIAS = 1023, LOG_TERMS = 12, CIRCLE_TERMS = 9 };

static const double ln2 = 0x1.62e42fefa39efp-1;
static const double root2 = 0x1.6a09e667f3bcdp+0;
static const double quarter_turn = 0x1.921fb54442d18p+0; /* pi / 2 */

/* x = 2^e m with m near 1, and log m = 2 artanh s = 2 (s + s^3 / 3 + s^5 / 5 ...). */
double elementary_log(double x)
{
    uint64_t bits;

    if (!(x < (double)INFINITY))
        return x;
    if (x <= 0.0)
        return -(double)INFINITY;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> MANTISSA_BITS) - EXPONENT_BIAS;
    bits = (bits & (((uint64_t)1 << MANTISSA_BITS) - 1)) | (uint64_t)EXPONENT_BIAS << MANTISSA_BITS;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > root2) {
        m *= 0.5;
        exponent++;
    }

    double s = (m - 1.0) / (m + 1.0);
    double squared = s * s;
    double sum = 0.0;
    for (int term = LOG_TERMS; term >= 1; term--)
        sum = (sum + 1.0 / (2 * term + 1)) * squared;
    return (double)exponent * ln2 + (2.0 * s + 2.0 * s * sum);
}

/* The nearest quarter turn, and Taylor's series of what is left, at most pi / 4. */
void elementary_sincos(double turns, double *sine, double *cosine)
{
    double quarters = turns * 4.0;
    int nearest = (int)(quarters + 0.5);
    double angle = (quarters - nearest) * quarter_turn;
    double squared = angle * angle;
    double s = 1.0;
    double c = 1.0;

    for (int term = CIRCLE_TERMS; term >= 1; term--) {
        s = 1.0 - s * squared / ((2 * term) * (2 * term + 1));
        c = 1.0 - c * squared / ((2 * term - 1) * (2 * term));
    }
    s *= angle;
    switch (nearest & 3) {
    case 0:
        *sine = s, *cosine = c;
        break;
    case 1:
        *sine = c, *cosine = -s;
        break;
    case 2:
        *sine = -s, *cosine = -c;
        break;
    default:
        *sine = -c, *cosine = s;
        break;
    }
}
