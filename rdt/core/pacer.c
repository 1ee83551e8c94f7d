/* SPDX-License-Identifier: MIT */

/* Spreads packets over time. */

#include "pacer.h"

#include "rate.h"

#include <assert.h>

enum {
    BURST_NS = 2000000,
    BURST_DATAGRAMS = 2, /* more overflow the short queue of a slow link */
};

void pacer_init(struct pacer *pacer)
{
    *pacer = (struct pacer){.rate_bps = 0};
}

void pacer_set(struct pacer *pacer, const struct pacer_config *config)
{
    const uint64_t low = BURST_DATAGRAMS * (uint64_t)config->datagram_bytes;
    uint64_t burst;

    pacer->rate_bps = config->rate_bps;
    if (pacer->rate_bps == 0)
        return;
    burst = rate_bytes_in(pacer->rate_bps, BURST_NS);
    if (burst > config->train_bytes)
        burst = config->train_bytes;
    pacer->burst_bytes = burst > low ? burst : low;
}

uint64_t pacer_budget(const struct pacer *pacer, uint64_t now_ns)
{
    if (pacer->rate_bps == 0)
        return UINT64_MAX;
    return now_ns >= pacer->next_ns ? pacer->burst_bytes : 0;
}

void pacer_spend(struct pacer *pacer, uint64_t bytes, uint64_t now_ns)
{
    uint64_t made_up;

    if (pacer->rate_bps == 0)
        return;
    made_up = rate_time_of(pacer->rate_bps, pacer->burst_bytes);
    if (now_ns > made_up && pacer->next_ns < now_ns - made_up)
        pacer->next_ns = now_ns - made_up;
    pacer->next_ns += rate_time_of(pacer->rate_bps, bytes);
}

uint64_t pacer_deadline(const struct pacer *pacer)
{
    return pacer->rate_bps == 0 ? 0 : pacer->next_ns;
}
