/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_CONN_H
#define RDT_CORE_CONN_H

/*
 * One connection: the state machine that routes packets, time and calls to the modules that know
 * what to do with them.  docs/protocol.md has the states and their transitions.
 *
 *     conn.c     states, opening and closing, the application's calls
 *     conn_rx.c  a packet came in
 *     conn_tx.c  what goes out next
 *     conn_timer.c  when it is time, and for what
 */

#include <rdt/rdt.h>

#include "acker.h"
#include "cc.h"
#include "events.h"
#include "frame.h"
#include "handshake.h"
#include "inbox.h"
#include "loss.h"
#include "outbox.h"
#include "pacer.h"
#include "ranges.h"
#include "rate.h"
#include "rtt.h"
#include "sent.h"

enum {
    CONN_SENT_RECORDS = 16384, /* packets in flight at most; the peer's window is as long */
    CONN_PING_BYTES = 96,      /* a PING is padded to this */
    CONN_CLOSE_TRIES = 5,
    CONN_PROBES = 2,               /* packets sent by one PTO whatever the window says */
    CONN_HURRIED = 4,              /* packets after a gap that are acknowledged one by one */
    CONN_FLOOR_STEP = 64,          /* the floor is announced when it has moved so far past a loss */
    CONN_LATE_RTTS = 2,            /* how late a packet given up may come and still be known */
    CONN_PERSISTENT_PTOS = 3,      /* PTOs in a row that mean persistent congestion */
    CONN_PTO_WAIT_MAX = 250000000, /* ns between probes, unless one PTO is longer */
    CONN_ACCEPT_SHARE = 3,         /* times what came from an unproven address may be sent to it */
};

enum conn_state {
    CONN_FREE,
    CONN_CONNECTING, /* INIT sent */
    CONN_ACCEPTING,  /* ACCEPT sent; nothing else is before the peer answers */
    CONN_OPEN,
    CONN_FLUSHING, /* rdt_close waits for acknowledgements */
    CONN_CLOSING,  /* CLOSE sent */
    CONN_DRAINING, /* CLOSE received */
    CONN_DEAD,     /* over; its RDT_EV_CLOSED has not been taken yet */
};

/* What all connections of an endpoint share. */
struct conn_env {
    struct rdt_config config; /* defaults filled in */
    struct frame_key public_key;
    struct events events;
    struct pool pool;
    struct credit_bank bank;
    uint64_t credit_base;
};

struct conn {
    struct conn_env *env;
    uint8_t *memory; /* conn_bytes long */
    uint32_t slot;
    uint32_t generation;
    uint8_t state; /* an enum conn_state */
    bool incoming;
    bool is_queued;       /* endpoint's: it waits for its turn to send */
    bool announced;       /* the application knows of it */
    bool closed_taken;    /* RDT_EV_CLOSED was given to the application */
    bool writable_queued; /* RDT_EV_WRITABLE waits to be taken */
    bool handshake_due;   /* send INIT or ACCEPT */
    bool confirm_due;     /* send CONFIRM unless something else does */
    bool ping_due;
    bool close_due;             /* send CLOSE */
    bool pace_blocked;          /* data waits for the pacer */
    bool floor_news;            /* packets were lost since the floor was announced */
    enum rdt_closed close_code; /* what our CLOSE says */
    struct rdt_addr peer;
    struct rdt_addr local;
    uint32_t cid;        /* packets to us carry it */
    uint32_t peer_cid;   /* packets to the peer carry it */
    uint32_t datagram;   /* largest that is sent */
    uint32_t queue_next; /* endpoint's */
    uint32_t peer_next;  /* endpoint's: chain in the table of handshakes */
    struct handshake_limits peer_limits;
    uint8_t client_nonce[FRAME_NONCE];
    uint8_t server_nonce[FRAME_NONCE];
    struct frame_key key; /* valid from CONN_ACCEPTING and CONN_OPEN on */

    uint64_t handshake_next_ns;
    uint64_t handshake_wait_ns;
    uint64_t handshake_end_ns;
    uint64_t handshake_sent_ns;
    uint64_t handshake_budget; /* CONN_ACCEPTING: bytes that may be sent yet */
    uint32_t handshake_tries;
    uint32_t close_tries;
    uint64_t close_next_ns;
    uint64_t close_wait_ns;
    uint64_t close_end_ns;
    uint64_t flush_end_ns; /* UINT64_MAX: not flushing */

