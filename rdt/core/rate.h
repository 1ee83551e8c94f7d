/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_RATE_H
#define RDT_CORE_RATE_H

/*
 * How fast the path delivers: one sample for each ACK, from what each packet remembers about the
 * moment it left (draft-cheng-iccrg-delivery-rate-estimation).
 */

#include "sent.h"

struct rate {
    uint64_t delivered; /* bytes acknowledged, in all */
    uint64_t delivered_ns;
    uint64_t first_sent_ns;
    uint64_t app_limited_until; /* value of delivered; 0: the sender had enough to send */
};

/* What one ACK says.  Make it {0} before its first packet. */
struct rate_sample {
    uint64_t rate_bps;        /* bytes a second; 0: no sample */
    uint64_t interval_ns;     /* it was taken over */
    uint64_t prior_delivered; /* rate.delivered when the newest packet acknowledged here left */
    uint64_t acked_bytes;
    uint64_t newest_sent_ns;
    uint64_t newest_seq;
    uint64_t prior_ns;
    uint64_t send_elapsed_ns;
    uint64_t newest_in_flight_bytes; /* when the newest left, itself included */
    bool app_limited;
    bool has_packet;
};

/* bytes / ns as bytes a second, without overflow; ns > 0. */
uint64_t rate_per_second(uint64_t bytes, uint64_t ns);

/* What a rate of bytes a second makes in ns, and how long it takes for bytes (rate > 0). */
uint64_t rate_bytes_in(uint64_t rate_bps, uint64_t ns);
uint64_t rate_time_of(uint64_t rate_bps, uint64_t bytes);

void rate_init(struct rate *rate);

/* Fills the record's rate fields.  in_flight_before: bytes in flight without this packet. */
void rate_on_sent(struct rate *rate, struct sent_record *record, uint64_t in_flight_before);

/* For each packet newly acknowledged; then rate_finish once per ACK.  arrived_ns: when the ACK
 * would have come without the peer's delay; how long it waits for company must not look like a
 * rate. */
void rate_on_acked(struct rate *rate, const struct sent_record *record, struct rate_sample *sample,
                   uint64_t arrived_ns);
void rate_finish(struct rate *rate, struct rate_sample *sample, uint64_t min_rtt_ns);

/* The window had room and there was nothing to send: samples until these bytes are acknowledged
 * say more about the application than about the path. */
void rate_on_app_limited(struct rate *rate, uint64_t in_flight_bytes);

#endif
