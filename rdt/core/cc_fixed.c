/* SPDX-License-Identifier: MIT */

/* RDT_CC_FIXED: a constant window, whatever happens.  For tests. */

#include "cc.h"

static void fixed_init(struct cc *cc, const struct cc_config *config)
{
    cc->cwnd_bytes = config->fixed_window > config->datagram_bytes ? config->fixed_window
                                                                   : config->datagram_bytes;
}

static void fixed_on_sent(struct cc *cc, uint32_t bytes, uint64_t in_flight_before, uint64_t now_ns)
{
    (void)cc;
    (void)bytes;
    (void)in_flight_before;
    (void)now_ns;
}

static void fixed_on_ack(struct cc *cc, const struct cc_ack *ack)
{
    (void)cc;
    (void)ack;
}

static void fixed_on_loss(struct cc *cc, const struct cc_loss *loss)
{
    (void)cc;
    (void)loss;
}

static void fixed_on_spurious(struct cc *cc, uint64_t bytes)
{
    (void)cc;
    (void)bytes;
}

static void fixed_on_persistent_congestion(struct cc *cc, uint64_t now_ns)
{
    (void)cc;
    (void)now_ns;
}

const struct cc_ops cc_fixed_ops = {
    .init = fixed_init,
    .on_sent = fixed_on_sent,
    .on_ack = fixed_on_ack,
    .on_loss = fixed_on_loss,
    .on_spurious = fixed_on_spurious,
    .on_persistent_congestion = fixed_on_persistent_congestion,
};
