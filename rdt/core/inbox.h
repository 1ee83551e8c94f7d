/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_INBOX_H
#define RDT_CORE_INBOX_H

/*
 * Incoming messages of one connection: where their bytes land, when they are whole, and what the
 * peer may send next.
 *
 * DESIGN: the first chunk of a message decides where it lands: in a posted buffer, else in the
 * pool; of a message too large for the pool the first message_max bytes land there, and the rest
 * gets no grant until a buffer is posted.  The payload is copied once, to its offset.  A lane keeps
 * one bit for each message number from its oldest unfinished on, so a chunk of a message that was
 * delivered long ago is known for what it is.  Pool memory is covered by credit, so a peer that
 * keeps to its limits is never turned away; one that does not is.
 */

#include <rdt/rdt.h>

#include "ack.h"
#include "credit.h"
#include "events.h"
#include "extents.h"
#include "message.h"
#include "pool.h"

enum {
    INBOX_EXTENTS = 512, /* stretches of one message that have arrived */
};

enum inmsg_state {
    INMSG_FREE,
    INMSG_ARRIVING,
    INMSG_WHOLE,     /* but an earlier ordered one is not */
    INMSG_DELIVERED, /* its RDT_EV_MESSAGE has not been taken yet */
    INMSG_TAKEN,     /* pooled, until rdt_release */
};

struct inmsg {
    uint8_t *bytes;
    void *user; /* of the landing */
    uint64_t tag;
    uint64_t cost;
    uint64_t grant_version; /* of the ACK block that last carried the grant */
    uint32_t len;
    uint32_t received;
    uint32_t granted; /* bytes the peer may send */
    uint32_t id;
    uint32_t hash_next;
    uint32_t prev; /* in the list of unposted ones */
    uint32_t next;
    uint32_t grant_prev; /* in the list of grants the peer may not know of */
    uint32_t grant_next;
    uint16_t channel;
    uint8_t state; /* an enum inmsg_state */
    bool ordered;
    bool update;
    bool pooled;
    bool offered;
    bool grant_listed;
    struct extents got;
};

/* A posted buffer that no message has claimed. */
struct post {
    struct rdt_landing landing;
    uint32_t hash_next;
};

struct inlane {
    uint32_t base;      /* below it every message is finished */
    uint32_t high;      /* largest finished one + 1, never below base */
    uint64_t *finished; /* a ring of bits, MESSAGE_WINDOW long; valid for base <= id < high */
};

struct inlist {
    uint32_t head;
    uint32_t tail;
};

struct inbox_config {
    uint32_t connection; /* named in events and as owner of pool blocks */
    uint32_t incoming_max;
    uint32_t posts_max;
    uint32_t message_max;
    uint64_t credit_base;
    struct pool *pool; /* shared with other connections; the inbox borrows them for its life */
    struct credit_bank *bank;
    struct events *events;
};

struct inbox {
    struct inbox_config config;
    struct credit credit;
    struct inmsg *messages;
    struct post *posts;
    struct extent *extents;
    uint32_t *free_messages;
    uint32_t *free_posts;
    uint32_t *message_buckets; /* by (lane, id) */
    uint32_t *post_buckets;    /* by (channel, tag) */
    uint32_t message_mask;
    uint32_t post_mask;
    uint32_t free_message_count;
    uint32_t touched_messages;
    uint32_t free_post_count;
    uint32_t touched_posts;
    uint32_t messages_limit; /* absolute, modulo 2^32: how many the peer may have begun */
    uint32_t messages_begun; /* and how many it has */
    uint32_t grant_count;
    struct inlist unposted; /* arriving, pooled; oldest first */
    struct inlist grants;
    uint64_t messages_whole; /* statistics */
    uint64_t bytes_new;
    bool grant_fresh; /* a grant was raised since inbox_list_grants */
    struct inlane lanes[MESSAGE_LANES];
};

enum inbox_verdict {
    INBOX_TAKEN,     /* new bytes, or none of them new */
    INBOX_FULL,      /* no room: as if it had never arrived */
    INBOX_MALFORMED, /* contradicts what the message said before, or goes beyond its grant */
};

size_t inbox_bytes(const struct inbox_config *config);
void inbox_init(struct inbox *inbox, void *memory, const struct inbox_config *config);

/* The connection has ended: gives the pool back what the application does not hold. */
void inbox_close(struct inbox *inbox);

/* All its events have been taken: what the application still holds becomes nobody's. */
void inbox_fini(struct inbox *inbox);

/* Takes one chunk in. */
enum inbox_verdict inbox_chunk(struct inbox *inbox, unsigned channel, const struct chunk *chunk);

/* rdt_post and rdt_unpost, without the handle. */
int inbox_post(struct inbox *inbox, const struct rdt_landing *landing);
int inbox_unpost(struct inbox *inbox, uint16_t channel, uint64_t tag);

/* The message still waits for a buffer: it was not posted since its RDT_EV_OFFER was queued. */
bool inbox_is_offered(const struct inbox *inbox, uint32_t slot);

/* The message of an RDT_EV_MESSAGE or RDT_EV_OFFER that is being taken.  After the former only a
 * pooled one still exists. */
void inbox_fill_event(struct inbox *inbox, uint32_t slot, struct rdt_event *event);

/* rdt_release: the owner of the pool block says which. */
void inbox_release(struct inbox *inbox, uint32_t slot);

/* Puts the grants that the peer may not know of into an ACK block, at most `most` of them, and
 * remembers its version. */
void inbox_list_grants(struct inbox *inbox, struct ack *ack, size_t most, uint64_t version);

/* The peer has seen the block of that version. */
void inbox_grants_known(struct inbox *inbox, uint64_t version);

#endif
