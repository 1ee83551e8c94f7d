/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_TEXT_H
#define CLUSTER_TEXT_H

/*
 * Formatted text for code that may not see stdio: the pure step functions write their lines for
 * events.log and for the person at the terminal through this.
 */

#include <stddef.h>

/* snprintf: cuts at cap - 1 bytes, always ends in NUL, control characters become '?'. */
__attribute__((format(printf, 3, 4))) void text_format(char *out, size_t cap, const char *format,
                                                       ...);

/* Like text_format, after the text that is there. */
__attribute__((format(printf, 3, 4))) void text_append(char *out, size_t cap, const char *format,
                                                       ...);

/* A number of a JSON document: null for what JSON has no word for. */
enum { TEXT_NUMBER_MAX = 40 };
const char *text_number(double value, int digits, char out[TEXT_NUMBER_MAX]);

#endif