    uint64_t valid_ns;    /* the last valid packet came */
    uint64_t pto_from_ns; /* the PTO runs from here */
    uint64_t paced_bytes; /* of the train that is being written */
    uint64_t floor_sent;  /* last announced */
    uint32_t pto_count;   /* in a row */
    uint32_t probes;      /* still to be sent */
    uint32_t hurried;     /* packets still to be acknowledged one by one */

    struct ranges received;
    struct sent sent;
    struct rtt rtt;
    struct loss loss;
    struct rate rate;
    struct cc cc;
    struct pacer pacer;
    struct acker acker;
    struct news news;
    struct outbox outbox;
    struct inbox inbox;
    struct rdt_stats stats;
};

/* Memory of one connection beside the struct. */
size_t conn_bytes(const struct rdt_config *config);

/* ---------- conn.c ---------- */

struct conn_seed {
    struct rdt_addr peer;
    struct rdt_addr local;
    uint32_t cid;
    uint64_t random;
    uint8_t nonce[FRAME_NONCE]; /* this side's */
};

/* Makes a free connection one that connects, or one that answers an INIT of `bytes` bytes. */
void conn_connect(struct conn *c, const struct conn_seed *seed, uint64_t now_ns);
void conn_accept(struct conn *c, const struct conn_seed *seed, const struct handshake_init *init,
                 size_t bytes, uint64_t now_ns);

/* The INIT came again: so may the ACCEPT. */
void conn_on_init_again(struct conn *c, size_t bytes);
void conn_on_accept(struct conn *c, const struct handshake_accept *accept,
                    const struct rdt_addr *local, uint64_t now_ns);

bool conn_is_usable(const struct conn *c);
int conn_close(struct conn *c, uint64_t flush_ns, uint64_t now_ns);
int conn_abort(struct conn *c, uint64_t now_ns);

/* What this side lets the peer send; the limits of a handshake. */
struct handshake_limits conn_own_limits(const struct conn *c);

/* Moves to the state, which the table of protocol.md must allow. */
void conn_set_state(struct conn *c, enum conn_state next);

/* The handshake is done on this side. */
void conn_open(struct conn *c, uint64_t now_ns);

/* It has ended: events for everything that was queued, and RDT_EV_CLOSED.  `next` is
 * CONN_CLOSING, CONN_DRAINING or CONN_DEAD. */
void conn_end(struct conn *c, enum conn_state next, enum rdt_closed reason, uint64_t now_ns);

/* All messages are acknowledged: what waited for it may go on. */
void conn_on_idle(struct conn *c, uint64_t now_ns);

/* News for the peer may have come up: after messages were taken, released or posted. */
void conn_on_allowance(struct conn *c, uint64_t now_ns);

/* Room in the outbox: RDT_EV_WRITABLE if one is owed. */
void conn_on_room(struct conn *c);

/* Makes a dead connection free; its slot may be used again. */
void conn_fini(struct conn *c);

/* ---------- conn_rx.c ---------- */

/* A packet whose HASH was right under the connection's key. */
void conn_on_packet(struct conn *c, const struct frame *frame, struct reader body, uint64_t now_ns);

/* Finds what is lost by now.  Returns the bytes. */
uint64_t conn_find_lost(struct conn *c, uint64_t now_ns);

/* Declares the oldest packet in flight lost, whatever its age. */
void conn_give_up_oldest(struct conn *c);

/* ---------- conn_tx.c ---------- */

/* Writes the next train; 0: nothing to send now. */
size_t conn_next_train(struct conn *c, uint64_t now_ns, uint8_t *buf, size_t cap,
                       struct rdt_train *out);

/* ---------- conn_timer.c ---------- */

uint64_t conn_deadline(const struct conn *c);
void conn_on_timeout(struct conn *c, uint64_t now_ns);

/* The probe timeout as it is now, without back-off. */
uint64_t conn_pto_ns(const struct conn *c);

#endif
