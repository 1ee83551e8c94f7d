/* SPDX-License-Identifier: MIT */
#ifndef TESTS_NN_DISK_H
#define TESTS_NN_DISK_H

/*
 * Files for the tests of file formats: a directory of their own under $TMPDIR, removed at the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the directory (a fixture's set-up) and removes it with all that is in it (tear-down). */
void disk_open(void);
void disk_close(void);

/* The path of a file in it; good until the eighth call after this one. */
const char *disk_path(const char *name);

/* Writes a file there and gives its path. */
const char *disk_put(const char *name, const void *bytes, size_t len);
const char *disk_put_gzip(const char *name, const void *bytes, size_t len);

/* Reads a whole file; free the bytes. */
uint8_t *disk_get(const char *path, size_t *len);

/* Copies bytes that are not a string, and gives the place after them. */
uint8_t *disk_lay(uint8_t *to, const void *bytes, size_t len);

/* How many files there are: nothing temporary is left behind. */
int disk_files(void);

/* Makes every write beyond `bytes` of a file fail, as a full disk does (EFBIG for ENOSPC). */
void disk_limit(size_t bytes);
void disk_unlimit(void);

/* Runs a command in it with the shell; true when it ends with 0. */
bool disk_shell(const char *command);

#endif
