/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_VERIFY_H
#define COORDINATOR_VERIFY_H

/* Did two runs train the same weights?  If not, where do they part: step, tensor, element. */

/* Says so on stdout.  0: the same, 1: they differ, 2: a file cannot be read. */
int verify(const char *dir_a, const char *dir_b);

/* Prints weights_xxh3 of a safetensors file.  0, or 2: it cannot be read. */
int verify_hash(const char *path);

#endif
