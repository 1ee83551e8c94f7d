/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_CC_H
#define RDT_CORE_CC_H

/*
 * Congestion control: how many bytes may be in flight, and how fast they may leave.
 *
 * Algorithms stand behind a table of functions and share nothing.  Feed each ACK once, after losses
 * were detected with it; then read cwnd_bytes and pacing_bps.
 */

#include <rdt/rdt.h>

#include "cc_auto.h"
#include "rate.h"

struct cc;

struct cc_config {
    enum rdt_cc algorithm;
    uint32_t datagram_bytes; /* the largest datagram sent */
    uint64_t fixed_window;   /* RDT_CC_FIXED */
    uint64_t seed;           /* of the probe's phase: flows must not probe in step */
};

/* One ACK with at least one newly acknowledged packet. */
struct cc_ack {
    uint64_t now_ns;
    uint64_t delivered;              /* rate.delivered, this ACK included */
    uint64_t lost_bytes;             /* found lost with this ACK */
    uint64_t in_flight_before_bytes; /* before this ACK and its losses */
    uint64_t in_flight_bytes;        /* after */
    uint64_t rtt_ns;                 /* sample of this ACK, its delay taken off; 0: none */
    uint64_t smoothed_rtt_ns;
    const struct rate_sample *sample; /* finished */
};

/* Losses found by a timer, without an ACK. */
struct cc_loss {
    uint64_t now_ns;
    uint64_t lost_bytes;
    uint64_t in_flight_bytes; /* after */
};

struct cc_ops {
    void (*init)(struct cc *cc, const struct cc_config *config);
    void (*on_sent)(struct cc *cc, uint32_t bytes, uint64_t in_flight_before, uint64_t now_ns);
    void (*on_ack)(struct cc *cc, const struct cc_ack *ack);
    void (*on_loss)(struct cc *cc, const struct cc_loss *loss);
    void (*on_spurious)(struct cc *cc, uint64_t bytes);
    void (*on_persistent_congestion)(struct cc *cc, uint64_t now_ns);
};

struct cc {
    const struct cc_ops *ops;
    uint64_t cwnd_bytes;
    uint64_t pacing_bps; /* bytes a second; 0: not paced */
    uint32_t datagram_bytes;
    struct cc_auto automatic; /* RDT_CC_AUTO's own */
};

extern const struct cc_ops cc_fixed_ops;
extern const struct cc_ops cc_auto_ops;

void cc_init(struct cc *cc, const struct cc_config *config);

/* in_flight_before: bytes in flight without this packet. */
void cc_on_sent(struct cc *cc, uint32_t bytes, uint64_t in_flight_before, uint64_t now_ns);
void cc_on_ack(struct cc *cc, const struct cc_ack *ack);
void cc_on_loss(struct cc *cc, const struct cc_loss *loss);

/* Bytes that were counted as lost have arrived after all. */
void cc_on_spurious(struct cc *cc, uint64_t bytes);

/* Nothing came back for three probe timeouts. */
void cc_on_persistent_congestion(struct cc *cc, uint64_t now_ns);

/* How many more bytes the window lets out. */
uint64_t cc_room(const struct cc *cc, uint64_t in_flight_bytes);

#endif
