/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_ACKER_H
#define RDT_CORE_ACKER_H

/*
 * When an ACK block has to go out: because packets arrived, or because the peer may send more than
 * it knows.
 *
 * DESIGN: an acknowledgement may be lost, the next one says more.  News - raised credits, grants -
 * may not: a peer that waits for it sends nothing that would be answered.  So news travels in
 * packets that ask for an acknowledgement themselves and is sent again, with the newest values,
 * when such a packet is lost.  To keep that rare under load, a small raise waits a little for
 * company.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
    ACKER_PACKETS = 8,    /* packets acknowledged by one ACK when nothing hurries */
    ACKER_NEWS_SHARE = 4, /* a raise by this part of the window is told at once */
};

struct acker {
    uint64_t deadline_ns; /* UINT64_MAX: nothing waits */
    uint64_t largest_ns;  /* when the packet with the largest SEQ arrived */
    uint32_t pending;     /* packets that ask for an acknowledgement and have none */
    bool due;
};

void acker_init(struct acker *acker);

/* A packet that asks for an acknowledgement. */
void acker_on_packet(struct acker *acker, bool urgent, uint64_t now_ns, uint64_t delay_ns);
void acker_on_sent(struct acker *acker);
bool acker_is_due(const struct acker *acker, uint64_t now_ns);

/* What the peer may send at most: absolute values. */
struct allowance {
    uint64_t credit;
    uint32_t messages;
};

struct news {
    struct allowance known; /* to the peer, for sure */
    struct allowance sent;  /* in the newest version */
    uint64_t version;       /* of the newest block that carried news; 0: none */
    uint64_t known_version;
    uint64_t deadline_ns; /* UINT64_MAX: no news waits */
    bool due;
};

struct news_step {
    uint64_t credit; /* a raise by so much is told at once */
    uint32_t messages;
};

/* The peer knows `known` from the handshake. */
void news_init(struct news *news, struct allowance known);

/* The allowance is now `now`: decides whether and when to tell. */
void news_update(struct news *news, struct allowance allowance, struct news_step step,
                 uint64_t deadline_ns);

/* Something that must be told at once: a grant. */
void news_hurry(struct news *news);
bool news_is_due(const struct news *news, uint64_t now_ns);

/* A packet that asks for an acknowledgement carries it; returns the version. */
uint64_t news_on_sent(struct news *news, struct allowance allowance);
void news_on_acked(struct news *news, uint64_t version);
void news_on_lost(struct news *news, uint64_t version);

#endif
