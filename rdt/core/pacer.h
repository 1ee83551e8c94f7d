/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_PACER_H
#define RDT_CORE_PACER_H

/*
 * Spreads packets over time.  A burst may leave when the time of everything sent before has passed;
 * then the next one waits for as long as this one takes at the rate.  A sender that comes late
 * makes up for one burst.
 */

#include <stdint.h>

struct pacer {
    uint64_t rate_bps; /* bytes a second; 0: no pacing */
    uint64_t burst_bytes;
    uint64_t next_ns; /* when the next burst may leave */
};

struct pacer_config {
    uint64_t rate_bps;       /* bytes a second; 0: no pacing */
    uint32_t datagram_bytes; /* a burst is 2 ms of rate, at least 2 datagrams ... */
    uint32_t train_bytes;    /* ... and at most one train */
};

void pacer_init(struct pacer *pacer);

/* Changes the rate.  A wait that has begun is not changed. */
void pacer_set(struct pacer *pacer, const struct pacer_config *config);

/* Bytes that may leave now: a burst or nothing; UINT64_MAX without pacing. */
uint64_t pacer_budget(const struct pacer *pacer, uint64_t now_ns);

/* Bytes have left.  Probes and handshakes may spend without a budget. */
void pacer_spend(struct pacer *pacer, uint64_t bytes, uint64_t now_ns);

/* When there will be a budget; 0 without pacing. */
uint64_t pacer_deadline(const struct pacer *pacer);

#endif
