/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_ACK_H
#define RDT_CORE_ACK_H

/*
 * The ACK block: what arrived, and how much more may be sent.  It is the body of an ACK datagram
 * and, under the flag ACK_FIRST, precedes the chunks of others.
 *
 *     largest u64 | floor u64 | credit u64 | messages u32 | delay_us u32 | ranges u16 | grants u16
 *     ranges x { gap varint (absent for the first), length - 1 varint }        newest first
 *     grants x { chan u16 | msg_id u32 | upto u32 }
 *
 * gap is the count of missing packets between two ranges, less one.  A varint is LEB128: seven bits
 * a byte, lowest first, at most ten bytes, the shortest form only.
 */

#include "bytes.h"
#include "ranges.h"

enum {
    ACK_FIXED = 36,       /* bytes before the ranges */
    ACK_GRANT = 10,       /* bytes of one grant */
    ACK_RANGES_MAX = 256, /* in one block */
    ACK_GRANTS_MAX = 64,
};

struct ack_grant {
    uint32_t message_id;
    uint32_t upto; /* bytes of the message that may be sent */
    uint16_t channel;
};

struct ack {
    uint64_t floor;    /* the writer of this block has no packet below this SEQ in flight: forget */
    uint64_t credit;   /* absolute: the cost of messages the reader may have started, in all */
    uint32_t messages; /* likewise their count, modulo 2^32 */
    uint32_t delay_us; /* how long `largest` waited for this ACK */
    uint16_t range_count;
    uint16_t grant_count;
    struct range ranges[ACK_RANGES_MAX]; /* newest first, apart by at least one missing packet;
                                            ranges[0].last is the largest SEQ */
    struct ack_grant grants[ACK_GRANTS_MAX];
};

/*
 * Writes as many ranges, newest first, as fit into the writer beside the grants.  Returns the count
 * of ranges written; 0: not even the first fits and nothing was written.  A block with no range at
 * all (nothing received yet) is written with largest = 0 and returns 0 too: tell by w->written.
 */
size_t ack_encode(struct writer *w, const struct ack *ack);

/* false when malformed: truncated, too many ranges or grants, a range that would begin below
 * zero, a varint that is too long. */
bool ack_decode(struct reader *r, struct ack *out);

#endif
