/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_IMPAIR_H
#define CLUSTER_IMPAIR_H

/*
 * --impair: a simulated link for each peer and way, between the driver and the endpoint.
 *
 * Peers are numbered in the order in which they first appear; a link's seed is that of the config
 * varied by this number and the way, so the n-th datagram to the first peer meets the same fate in
 * every run.
 */

#include <rdt/link.h>

enum { IMPAIR_PEERS_MAX = 128 }; /* the one unheard of for longest makes room */

struct impair; /* opaque */

/* RDT_ENOMEM, or what rdt_link_open says of the config. */
int impair_open(struct impair **out, const struct rdt_link_config *config);
void impair_free(struct impair *impair);

/* A datagram that the driver received; impair_next_in gives those that are due. */
void impair_in(struct impair *impair, const struct rdt_arrival *arrival, uint64_t now_ns);
bool impair_next_in(struct impair *impair, uint64_t now_ns, struct rdt_arrival *out);

/* A train that the endpoint wrote (copied); impair_next_train gives the datagrams that are due, as
 * trains again, in buf (cap bytes: at least one datagram fits; larger ones are dropped). */
void impair_out(struct impair *impair, const struct rdt_train *train, uint8_t *bytes,
                uint64_t now_ns);
bool impair_next_train(struct impair *impair, uint64_t now_ns, void *buf, size_t cap,
                       struct rdt_train *out);

/* When the next datagram is due, either way; UINT64_MAX: none is under way. */
uint64_t impair_deadline(const struct impair *impair);

#endif
