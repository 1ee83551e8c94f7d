/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_CREDIT_H
#define RDT_CORE_CREDIT_H

/*
 * How much a peer may begin to send: promises of pool memory.
 *
 * DESIGN: a promise cannot be taken back, so every connection owns a base that lets one message of
 * any size through, and borrows more from a bank that all connections share.  It takes half of what
 * is there (its own loan included), so one busy connection gets most of the pool, and a later one
 * still finds some; loans shrink towards the fair share as promises are used up.
 */

#include <stdint.h>

struct credit_bank {
    uint64_t left;
};

struct credit {
    uint64_t limit;    /* absolute: cost of all messages the peer may have begun */
    uint64_t begun;    /* cost of those it has */
    uint64_t returned; /* cost of those that hold no pool memory any more */
    uint64_t base;
    uint64_t loan;
};

void credit_init(struct credit *credit, struct credit_bank *bank, uint64_t base);
void credit_fini(struct credit *credit, struct credit_bank *bank);

/* A message that had cost so much needs no pool memory now. */
void credit_return(struct credit *credit, struct credit_bank *bank, uint64_t cost);

/* Cost that may be outstanding. */
static inline uint64_t credit_window(const struct credit *credit)
{
    return credit->base + credit->loan;
}

#endif
