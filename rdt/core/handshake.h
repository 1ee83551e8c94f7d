/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_HANDSHAKE_H
#define RDT_CORE_HANDSHAKE_H

/*
 * The bodies of INIT and ACCEPT, and when the silent are asked again.
 *
 *     INIT    version u32 | profile u8 | 0 u8 | cookie_len u16 (0) | nonce 16 | cid u32 | limits
 *             | zeroes up to the padding
 *     ACCEPT  version u32 | profile u8 | status u8 | 0 u16 | the INIT's nonce 16 | nonce 16
 *             | cid u32 | limits
 *     limits  message_max u32 | messages u32 | credit u64 | ack_delay_us u32 | datagram_max u32
 */

#include "bytes.h"
#include "frame.h"

enum {
    HANDSHAKE_VERSION = 1,
    HANDSHAKE_PROFILE_PLAIN = 0,
    HANDSHAKE_LIMITS_BYTES = 24,
    HANDSHAKE_PAD = 1200,      /* bytes of an INIT datagram */
    HANDSHAKE_PAD_SMALL = 548, /* after HANDSHAKE_PAD_TRIES silent ones */
    HANDSHAKE_PAD_TRIES = 2,
    HANDSHAKE_ACCEPT_BYTES = FRAME_PREFIX + 8 + 2 * FRAME_NONCE + 4 + HANDSHAKE_LIMITS_BYTES,
    HANDSHAKE_FIRST_NS = 50000000, /* wait before the second INIT; then 3/2 of the last wait */
    HANDSHAKE_LAST_NS = 500000000, /* and never longer than this */
};

enum handshake_status {
    HANDSHAKE_ACCEPTED = 0,
    HANDSHAKE_REFUSED = 1,
};

/* What one side tells the other about its receiving end. */
struct handshake_limits {
    uint64_t credit;       /* cost of the messages that may be begun, to start with */
    uint32_t message_max;  /* largest message that is taken without a posted buffer */
    uint32_t messages;     /* how many may be begun, to start with */
    uint32_t ack_delay_us; /* longest it holds an acknowledgement back */
    uint32_t datagram_max; /* largest datagram it takes */
};

struct handshake_init {
    uint8_t nonce[FRAME_NONCE];
    uint32_t cid; /* what packets to the sender of the INIT shall carry */
    struct handshake_limits limits;
};

struct handshake_accept {
    enum handshake_status status;
    uint8_t client_nonce[FRAME_NONCE];
    uint8_t server_nonce[FRAME_NONCE];
    uint32_t cid; /* 0 when refused */
    struct handshake_limits limits;
};

/* Body of an INIT, padded so that the datagram is `datagram` bytes long. */
void handshake_encode_init(struct writer *w, const struct handshake_init *init, size_t datagram);

/* false when malformed or of another version or profile. */
bool handshake_decode_init(struct reader *r, struct handshake_init *out);

void handshake_encode_accept(struct writer *w, const struct handshake_accept *accept);
bool handshake_decode_accept(struct reader *r, struct handshake_accept *out);

/* The wait after one of `wait_ns`; 0: the first. */
uint64_t handshake_next_wait(uint64_t wait_ns);

#endif
