/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_HOST_H
#define CLUSTER_HOST_H

/*
 * The loop of every process: one thread owns rdt and all state, a compute thread owns a job while
 * it has it and hands it back through a mailbox, waking the ring.  Compute never runs on the loop's
 * thread: a node that multiplies still acks.
 *
 * One turn: arrivals -> (--impair) -> rdt_input; timeout if due; rdt events through wire into the
 * step function; its actions; trains -> (--impair) -> the driver; submit once and sleep until the
 * deadline.
 */

#include <cluster/step.h>
#include <rdt/link.h>

/* The step function with its state, and how to run one of its jobs.  */
struct host_client {
    void *state;
    void (*step)(void *state, const struct input *input, uint64_t now_ns, struct actions *out);
    uint64_t (*deadline)(const void *state); /* when IN_TIME is wanted; UINT64_MAX: never */
    void (*run)(void *state, void *job);     /* on the compute thread; touches only the job */
    void (*on_event)(void *state, const char *text, uint64_t now_ns); /* a line for events.log */
    void (*on_record)(void *state, const void *record, uint64_t now_ns);
    void (*on_turn)(void *state, uint64_t now_ns); /* progress; at most a few times a second */
};

struct host_config {
    struct rdt_addr bind;
    bool listen;
    bool impaired; /* pass every datagram through `impair`, one link per peer and way */
    struct rdt_link_config impair; /* its seed is varied by peer and direction */
    uint64_t dead_ns;              /* 0: rdt's default, as for the next two */
    uint32_t connections_max;
    uint32_t datagram_max; /* bytes of UDP payload: larger ones are faster where the path has room
                              (loopback: up to 65507), and lost more at once under --impair */
};

/* Call it first: streams that the caller has closed become /dev/null, or what is printed would go
 * into the first file or socket that is opened. */
void host_keep_stdio(void);

struct host; /* opaque */

enum { HOST_EXIT_FAILED = 1, HOST_EXIT_STOPPED = 4 };

/* Opens ring, socket, endpoint and compute thread.  Negative rdt_err, errno for RDT_ESYS. on_event,
 * on_record and on_turn may be NULL. */
int host_open(struct host **out, const struct host_config *config,
              const struct host_client *client);

/* Runs until ACT_EXIT; returns its code when connections are flushed and closed (2 s at most).
 * SIGINT and SIGTERM become IN_STOP; a second one exits at once with HOST_EXIT_STOPPED.  `text`
 * gets the reason (ACTION_TEXT_MAX bytes).  One host runs at a time: signals belong to the process.
 */
int host_run(struct host *host, char *text);

void host_free(struct host *host);
struct rdt_addr host_local(const struct host *host);
uint64_t host_now(const struct host *host);
struct rdt_endpoint *host_endpoint(struct host *host); /* for statistics */
uint64_t host_garbage(const struct host *host);        /* messages dropped because they were none */

/* "HOST:PORT" with a name or a numeric address, "[v6]:PORT", or ":PORT" for any address, resolved.
 * 0 or negative with one line in `why`. */
int host_resolve(struct rdt_addr *out, const char *text, char *why, size_t why_cap);

#endif
