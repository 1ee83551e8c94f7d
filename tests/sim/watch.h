/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_WATCH_H
#define TESTS_SIM_WATCH_H

/*
 * Watches one member from the outside and keeps the first promise that was broken:
 *   - a body that was sent comes back exactly once, before its connection is closed, and nobody
 *     changed it meanwhile;
 *   - a peer is called dead when nothing valid was heard for the configured time, not earlier and
 *     not much later;
 *   - when all connections are over, all memory of the pool is free.
 */

#include <cluster/step.h>

struct rdt_endpoint;

enum { WATCH_LOANS_MAX = 1024, WATCH_SLOTS = 32 /* connections of an endpoint */ };

struct watch_loan {
    struct rdt_conn conn;
    const void *user, *body;
    size_t len;
    uint64_t hash;
};

struct watch {
    size_t loans_count;
    struct watch_loan loans[WATCH_LOANS_MAX];
    uint64_t heard_ns[WATCH_SLOTS]; /* something valid, by slot of the connection */
    uint64_t stalled_ns;            /* it did not run for so long at once */
    uint64_t deaths, releases;
    const char *fault; /* NULL: none */
};

/* Gives a datagram to the endpoint.  Was it valid? */
bool watch_arrival(struct watch *watch, struct rdt_endpoint *ep, const struct rdt_arrival *arrival,
                   uint64_t now_ns);
void watch_action(struct watch *watch, const struct action *action);
void watch_input(struct watch *watch, const struct input *input, uint64_t now_ns);

/* The endpoint has no open connection left, and no message of it is in use. */
void watch_end(struct watch *watch, const struct rdt_endpoint *ep);

#endif
