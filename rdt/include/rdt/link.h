/* SPDX-License-Identifier: MIT */
#ifndef RDT_LINK_H
#define RDT_LINK_H

/*
 * A simulated link, one direction: datagrams go in, and come out late, twice, damaged, in another
 * order or not at all.  No I/O, no clock: the simulator, `--impair` and tools/netem use this one
 * model.
 *
 * Every decision is drawn with splitmix64, a fixed number of draws for each datagram put, so the
 * n-th datagram of a direction meets the same fate whatever the timing.
 */

#include <rdt/rdt.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdt_link_config {
    double loss;         /* probability 0..1 of losing a datagram (long-run rate when burst > 1) */
    double burst;        /* mean length of a run of losses (Gilbert model); <= 1: independent */
    double reorder;      /* probability of being held back by reorder_ns, behind later ones */
    uint64_t reorder_ns; /* 0: 1 ms */
    double duplicate;    /* probability of being delivered twice */
    double corrupt;      /* probability of one to four flipped bits */
    uint64_t delay_ns;   /* one way */
    uint64_t jitter_ns;  /* uniform in [0, jitter], order kept */
    uint64_t rate_bps;   /* bits a second; 0: no limit */
    uint64_t
        queue_bytes; /* waiting for the rate, more is dropped; 0: 100 ms of rate, at least 64 KiB */
    uint32_t mtu;    /* larger datagrams (UDP payload + 28) are dropped; 0: none */
    uint32_t overhead_bytes; /* charged by the rate for each datagram; parse sets 28 (IPv4 + UDP) */
    uint64_t seed;           /* 0 is a seed like any other */
};

/*
 * Reads "loss=5%,burst=4,delay=2ms,jitter=500us,reorder=1%,duplicate=1%,corrupt=1%,rate=100mbit,
 * queue=64k,mtu=1500,seed=7" in any order; the empty text is a perfect link.  burst=1:20 is the
 * pair (enter, leave) in percent of the Gilbert model.  Probabilities: 5% or 0.05.  On RDT_EINVAL
 * `why` is one line: which key, what is allowed.
 */
RDT_API int rdt_link_parse(struct rdt_link_config *config, const char *text, char *why,
                           size_t why_cap);

struct rdt_link; /* opaque */

/* Heap-allocates and grows with what is in flight, up to in_flight_max datagrams (0: 65536; more
 * are dropped and counted).  RDT_EINVAL, RDT_ENOMEM. */
RDT_API int rdt_link_open(struct rdt_link **out, const struct rdt_link_config *config,
                          uint32_t in_flight_max);
RDT_API void rdt_link_free(struct rdt_link *link);

/* Changes the impairments from the next datagram on (a partition: loss = 1).  The random stream and
 * what is in flight stay. */
RDT_API void rdt_link_set(struct rdt_link *link, const struct rdt_link_config *config);

/* Copies one datagram in.  `from`, `local` and `ecn` travel with it. */
RDT_API void rdt_link_put(struct rdt_link *link, const struct rdt_arrival *datagram,
                          uint64_t now_ns);

/* Takes the next datagram that is due; its bytes (yours to change) stay valid until the next call
 * on this link.  false: none is due. */
RDT_API bool rdt_link_next(struct rdt_link *link, uint64_t now_ns, struct rdt_arrival *out);

/* When the next one is due; UINT64_MAX: the link is empty. */
RDT_API uint64_t rdt_link_deadline(const struct rdt_link *link);

struct rdt_link_stats {
    size_t size; /* set before the call */
    uint64_t put;
    uint64_t delivered; /* duplicates counted */
    uint64_t lost;
    uint64_t queue_dropped;
    uint64_t too_big;
    uint64_t duplicated;
    uint64_t corrupted;
    uint64_t reordered;
    uint64_t bytes_put;
    uint64_t bytes_delivered;
};

RDT_API void rdt_link_stats(const struct rdt_link *link, struct rdt_link_stats *out);

#ifdef __cplusplus
}
#endif
#endif
