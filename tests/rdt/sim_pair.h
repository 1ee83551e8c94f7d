/* SPDX-License-Identifier: MIT */
#ifndef TESTS_RDT_SIM_PAIR_H
#define TESTS_RDT_SIM_PAIR_H

/*
 * Two endpoints of the production core and a simulated link each way, in virtual time: no socket,
 * no clock.  The same configuration gives the same trace, bit for bit.
 */

#include <rdt/link.h>
#include <rdt/rdt.h>

#define SIM_MS(n) ((uint64_t)(n)*1000000u)
#define SIM_US(n) ((uint64_t)(n)*1000u)
#define SIM_S(n)  ((uint64_t)(n)*1000000000u)

struct sim_pair;

/* What a test does with events and time.  Side 0 connects, side 1 listens. */
struct sim_app {
    void (*on_event)(struct sim_pair *sim, int side, const struct rdt_event *event, void *ctx);

    /* Sees every datagram before it enters the link from `side`; may change it.  false: it is lost.
     * NULL: the link alone decides. */
    bool (*on_datagram)(struct sim_pair *sim, int side, struct rdt_arrival *datagram, void *ctx);

    /* Called once per step of time, before anything is sent; returns when it wants to be called
     * again at the latest, UINT64_MAX: when something happens. */
    uint64_t (*on_turn)(struct sim_pair *sim, int side, void *ctx);
    void *ctx;
};

struct sim_config {
    struct rdt_config endpoint[2];  /* size 0: defaults; entropy and listen are filled in */
    struct rdt_link_config link[2]; /* from side 0, from side 1 */
    struct sim_app app;
    uint64_t seed;
    uint64_t start_ns; /* what the clock shows first */
};

struct sim_pair {
    struct rdt_endpoint *ep[2];
    struct rdt_link *link[2];
    struct rdt_addr addr[2];
    struct rdt_conn conn[2]; /* valid from the event on, side 0's from sim_connect on */
    bool is_connected[2];
    bool is_closed[2];
    enum rdt_closed reason[2];
    struct sim_app app;
    uint64_t now_ns;
    uint64_t app_next_ns[2];
    uint64_t trace;     /* hash of every datagram and event, with its time */
    uint64_t datagrams; /* put into the links, both ways */
    bool is_deaf[2];    /* this side's program does not run: no events, no turns */
    uint8_t *buf;
};

void sim_open(struct sim_pair *sim, const struct sim_config *config);
void sim_close(struct sim_pair *sim);

/* Starts side 0's handshake. */
void sim_connect(struct sim_pair *sim);

/* One step: on to the next thing that is due, and all that follows from it at that moment.  false:
 * nothing ever will be. */
bool sim_step(struct sim_pair *sim, uint64_t until_ns);

/* Steps until the time has come or done(ctx) holds; says whether it does. */
void sim_run(struct sim_pair *sim, uint64_t until_ns);
bool sim_run_until(struct sim_pair *sim, uint64_t until_ns, bool (*done)(void *ctx), void *ctx);

/* sim_connect, and runs until both sides know; fails the test after 10 s. */
void sim_connected(struct sim_pair *sim);

/* Content of message bodies: any stretch of any message can be written and checked alone. */
void sim_fill(uint8_t *bytes, size_t len, uint64_t key);
bool sim_matches(const uint8_t *bytes, size_t len, uint64_t key);

struct rdt_stats sim_stats(const struct sim_pair *sim, int side);

#endif
