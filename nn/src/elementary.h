/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_ELEMENTARY_H
#define NN_SRC_ELEMENTARY_H

/*
 * log, sine and cosine of doubles with bits that no version of libm can change.  Error below 4
 * units in the last place; for losses and initial weights, where speed does not matter.
 */

/* Natural logarithm; NaN and +infinity come back, 0 and below give -infinity. */
double elementary_log(double x);

/* Sine and cosine of `turns` full turns, 0 <= turns < 1. */
void elementary_sincos(double turns, double *sine, double *cosine);

#endif
