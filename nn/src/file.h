/* SPDX-License-Identifier: MIT */
#ifndef NN_FILE_H
#define NN_FILE_H

/*
 * Whole files: read exactly, replaced whole or not at all.  The one place of nn that asks the
 * system for files; formats live elsewhere.  error may be NULL everywhere.
 */

#include "nn/nn.h"

/* Fills error with "PATH: reason" and returns code.  The end of a long path is kept. */
int file_fail(struct nn_error *error, int code, const char *path, const char *reason, ...)
    __attribute__((format(printf, 4, 5)));

struct file_in {
    const char *path; /* borrowed */
    uint64_t len;     /* of the whole file, when it was opened */
    int fd;
};

/* NN_EIO: missing, unreadable, a directory or anything else that is not a regular file. */
int file_open(struct file_in *file, const char *path, struct nn_error *error);
void file_close(struct file_in *file);

/* Reads exactly len bytes on from where the last read ended; NN_EFORMAT when the file ends first:
 * `what` says to a person what was being read. */
int file_read(struct file_in *file, void *bytes, size_t len, const char *what,
              struct nn_error *error);

struct file_span {
    const void *bytes;
    size_t len;
};

/* Writes the spans one after the other under a temporary name beside path, syncs them and renames:
 * path holds either what it held before or all of the spans, also after a power cut.  On failure
 * the temporary file is gone and error carries errno's text. */
int file_replace(const char *path, const struct file_span *spans, size_t count,
                 struct nn_error *error);

#endif
