/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_CC_AUTO_H
#define RDT_CORE_CC_AUTO_H

/*
 * State of RDT_CC_AUTO, kept inside struct cc.  Nobody but cc_auto.c looks into it; the idea, the
 * states and the numbers are explained there.
 */

#include <stdbool.h>
#include <stdint.h>

enum cc_auto_mode {
    CC_AUTO_STARTUP,
    CC_AUTO_DRAIN,
    CC_AUTO_PROBE,
    CC_AUTO_PROBE_RTT,
};

struct cc_auto_peak {
    uint64_t value;
    uint64_t round;
};

/* Bytes that arrived and bytes that did not, over some time. */
struct cc_auto_tally {
    uint64_t acked_bytes;
    uint64_t lost_bytes;
};

struct cc_auto {
    enum cc_auto_mode mode;
    bool filled; /* start-up has found the path's rate */
    bool local;  /* a path without delay of its own: no pacing, another window */
    bool round_started;
    uint64_t random; /* splitmix64 state */

    struct cc_auto_peak rate[3]; /* bytes a second: best, second, third of the newest rounds */
    uint64_t full_rate;
    uint32_t full_rounds;

    uint64_t round; /* counts round trips */
    uint64_t round_end_delivered;
    uint64_t round_rtt_ns; /* smallest sample of this round; UINT64_MAX: none */
    struct cc_auto_tally round_tally;

    uint64_t min_rtt_ns;     /* 0: none yet */
    uint64_t min_rtt_at_ns;  /* when it was last seen, or measured anew */
    uint64_t recent_rtt_ns;  /* smallest sample since then; UINT64_MAX: none */
    uint64_t probe_until_ns; /* CC_AUTO_PROBE_RTT: 0 while packets still drain */

    uint32_t phase;      /* of the probe cycle */
    uint32_t probe_gain; /* in 1/1000 */
    uint64_t phase_start_ns;
    struct cc_auto_tally probe_tally;  /* of this cycle: while probing and just after */
    struct cc_auto_tally cruise_tally; /* and in the rest of it */
    uint64_t cruise_rtt_ns;            /* smallest sample of the cruise; UINT64_MAX: none */
    uint32_t random_loss;              /* smoothed, in 1/1000: made up for by the pacing rate */

    uint64_t bound_bytes; /* in flight at most, after losses in a full queue; UINT64_MAX: none */
    uint64_t undo_bytes;  /* bound before the last reduction */
    uint64_t undo_lost_bytes; /* losses behind it that have not proven spurious */

    uint64_t epoch_ns; /* acknowledgements that come in lumps */
    uint64_t epoch_acked_bytes;
    struct cc_auto_peak lump[2]; /* most that came early: in these rounds and those before */

    uint64_t local_window_bytes;
    uint64_t local_reduced_round;
};

#endif
