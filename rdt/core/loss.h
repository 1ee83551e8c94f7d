/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_LOSS_H
#define RDT_CORE_LOSS_H

/*
 * Which packets in flight are lost (RFC 9002, section 6.1): a later one was acknowledged, and this
 * one is either a number of packets behind it or was sent too long ago.  Both thresholds grow when
 * a packet that was given up comes after all, for then the path reorders, and shrink slowly.
 */

#include "rtt.h"
#include "sent.h"

enum {
    LOSS_PACKETS = 3,        /* packet threshold without reordering */
    LOSS_PACKETS_MAX = 1024, /* and the most it grows to */
    LOSS_EIGHTHS = 9,        /* time threshold in eighths of the round trip */
    LOSS_EIGHTHS_MAX = 24,
    LOSS_CALM = 128, /* losses without a spurious one, after which the thresholds shrink */
};

struct loss {
    uint32_t packets;     /* now */
    uint32_t eighths;     /* now */
    uint64_t deadline_ns; /* when loss_next may find more; UINT64_MAX: not before the next ACK */
    uint32_t calm;        /* losses since the last spurious one */
};

void loss_init(struct loss *loss);

/*
 * The next lost packet, marked so in `sent`, or NULL when there is no more; then deadline_ns holds.
 * Call in a loop after each ACK and when the deadline has come.
 */
struct sent_record *loss_next(struct loss *loss, struct sent *sent, const struct rtt *rtt,
                              uint64_t now_ns);

/* A packet declared lost was acknowledged after all.  Call before sent_on_acked. */
void loss_on_spurious(struct loss *loss, const struct sent *sent, const struct rtt *rtt,
                      const struct sent_record *record, uint64_t now_ns);

#endif
