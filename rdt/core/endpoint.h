/* SPDX-License-Identifier: MIT */
#ifndef RDT_CORE_ENDPOINT_H
#define RDT_CORE_ENDPOINT_H

/*
 * All connections of one socket: which of them a datagram is for, whose turn it is to send, and
 * whose deadline comes first.  The functions of rdt.h that take an endpoint are here.
 *
 * DESIGN: everything lies in one region taken at open; what was never used is never touched.  A CID
 * has the connection's slot in its low bits and randomness above, so finding a connection is one
 * comparison.  Connections with something to send wait in a queue and take turns, a train each.
 *
 *     endpoint_open.c   settings and memory
 *     endpoint.c        datagrams and time
 *     endpoint_calls.c  the application
 */

#include <rdt/rdt.h>

#include "conn.h"
#include "prng.h"
#include "timers.h"

enum {
    ENDPOINT_REPLIES = 8, /* refusals waiting to be sent */
};

/* A refusal: an ACCEPT that keeps no state here. */
struct endpoint_reply {
    struct rdt_addr to;
    struct rdt_addr local;
    uint8_t client_nonce[FRAME_NONCE];
    uint32_t cid;
};

struct rdt_endpoint {
    struct conn_env env;
    struct prng prng;
    struct timers timers;
    struct conn *conns;
    uint32_t *free_slots;
    uint32_t *handshakes; /* table of connections that were accepted, by address and nonce */
    uint8_t *conn_memory;
    size_t conn_stride;
    uint64_t now_ns; /* of the last call that named it */
    void *region;
    uint32_t free_count;
    uint32_t touched; /* slots that were ever used */
    uint32_t slot_bits;
    uint32_t handshake_mask;
    uint32_t queue_head;
    uint32_t queue_tail;
    uint32_t reply_count;
    struct endpoint_reply replies[ENDPOINT_REPLIES];
    struct rdt_stats stats; /* of connections that are gone, and of what belonged to none */
};

/* ---------- endpoint.c; for endpoint_calls.c ---------- */

/* A free connection, NULL when there is none; and what makes it one that is like no other. */
struct conn *endpoint_take_slot(struct rdt_endpoint *ep);
struct conn_seed endpoint_draw_seed(struct rdt_endpoint *ep, uint32_t slot,
                                    const struct rdt_addr *peer, const struct rdt_addr *local);

/* The live connection that a handle names, as far as the application knows; or NULL. */
struct conn *endpoint_find(const struct rdt_endpoint *ep, struct rdt_conn handle);

/* After anything happened to a connection: its deadline, its turn, its end. */
void endpoint_settle(struct rdt_endpoint *ep, struct conn *c);

/* ---------- endpoint_calls.c ---------- */

/* The counters of a connection, with those its inbox keeps; and adding them up. */
struct rdt_stats endpoint_counters(const struct conn *c);
void endpoint_add_stats(struct rdt_stats *sum, const struct rdt_stats *part);

#endif
