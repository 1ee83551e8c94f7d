/* SPDX-License-Identifier: MIT */
#include <cluster/text.h>

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static void write_at(char *out, size_t cap,
                                                           const char *format, va_list args)
{
    int len = vsnprintf(out, cap, format, args);

    if (len < 0)
        out[0] = '\0';
    /* Names come from the network: a line stays one line. */
    for (char *at = out; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

void text_format(char *out, size_t cap, const char *format, ...)
{
    va_list args;

    assert(cap > 0);
    va_start(args, format);
    write_at(out, cap, format, args);
    va_end(args);
}

void text_append(char *out, size_t cap, const char *format, ...)
{
    size_t len = strlen(out);
    va_list args;

    assert(len < cap);
    va_start(args, format);
    write_at(out + len, cap - len, format, args);
    va_end(args);
}

const char *text_number(double value, int digits, char out[TEXT_NUMBER_MAX])
{
    if (!isfinite(value))
        return "null";
    text_format(out, TEXT_NUMBER_MAX, "%.*g", digits, value);
    return out;
}
