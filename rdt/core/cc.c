/* SPDX-License-Identifier: MIT */

/* Congestion control: the table of algorithms. */

#include "cc.h"

#include <assert.h>

static const struct cc_ops *ops_of(enum rdt_cc algorithm)
{
    switch (algorithm) {
    case RDT_CC_AUTO:
        return &cc_auto_ops;
    case RDT_CC_FIXED:
        return &cc_fixed_ops;
    }
    return NULL;
}

void cc_init(struct cc *cc, const struct cc_config *config)
{
    *cc = (struct cc){
        .ops = ops_of(config->algorithm),
        .datagram_bytes = config->datagram_bytes,
    };
    assert(cc->ops);
    assert(cc->datagram_bytes > 0);
    cc->ops->init(cc, config);
    assert(cc->cwnd_bytes >= cc->datagram_bytes);
}

void cc_on_sent(struct cc *cc, uint32_t bytes, uint64_t in_flight_before, uint64_t now_ns)
{
    cc->ops->on_sent(cc, bytes, in_flight_before, now_ns);
}

void cc_on_ack(struct cc *cc, const struct cc_ack *ack)
{
    assert(ack->sample);
    cc->ops->on_ack(cc, ack);
}

void cc_on_loss(struct cc *cc, const struct cc_loss *loss)
{
    cc->ops->on_loss(cc, loss);
}

void cc_on_spurious(struct cc *cc, uint64_t bytes)
{
    cc->ops->on_spurious(cc, bytes);
}

void cc_on_persistent_congestion(struct cc *cc, uint64_t now_ns)
{
    cc->ops->on_persistent_congestion(cc, now_ns);
}

uint64_t cc_room(const struct cc *cc, uint64_t in_flight_bytes)
{
    return cc->cwnd_bytes > in_flight_bytes ? cc->cwnd_bytes - in_flight_bytes : 0;
}
