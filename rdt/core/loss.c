/* SPDX-License-Identifier: MIT */

/*
 * DESIGN: packets leave in the order of their SEQ, so both thresholds are first met by the oldest
 * packet in flight.  Looking at that one alone finds every loss, in O(1) each.
 */

#include "loss.h"

#include <assert.h>

void loss_init(struct loss *loss)
{
    *loss = (struct loss){
        .packets = LOSS_PACKETS,
        .eighths = LOSS_EIGHTHS,
        .deadline_ns = UINT64_MAX,
    };
}

static uint64_t round_trip_ns(const struct rtt *rtt)
{
    const uint64_t smoothed = rtt_smoothed_ns(rtt);

    return smoothed > rtt->latest_ns ? smoothed : rtt->latest_ns;
}

/* Goes half the way back to what a path without reordering needs. */
static void calm_down(struct loss *loss)
{
    if (++loss->calm < LOSS_CALM)
        return;
    loss->calm = 0;
    loss->packets = LOSS_PACKETS + (loss->packets - LOSS_PACKETS) / 2;
    loss->eighths = LOSS_EIGHTHS + (loss->eighths - LOSS_EIGHTHS) / 2;
}

struct sent_record *loss_next(struct loss *loss, struct sent *sent, const struct rtt *rtt,
                              uint64_t now_ns)
{
    struct sent_record *record = sent_oldest(sent);
    uint64_t delay;

    loss->deadline_ns = UINT64_MAX;
    if (!record || record->seq + 1 >= sent->acked_end)
        return NULL;
    delay = round_trip_ns(rtt) / 8 * loss->eighths;
    if (delay < RTT_GRANULARITY_NS)
        delay = RTT_GRANULARITY_NS;
    if (sent->acked_end - 1 - record->seq < loss->packets && now_ns < record->sent_ns + delay) {
        loss->deadline_ns = record->sent_ns + delay;
        return NULL;
    }
    sent_on_lost(sent, record);
    calm_down(loss);
    return record;
}

void loss_on_spurious(struct loss *loss, const struct sent *sent, const struct rtt *rtt,
                      const struct sent_record *record, uint64_t now_ns)
{
    const uint64_t behind = sent->acked_end > record->seq ? sent->acked_end - record->seq : 0;
    const uint64_t late = (now_ns - record->sent_ns) / (round_trip_ns(rtt) / 8 + 1) + 1;

    assert(record->state == SENT_LOST);
    loss->calm = 0;
    if (behind > loss->packets)
        loss->packets = behind < LOSS_PACKETS_MAX ? (uint32_t)behind : LOSS_PACKETS_MAX;
    if (late > loss->eighths)
        loss->eighths = late < LOSS_EIGHTHS_MAX ? (uint32_t)late : LOSS_EIGHTHS_MAX;
}
