/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_OUTBOX_H
#define RDT_CORE_OUTBOX_H

/*
 * Outgoing messages of one connection: which bytes go next, which were acknowledged, which have to
 * go again.
 *
 * DESIGN: bytes are read from the caller's memory when a packet is written, the first time and
 * every time.  What a packet carried is a list of spans in its record; when the packet is
 * acknowledged the spans enter `acked`, when it is lost those of them that are not acknowledged
 * enter `lost`.  Both are sets, so nothing goes wrong when bytes are in flight twice or
 * acknowledged twice. A message waits until the peer's credit covers it, then takes turns with the
 * others of its channel; lower channels go first, and bytes that were lost go before all else of
 * their channel.
 */

#include <rdt/rdt.h>

#include "extents.h"
#include "message.h"
#include "sent.h"

enum {
    OUTBOX_EXTENTS = 256, /* in each set of each message */
};

enum outmsg_state {
    OUTMSG_FREE,
    OUTMSG_WAITING, /* for credit */
    OUTMSG_BEGUN,
    OUTMSG_DONE, /* its RDT_EV_RELEASED has not been taken yet */
};

struct outmsg {
    const uint8_t *body;
    void *user;
    uint64_t tag;
    uint32_t len; /* head and body */
    uint32_t head_len;
    uint32_t id;
    uint32_t sent;       /* bytes that left at least once: [0, sent) */
    uint32_t granted;    /* bytes that may leave */
    uint32_t generation; /* tells the messages apart that used the slot */
    uint32_t prev;       /* in the ready or waiting list */
    uint32_t next;
    uint32_t lane_prev;
    uint32_t lane_next;
    uint16_t channel;
    uint8_t state; /* an enum outmsg_state */
    bool ordered;
    bool update;
    bool is_ready;     /* it is in the ready list */
    bool empty_sent;   /* a message of no bytes: its chunk is under way */
    bool empty_repeat; /* ... and was sent before */
    struct extents acked;
    struct extents lost;
    uint8_t head[RDT_HEAD_MAX];
};

struct outlist {
    uint32_t head;
    uint32_t tail;
};

struct outbox {
    struct outmsg *messages;
    struct extent *extents;
    uint32_t *free_slots;
    uint32_t free_count;
    uint32_t touched; /* slots that were ever used: the others' memory was never written */
    uint32_t capacity;
    uint32_t unfinished;     /* not acknowledged */
    uint32_t ready_channels; /* bit masks */
    uint32_t waiting_channels;
    struct outlist ready[RDT_CHANNELS];
    struct outlist waiting[RDT_CHANNELS];
    struct outlist lanes[MESSAGE_LANES]; /* unfinished, oldest first */
    uint32_t next_id[MESSAGE_LANES];
    uint64_t pending_bytes; /* of unfinished messages */
    uint64_t bytes_max;
    uint64_t credit_limit; /* as announced by the peer; nothing begins before it spoke */
    uint64_t credit_spent;
    uint32_t messages_limit;
    uint32_t messages_begun;
    uint32_t peer_message_max;
    uint64_t refused_len; /* of the message that was */
    bool wants_writable;  /* a send was turned away */
};

struct outbox_config {
    uint32_t messages_max;
    uint64_t bytes_max;
};

/* A piece to put into a packet. */
struct piece {
    struct chunk chunk; /* payload is not set: see outbox_copy */
    uint32_t slot;
    uint32_t generation;
    uint16_t channel;
    bool repeat;
};

/* What a packet that is being filled can take. */
struct piece_want {
    size_t room;        /* header included */
    uint16_t channel;   /* RDT_CHANNELS: any */
    enum rdt_kind kind; /* when the channel is given */
};

size_t outbox_bytes(const struct outbox_config *config);
void outbox_init(struct outbox *outbox, void *memory, const struct outbox_config *config);

/* Checks what rdt_send promises; 0 or RDT_EINVAL, RDT_EMSGSIZE. */
int outbox_check(const struct rdt_message *message);

/* Queues a message that outbox_check found good.  RDT_EAGAIN. */
int outbox_put(struct outbox *outbox, const struct rdt_message *message);

/* The peer's receiving end: nothing begins before this.  Limits never shrink. */
void outbox_open(struct outbox *outbox, uint32_t peer_message_max);
void outbox_credit(struct outbox *outbox, uint64_t credit_limit, uint32_t messages_limit);
void outbox_grant(struct outbox *outbox, unsigned lane, uint32_t id, uint32_t upto);

/* True when something could be sent now. */
bool outbox_has_work(const struct outbox *outbox);

/* Takes the next piece that fits; false when there is none. */
bool outbox_next(struct outbox *outbox, const struct piece_want *want, struct piece *out);

/* Writes the payload of a piece. */
void outbox_copy(const struct outbox *outbox, const struct piece *piece, uint8_t *to);

/* The fate of bytes that a packet carried.  acked: true when this completed the message, which is
 * then done.  Spans of a message that has gone are ignored. */
bool outbox_acked(struct outbox *outbox, struct sent_span span);
void outbox_lost(struct outbox *outbox, struct sent_span span);

/* Ends an unfinished message; UINT32_MAX when there is none left. */
uint32_t outbox_abort_next(struct outbox *outbox);

/* The event of a message that is done was taken: its slot is free.  True when a send that was
 * turned away would now succeed, once per time it was. */
void outbox_free(struct outbox *outbox, uint32_t slot);
bool outbox_take_writable(struct outbox *outbox);

#endif
