/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_SENT_H
#define RDT_CORE_SENT_H

/*
 * Records of the packets sent on one connection, a ring indexed by SEQ.
 *
 * A SEQ is taken for every datagram and never used again.  Packets that ask for an acknowledgement
 * are in flight until they are acknowledged or declared lost; a lost one stays in the ring a while
 * so that a late acknowledgement is recognised as such.  An ACK over thousands of packets costs a
 * step per 64 of them plus one per packet that is news.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SENT_SPANS_MAX = 4, /* chunks in one datagram */
};

enum sent_state {
    SENT_UNTRACKED = 0, /* took a SEQ, but nobody waits for it (a plain ACK) */
    SENT_IN_FLIGHT,
    SENT_ACKED,
    SENT_LOST,
};

/* Bytes of a message that a packet carried. */
struct sent_span {
    uint32_t slot;       /* where the sender keeps the message */
    uint32_t generation; /* tells the messages apart that used the slot */
    uint32_t offset;
    uint32_t len;
};

struct sent_record {
    uint64_t seq;
    uint64_t sent_ns;
    uint64_t delivered; /* rate.h: bytes acknowledged in all when this left */
    uint64_t delivered_ns;
    uint64_t first_sent_ns;
    uint64_t news; /* owner's: version of credits and grants this carried; 0: none */
    uint32_t bytes;
    uint32_t in_flight_bytes; /* with this packet, when it left; saturates */
    uint8_t state;            /* an enum sent_state */
    uint8_t span_count;
    bool app_limited;
    bool probe; /* sent by a PTO */
    uint8_t owner_flags;
    struct sent_span spans[SENT_SPANS_MAX];
};

struct sent {
    struct sent_record *records;
    uint64_t *in_flight_bits; /* one per record */
    uint64_t *lost_bits;      /* one per record: declared lost, not acknowledged since */
    uint32_t capacity;        /* a power of two, at least 64 */
    uint32_t in_flight_count;
    uint64_t in_flight_bytes;
    uint64_t next_seq;  /* of the next datagram */
    uint64_t oldest;    /* lowest SEQ in flight; next_seq when none is */
    uint64_t floor;     /* see sent_floor */
    uint64_t acked_end; /* largest SEQ acknowledged + 1; 0: none */
};

/* Memory that sent_init wants for so many records. */
size_t sent_bytes(uint32_t capacity);

/* `memory` (64-byte aligned, sent_bytes long) is borrowed for the ring's life.  Its contents do not
 * matter: a page that is not reached is never touched. */
void sent_init(struct sent *sent, void *memory, uint32_t capacity, uint64_t first_seq);

/* False while the oldest packet in flight is a whole ring away.  Data waits then; who must send
 * all the same (a plain ACK) declares sent_oldest lost first. */
bool sent_has_room(const struct sent *sent);

/* Takes next_seq for a packet in flight; sent_has_room must hold.  Sets seq, sent_ns, bytes, state
 * and in_flight_bytes and zeroes the rest; the caller fills spans, news and the rate fields. */
struct sent_record *sent_add(struct sent *sent, uint32_t bytes, uint64_t now_ns);

/* Takes next_seq for a packet nobody waits for.  Needs sent_has_room, too. */
uint64_t sent_add_untracked(struct sent *sent, uint64_t now_ns);

/* True when the SEQ was used: an ACK for any other is a protocol error. */
bool sent_is_used(const struct sent *sent, uint64_t seq);

/* The record of a SEQ, or NULL when it has left the ring, was never used or was never tracked. */
struct sent_record *sent_find(const struct sent *sent, uint64_t seq);

/*
 * The next packet of first .. last (a range of an ACK) that is still in flight, lowest first, or
 * NULL.  Call again after sent_on_acked for the next one.
 */
struct sent_record *sent_next_in_flight(const struct sent *sent, uint64_t first, uint64_t last);

/* The same for a packet that was declared lost: an ACK that covers it proves the loss spurious.
 * Nothing below the floor is looked at. */
struct sent_record *sent_next_lost(const struct sent *sent, uint64_t first, uint64_t last);

/* Takes it out of flight; sent_on_acked also takes a lost one.  The record stays readable until the
 * ring reuses it. */
void sent_on_acked(struct sent *sent, struct sent_record *record);
void sent_on_lost(struct sent *sent, struct sent_record *record);

/* The oldest packet in flight, or NULL. */
struct sent_record *sent_oldest(const struct sent *sent);

/*
 * The SEQ below which the peer may forget ranges: everything below is acknowledged, or not in
 * flight and sent before `keep_after_ns`.  Never moves back.
 */
uint64_t sent_floor(struct sent *sent, uint64_t keep_after_ns);

#endif
