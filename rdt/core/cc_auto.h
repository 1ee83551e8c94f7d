/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_CC_AUTO_H
#define RDT_CORE_CC_AUTO_H

/*
 * State of RDT_CC_AUTO, kept inside struct cc.  Nobody but cc_auto.c looks into it.
 *
 * The idea, the states and the numbers are explained at the top of cc_auto.c.
 */

#include <stdbool.h>
#include <stdint.h>

enum cc_auto_mode {
    CC_AUTO_STARTUP,
    CC_AUTO_DRAIN,
    CC_AUTO_PROBE,
    CC_AUTO_PROBE_RTT,
};

enum {
    CC_AUTO_SAMPLES = 3, /* best, second and third best of the windowed maximum */
};

struct cc_auto_peak {
    uint64_t value;
    uint64_t round;
};

struct cc_auto {
    enum cc_auto_mode mode;
    bool filled; /* start-up has found the path's rate */
    bool local;  /* same machine: no pacing, a window of its own */
    bool round_started;

    struct cc_auto_peak rate[CC_AUTO_SAMPLES]; /* bytes a second, windowed maximum */
    uint64_t round;
    uint64_t round_end_delivered;
    uint64_t round_start_delivered;
    uint64_t round_lost_bytes;
    uint64_t round_rtt_ns; /* smallest sample of the round; UINT64_MAX: none */
    uint64_t last_reduction_round;

    uint64_t min_rtt_ns; /* 0: none yet */
    uint64_t min_rtt_at_ns;
    uint64_t probe_rtt_until_ns; /* 0: still draining towards it */

    uint64_t full_rate;
    uint32_t full_rounds;

    uint32_t cycle_phase;
    uint32_t pacing_gain; /* in 1/1000 */
    uint32_t probe_gain;
    uint64_t cycle_start_ns;
    uint32_t loss_permille; /* smoothed random loss, made up for by the pacing rate */

    uint64_t bound_bytes; /* most in flight after losses with a full queue; UINT64_MAX: none */
    uint64_t undo_bound_bytes;
    uint64_t undo_lost_bytes;

    uint64_t epoch_ns; /* ack aggregation */
    uint64_t epoch_acked_bytes;
    struct cc_auto_peak extra_acked[2];

    uint64_t local_window_bytes;
    uint64_t random; /* splitmix64 state */
};

#endif
