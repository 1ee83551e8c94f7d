/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TRANSPORT_HOST_H
#define BENCH_TRANSPORT_HOST_H

/*
 * An rdt endpoint on its driver, with a simulated link between the two when --impair asks for one.
 * Failing to set up ends the program with one line on stderr.
 */

#include "args.h"

#include <rdt/link.h>
#include <rdt/rdt.h>
#include <rdt/uring.h>

struct host {
    struct rdt_uring *u;
    struct rdt_endpoint *ep;
    struct rdt_addr address; /* of --ip and --port */
    struct rdt_link *out;    /* NULL: no simulated link */
    struct rdt_link *in;
    uint8_t *scratch; /* trains on their way into the simulated link */
};

void host_open(struct host *h, const struct args *args, bool listen);

void host_close(struct host *h);

/* The counters of the connection (of the endpoint when there is none) and of the driver. */
void host_print_stats(const struct host *h, struct rdt_conn conn);

uint64_t host_now(const struct host *h);

/* One turn of the driver; sleeps at most until then.  Drain the events after it. */
void host_turn(struct host *h, uint64_t until_ns);

/* Connects and waits for it: ends the program when nobody answers. */
struct rdt_conn host_connect(struct host *h);

#endif
