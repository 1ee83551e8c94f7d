/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_WIRE_H
#define CLUSTER_WIRE_H

/*
 * Between the transport and a step function: rdt events become inputs, actions become rdt calls.
 * Owns no socket and reads no clock; the host loop and the simulator both use it:
 *
 *     while (wire_next(wire, &input, now)) {
 *         actions.count = 0;
 *         step(state, &input, now, &actions);
 *         for each action                  wire_perform(wire, action, now);
 *     }
 *
 * What it promises to step functions:
 *   - Every sent body with a `user` comes back in exactly one IN_RELEASED, also when the connection
 *     was gone already, and before the connection's IN_CLOSED.
 *   - Sends to one connection leave in their order.  What the transport does not take at once waits
 *     here, up to a bound; a peer that lets it be exceeded loses its connection.
 *   - Garbage never gets through: a message whose header is wrong, or that came on another channel
 *     or under another tag than its header says, is counted and dropped.  In a posted buffer it
 *     costs the connection, so that the buffer comes back (IN_CLOSED).
 */

#include <cluster/step.h>

enum {
    WIRE_BACKLOG_MAX = 1024, /* sends and closes that wait, all connections */
    WIRE_OFFERS_MAX = 128,   /* messages of one peer that wait for a buffer nobody posts */
    WIRE_SLOTS = 1024        /* connections it can tell apart */
};

struct wire_stats {
    uint64_t garbage;   /* messages dropped */
    uint64_t offers;    /* messages that came before their buffer was posted */
    uint64_t backlog;   /* waiting now */
    uint64_t overflows; /* connections ended because too much waited, here or there */
};

struct wire; /* opaque */

/* RDT_ENOMEM.  The endpoint is borrowed. */
int wire_open(struct wire **out, struct rdt_endpoint *ep);
void wire_free(struct wire *wire);

/* The next input; false: none.  A pooled message is given back to the transport by the call after
 * the one that returned it. */
bool wire_next(struct wire *wire, struct input *out, uint64_t now_ns);

/* Performs CONNECT, CLOSE, ABORT, SEND, POST and UNPOST; false: another kind, not done. */
bool wire_perform(struct wire *wire, const struct action *action, uint64_t now_ns);

/* Closes every connection, flushing each for up to flush_ns. */
void wire_close_all(struct wire *wire, uint64_t flush_ns, uint64_t now_ns);

/* Connections that are open or opening. */
size_t wire_connections(const struct wire *wire);

struct wire_stats wire_stats(const struct wire *wire);

#endif
