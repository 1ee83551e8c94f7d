/* SPDX-License-Identifier: MIT */

/* Round-trip estimate of one path. */

#include "rtt.h"

void rtt_init(struct rtt *rtt)
{
    *rtt = (struct rtt){.smoothed_ns = 0};
}

void rtt_sample(struct rtt *rtt, uint64_t sample_ns, uint64_t ack_delay_ns)
{
    uint64_t adjusted = sample_ns > 0 ? sample_ns : 1;
    uint64_t off;

    if (rtt->min_ns == 0 || adjusted < rtt->min_ns)
        rtt->min_ns = adjusted;
    /* Taking the delay off must not give less than the path has ever shown. */
    if (adjusted >= rtt->min_ns + ack_delay_ns)
        adjusted -= ack_delay_ns;
    rtt->latest_ns = adjusted;
    if (rtt->smoothed_ns == 0) {
        rtt->smoothed_ns = adjusted;
        rtt->var_ns = adjusted / 2;
        return;
    }
    off = rtt->smoothed_ns > adjusted ? rtt->smoothed_ns - adjusted : adjusted - rtt->smoothed_ns;
    rtt->var_ns = rtt->var_ns - rtt->var_ns / 4 + off / 4;
    rtt->smoothed_ns = rtt->smoothed_ns - rtt->smoothed_ns / 8 + adjusted / 8;
    if (rtt->smoothed_ns == 0)
        rtt->smoothed_ns = 1;
}

uint64_t rtt_smoothed_ns(const struct rtt *rtt)
{
    return rtt->smoothed_ns > 0 ? rtt->smoothed_ns : RTT_INITIAL_NS;
}

uint64_t rtt_pto_ns(const struct rtt *rtt, uint64_t max_ack_delay_ns)
{
    const uint64_t var = rtt->smoothed_ns > 0 ? rtt->var_ns : RTT_INITIAL_NS / 2;
    const uint64_t spread = 4 * var > RTT_GRANULARITY_NS ? 4 * var : RTT_GRANULARITY_NS;

    return rtt_smoothed_ns(rtt) + spread + max_ack_delay_ns;
}
