/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_RTT_H
#define RDT_CORE_RTT_H

/*
 * Round-trip estimate of one path (RFC 9002, section 5), in nanoseconds and never rounded to 0.
 * Pure arithmetic: no clock, no allocation.
 */

#include <stdint.h>

enum {
    RTT_GRANULARITY_NS = 50000, /* below this no timer is worth setting */
    RTT_INITIAL_NS = 100000000, /* assumed before the first sample */
};

struct rtt {
    uint64_t smoothed_ns; /* 0 until the first sample */
    uint64_t var_ns;
    uint64_t latest_ns;
    uint64_t min_ns; /* without taking the ack delay off; 0 until the first sample */
};

void rtt_init(struct rtt *rtt);

/* Folds one sample in: now - sent of the largest newly acknowledged packet.  ack_delay_ns is what
 * the peer says it waited; the caller caps it at the agreed maximum. */
void rtt_sample(struct rtt *rtt, uint64_t sample_ns, uint64_t ack_delay_ns);

/* The estimate, or RTT_INITIAL_NS before the first sample. */
uint64_t rtt_smoothed_ns(const struct rtt *rtt);

/* After how long without an ACK to probe: smoothed + max(4 var, granularity) + ack delay.  There
 * is no other floor. */
uint64_t rtt_pto_ns(const struct rtt *rtt, uint64_t max_ack_delay_ns);

#endif
