/* SPDX-License-Identifier: MIT */
#ifndef TESTS_RDT_FLOW_H
#define TESTS_RDT_FLOW_H

/*
 * One sender that always has something to send, one receiver that acknowledges, a simulated link in
 * each direction and virtual time: the modules below a connection in a closed loop.
 */

#include <rdt/link.h>

#include "rdt/core/cc.h"

struct flow_config {
    const char *forward; /* impairments, as rdt_link_parse reads them */
    const char *back;
    enum rdt_cc algorithm;
    uint64_t fixed_window;
    uint64_t duration_ns;
    uint64_t measure_from_ns; /* start-up is left out */
    uint64_t pause_every_ns;  /* the receiver reads nothing for pause_ns so often; 0: never */
    uint64_t pause_ns;
    uint64_t black_from_ns; /* nothing gets through either way */
    uint64_t black_until_ns;
    uint64_t seed;
};

struct flow_result { /* between measure_from_ns and duration_ns */
    uint64_t received_bytes;
    uint64_t sent_bytes;
    uint64_t declared_lost;
    uint64_t spurious;
    uint64_t sent_packets;
    uint64_t overflowed; /* dropped by the forward link's queue */
    double received_bps; /* bytes a second */
    uint64_t cwnd_bytes;
    uint64_t smoothed_rtt_ns; /* at the end */
    uint64_t rtt_max_ns;
    uint32_t loss_packets; /* thresholds at the end */
};

struct flow_result flow_run(const struct flow_config *config);

#endif
