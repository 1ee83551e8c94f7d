/* SPDX-License-Identifier: MIT */

/* How fast the path delivers. */

#include "rate.h"

#include <assert.h>

static const uint64_t second_ns = 1000000000;

/* a * b / c, saturating, without a 128-bit type (ISO C has none). */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t product;
    uint64_t whole;
    uint64_t rest;

    assert(c > 0);
    if (!__builtin_mul_overflow(a, b, &product))
        return product / c;
    /* Split a by c; what the remainder loses in the shift is under one part in 2^31. */
    if (__builtin_mul_overflow(a / c, b, &whole))
        return UINT64_MAX;
    a %= c;
    while (__builtin_mul_overflow(a, b, &product)) {
        a >>= 1;
        c >>= 1;
    }
    rest = product / c;
    return whole <= UINT64_MAX - rest ? whole + rest : UINT64_MAX;
}

uint64_t rate_per_second(uint64_t bytes, uint64_t ns)
{
    return scale(bytes, second_ns, ns);
}

uint64_t rate_bytes_in(uint64_t rate_bps, uint64_t ns)
{
    return scale(rate_bps, ns, second_ns);
}

uint64_t rate_time_of(uint64_t rate_bps, uint64_t bytes)
{
    return scale(bytes, second_ns, rate_bps);
}

void rate_init(struct rate *rate)
{
    *rate = (struct rate){.delivered = 0};
}

void rate_on_sent(struct rate *rate, struct sent_record *record, uint64_t in_flight_before)
{
    if (in_flight_before == 0) {
        rate->first_sent_ns = record->sent_ns;
        rate->delivered_ns = record->sent_ns;
    }
    record->first_sent_ns = rate->first_sent_ns;
    record->delivered = rate->delivered;
    record->delivered_ns = rate->delivered_ns;
    record->app_limited = rate->app_limited_until != 0;
}

void rate_on_acked(struct rate *rate, const struct sent_record *record, struct rate_sample *sample,
                   uint64_t arrived_ns)
{
    rate->delivered += record->bytes;
    if (arrived_ns > rate->delivered_ns)
        rate->delivered_ns = arrived_ns;
    sample->acked_bytes += record->bytes;
    if (sample->has_packet && record->seq < sample->newest_seq)
        return;
    sample->has_packet = true;
    sample->newest_seq = record->seq;
    sample->newest_sent_ns = record->sent_ns;
    sample->newest_in_flight_bytes = record->in_flight_bytes;
    sample->prior_delivered = record->delivered;
    sample->prior_ns = record->delivered_ns;
    sample->send_elapsed_ns = record->sent_ns - record->first_sent_ns;
    sample->app_limited = record->app_limited;
    rate->first_sent_ns = record->sent_ns;
}

void rate_finish(struct rate *rate, struct rate_sample *sample, uint64_t min_rtt_ns)
{
    uint64_t ack_elapsed_ns;

    if (rate->app_limited_until != 0 && rate->delivered > rate->app_limited_until)
        rate->app_limited_until = 0;
    if (!sample->has_packet)
        return;
    ack_elapsed_ns = rate->delivered_ns - sample->prior_ns;
    sample->interval_ns =
        ack_elapsed_ns > sample->send_elapsed_ns ? ack_elapsed_ns : sample->send_elapsed_ns;
    /* Shorter than any round trip: acknowledgements that came in a lump, no measure of the path. */
    if (sample->interval_ns == 0 || sample->interval_ns < min_rtt_ns)
        return;
    sample->rate_bps =
        rate_per_second(rate->delivered - sample->prior_delivered, sample->interval_ns);
}

void rate_on_app_limited(struct rate *rate, uint64_t in_flight_bytes)
{
    rate->app_limited_until = rate->delivered + in_flight_bytes;
    if (rate->app_limited_until == 0)
        rate->app_limited_until = 1;
}
