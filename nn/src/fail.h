/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_FAIL_H
#define NN_SRC_FAIL_H

#include "nn/nn.h"

/*
 * Fills error (which may be NULL) with where and what, and returns code: `return nn_fail(...);`.
 * key may be NULL: the error is not about a place in a description.
 */
int nn_fail(struct nn_error *error, int code, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
