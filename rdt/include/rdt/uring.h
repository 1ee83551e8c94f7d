/* SPDX-License-Identifier: MIT */
#ifndef RDT_URING_H
#define RDT_URING_H

/*
 * The io_uring driver: one UDP socket, one ring, one thread.  A client of rdt.h like any other, and
 * what most programs want: open an endpoint, open a driver, call rdt_uring_turn in a loop.
 *
 * Receives by one multishot recvmsg into its own buffer ring with UDP_GRO, sends trains with
 * UDP_SEGMENT, submits once a turn.  Runs as an ordinary user.
 */

#include <rdt/rdt.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdt_uring_config {
    size_t size;              /* sizeof(struct rdt_uring_config) */
    struct rdt_addr bind;     /* all zero: any address (IPv4 and IPv6), any port */
    uint32_t receive_buffers; /* 16; a power of two; each takes a whole GRO train of 64 KiB */
    uint32_t send_buffers;    /* 16 trains under way */
    uint32_t socket_bytes;    /* 4 MiB asked for in SO_RCVBUF and SO_SNDBUF */
    bool no_gso;
    bool no_gro;
    bool spin; /* poll the ring instead of sleeping: lower latency, a busy core */
};

struct rdt_uring; /* opaque */

/* RDT_ESYS with errno from socket, bind or io_uring_setup; RDT_ENOMEM; RDT_EINVAL. */
RDT_API int rdt_uring_open(struct rdt_uring **out, const struct rdt_uring_config *config);

/* Waits for what the kernel still holds, then closes ring and socket. */
RDT_API void rdt_uring_free(struct rdt_uring *u);

/* CLOCK_MONOTONIC in nanoseconds: the `now` for every call of the core. */
RDT_API uint64_t rdt_uring_now(const struct rdt_uring *u);

/* The address the socket is bound to, its port filled in. */
RDT_API struct rdt_addr rdt_uring_local(const struct rdt_uring *u);

/*
 * One whole turn: take what arrived, run a due timeout, hand trains to the kernel, submit once and,
 * if `sleep` and nothing is left to do, wait until something arrives, rdt_uring_wake, a watched
 * descriptor, or min(rdt_deadline(ep), until_ns).  Drain rdt_next_event after it: a turn never
 * sleeps when it has taken datagrams in.  Work per turn is bounded.  RDT_ESYS: the ring is broken.
 */
RDT_API int rdt_uring_turn(struct rdt_uring *u, struct rdt_endpoint *ep, uint64_t until_ns,
                           bool sleep);

/* ---------- the parts, for loops that put something in between ---------- */

/* The next received datagram (GRO trains come apart here).  Its bytes stay valid until the next
 * call of rdt_uring_next_arrival or rdt_uring_wait.  false: none; bounded per rdt_uring_wait. */
RDT_API bool rdt_uring_next_arrival(struct rdt_uring *u, struct rdt_arrival *out);

/* A free train buffer, or NULL when all are under way (they come back in rdt_uring_wait). */
RDT_API void *rdt_uring_train_buffer(struct rdt_uring *u, size_t *cap);

/* Queues the train that was written to the last rdt_uring_train_buffer.  Sent by the next wait. */
RDT_API void rdt_uring_send_train(struct rdt_uring *u, const struct rdt_train *train);

/* Submits, and sleeps until something completes or until_ns (0: does not sleep).  RDT_ESYS. */
RDT_API int rdt_uring_wait(struct rdt_uring *u, uint64_t until_ns);

/* Ends or prevents the next sleep.  The only call allowed from another thread (or a signal
 * handler). */
RDT_API void rdt_uring_wake(struct rdt_uring *u);

/* Sleeps end when fd becomes readable, too (an eventfd, a signalfd).  At most 8.  RDT_ELIMIT. */
RDT_API int rdt_uring_watch(struct rdt_uring *u, int fd);

struct rdt_uring_stats {
    size_t size;
    uint64_t receive_completions;
    uint64_t datagrams_received;
    uint64_t trains_sent;
    uint64_t datagrams_sent;
    uint64_t send_errors; /* counted as loss */
    uint64_t truncated;
    uint64_t rearmed; /* the multishot receive ended and was started again */
    uint64_t out_of_buffers;
    uint64_t submits;
    uint64_t receive_buffer_granted; /* what SO_RCVBUF gave, bytes */
    bool gso;                        /* in use now */
    bool gro;
};

RDT_API void rdt_uring_stats(const struct rdt_uring *u, struct rdt_uring_stats *out);

/* The largest UDP payload that fits the route to `peer` without fragments, by the kernel's table
 * (1472 for Ethernet, 65507 for loopback); 1452 when the kernel does not say. */
RDT_API uint32_t rdt_uring_route_datagram(const struct rdt_addr *peer);

/* Fills rdt_config.entropy from the system's generator.  RDT_ESYS. */
RDT_API int rdt_uring_entropy(uint8_t entropy[32]);

#ifdef __cplusplus
}
#endif
#endif
