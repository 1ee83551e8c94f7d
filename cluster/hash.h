/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_HASH_H
#define CLUSTER_HASH_H

/* XXH3-64, seed 0: the `hash` of a message is that of its body. */

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *bytes, size_t len);

#endif
