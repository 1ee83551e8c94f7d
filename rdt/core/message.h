/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_MESSAGE_H
#define RDT_CORE_MESSAGE_H

/*
 * What the two ends of a message agree on: its name, and the chunks that carry its bytes.
 *
 *     msg_id u32 | msg_len u32 | offset u32 | length u16 | cflags u16 | tag u64 | payload
 *
 * and, when cflags has UPDATE, budget u32 | deadline_ms u32 (both 0) before the payload.
 * A message is named by its lane and its number there.  A lane is a channel together with whether
 * the message is ordered, so ordered messages are numbered without holes: arriving in order and
 * being delivered in order are one question.
 */

#include <rdt/rdt.h>

#include "bytes.h"

enum {
    CHUNK_BYTES = 24,        /* before the payload of DATA */
    CHUNK_UPDATE_BYTES = 32, /* before the payload of UPDATE */
    CHUNK_LEN_MAX = UINT16_MAX,
    MESSAGE_LANES = 2 * RDT_CHANNELS,
    MESSAGE_WINDOW = 65536, /* numbers of one lane between the oldest unfinished and the newest */
};

enum chunk_flags {
    CHUNK_ORDERED = 1,
    CHUNK_UPDATE = 2,
    CHUNK_FLAGS_ALL = 3,
};

/* Where a grant's channel field keeps "ordered". */
enum {
    LANE_ORDERED_BIT = 0x8000,
};

struct chunk {
    const uint8_t *payload;
    uint64_t tag;
    uint32_t message_id;
    uint32_t message_len;
    uint32_t offset;
    uint16_t len;
    bool ordered;
    enum rdt_kind kind;
};

static inline unsigned message_lane(unsigned channel, bool ordered)
{
    return 2 * channel + (ordered ? 1 : 0);
}

static inline size_t chunk_header_bytes(enum rdt_kind kind)
{
    return kind == RDT_UPDATE ? CHUNK_UPDATE_BYTES : CHUNK_BYTES;
}

/* Writes the header; the payload is the caller's to put behind it. */
void chunk_encode(struct writer *w, const struct chunk *chunk);

/* Reads header and payload (in place).  false when malformed: truncated, an unknown flag, a budget,
 * past the end of the message, or empty in a message that is not. */
bool chunk_decode(struct reader *r, struct chunk *out);

#endif
