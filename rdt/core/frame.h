/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_FRAME_H
#define RDT_CORE_FRAME_H

/*
 * The 24 bytes every datagram begins with, and the hash that covers all of it.
 *
 *     SEQ u64 | TYPE u8 | FLAGS u8 | CHAN u16 | CID u32 | HASH u64        little-endian
 *
 * HASH is XXH3-64 of the whole datagram with the HASH field as zero, under a 64-bit seed.  It finds
 * corruption; it does not stop an attacker.  The fastest instruction set of the CPU is used; all of
 * them give the same value.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_PREFIX = 24,
    FRAME_HASH_AT = 16,
    FRAME_NONCE = 16,
};

enum frame_type {
    FRAME_DATA = 0,
    FRAME_ACK = 1,
    FRAME_UPDATE = 2,
    FRAME_RETRANSMIT = 3,
    FRAME_PING = 4,
    FRAME_CLOSE = 7,
    FRAME_INIT = 16,
    FRAME_ACCEPT = 18,
    FRAME_CONFIRM = 19,
};

enum frame_flags {
    FRAME_ACK_NOW = 1,   /* the receiver must acknowledge at once */
    FRAME_ACK_FIRST = 2, /* an ACK block precedes the chunks */
    FRAME_FLAGS_ALL = 3,
};

struct frame {
    uint64_t seq;
    uint64_t hash; /* as on the wire; frame_encode writes zero */
    uint32_t cid;
    uint16_t channel;
    uint8_t type; /* an enum frame_type */
    uint8_t flags;
};

/*
 * Reads the prefix.  false when the datagram is malformed: shorter than the prefix, of unknown
 * TYPE, a FLAGS bit that nobody defined, ACK_FIRST on a type without chunks, or CHAN that is no
 * channel (not zero for a type that has none).  Does not check HASH.
 */
bool frame_decode(struct frame *out, const uint8_t *bytes, size_t len);

/* Writes the prefix, HASH as zero. */
void frame_encode(const struct frame *frame, uint8_t *bytes);

/* True for DATA, UPDATE, RETRANSMIT: the body is chunks. */
bool frame_has_chunks(enum frame_type type);

/* What hashing needs beside the bytes: the seed, and all that can be worked out ahead from it. */
struct frame_key {
    uint64_t seed;
    unsigned instruction_set;
    _Alignas(64) uint8_t secret[192];
};

void frame_key_init(struct frame_key *key, uint64_t seed);

/* The key of the datagrams that come before a connection has its own: INIT and ACCEPT. */
void frame_key_init_public(struct frame_key *key);

/* The key of a connection, from the nonces of both sides. */
void frame_key_init_nonces(struct frame_key *key, const uint8_t client[FRAME_NONCE],
                           const uint8_t server[FRAME_NONCE]);

/* Fills HASH in; the last thing that happens to a datagram. */
void frame_seal(const struct frame_key *key, uint8_t *bytes, size_t len);

/* Checks HASH; true when it is right.  The field is zero on a true return, untouched otherwise, so
 * that another key may be tried. */
bool frame_open(const struct frame_key *key, uint8_t *bytes, size_t len);

/* XXH3-64 of anything, seeded: deriving keys and CIDs. */
uint64_t frame_hash(const void *bytes, size_t len, uint64_t seed);

#endif
