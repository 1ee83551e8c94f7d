/* SPDX-License-Identifier: MIT */
/* One way to report an error to a person, for all of nn. */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

int nn_fail(struct nn_error *error, int code, const char *key, const char *format, ...)
{
    if (error == NULL)
        return code;

    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    snprintf(error->key, sizeof error->key, "%s", key == NULL ? "" : key);
    return code;
}
