/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_SWEEP_H
#define TESTS_SIM_SWEEP_H

/*
 * No datagram is dear: small runs over perfect links, each without the n-th datagrams of one
 * direction or of both.  Every run must come to the same weights and be over hardly later than the
 * run that loses nothing.  A protocol that needs a certain packet to arrive - a credit, a grant, an
 * acknowledgement of the last byte - stalls here until some distant timer, or for ever.
 */

#include "world.h"

#include <stdbool.h>

/* For n = 1 ... last.  false: a run failed or took too long; said on stdout. */
bool sweep_run(const struct problem *problems, const struct world_files *files, uint64_t last);

#endif
