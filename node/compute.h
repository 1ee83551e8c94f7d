/* SPDX-License-Identifier: MIT */
#ifndef NODE_COMPUTE_H
#define NODE_COMPUTE_H

/*
 * A crew: threads that do one piece of work together.  Whoever calls crew_run is hand 0, so a crew
 * of one has no thread of its own.
 */

#include <stdint.h>

enum { CREW_MAX = 256 };

struct crew; /* opaque */

/* hands: 1 ... CREW_MAX.  `start` is called once by every thread the crew makes.  Returns 0, or -1
 * when memory or threads are out. */
int crew_open(struct crew **out, uint32_t hands, void (*start)(void));
void crew_free(struct crew *crew);

uint32_t crew_hands(const struct crew *crew);

/* work(arg, hand) on every hand at once; returns when all have returned. */
void crew_run(struct crew *crew, void (*work)(void *arg, uint32_t hand), void *arg);

/* One lock for what the hands share while they work. */
void crew_lock(struct crew *crew);
void crew_unlock(struct crew *crew);

#endif
