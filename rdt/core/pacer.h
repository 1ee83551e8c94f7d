/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_PACER_H
#define RDT_CORE_PACER_H

/*
 * Spreads packets over time: a token bucket of bytes.  A packet may leave while the bucket is not
 * in debt; so a train may overdraw it by its own length, and the next one waits.
 */

#include <stdint.h>

struct pacer {
    uint64_t rate_bps; /* bytes a second; 0: no pacing */
    int64_t tokens;    /* bytes, scaled down by nothing; negative: in debt */
    uint64_t burst;    /* most tokens there can be */
    uint64_t updated_ns;
};

struct pacer_config {
    uint64_t rate_bps;       /* bytes a second; 0: no pacing */
    uint32_t datagram_bytes; /* the burst is max(10 datagrams, 2 ms of rate) ... */
    uint32_t train_bytes;    /* ... and at most one train */
};

void pacer_init(struct pacer *pacer);

/* Changes the rate; what was earned at the old one is kept. */
void pacer_set(struct pacer *pacer, const struct pacer_config *config, uint64_t now_ns);

/* Bytes that may leave now; UINT64_MAX without pacing.  0: ask again at pacer_deadline. */
uint64_t pacer_budget(struct pacer *pacer, uint64_t now_ns);

/* Bytes have left.  Probes and handshakes may spend without a budget. */
void pacer_spend(struct pacer *pacer, uint64_t bytes, uint64_t now_ns);

/* When there is a budget for one datagram again; 0: there is one now. */
uint64_t pacer_deadline(const struct pacer *pacer);

#endif
