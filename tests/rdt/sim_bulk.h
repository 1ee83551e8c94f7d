/* SPDX-License-Identifier: MIT */
#ifndef TESTS_RDT_SIM_BULK_H
#define TESTS_RDT_SIM_BULK_H

/*
 * The usual program over a sim_pair: side 0 sends a list of messages, side 1 takes them, checks
 * every byte and gives them back.  Tests of cases differ in the list, the link and the limits.
 */

#include "sim_pair.h"

enum {
    BULK_MAX = 1024, /* messages */
};

struct bulk_message {
    uint8_t *body;
    uint8_t *landing;
    size_t len;
    bool is_delivered;
    bool is_released;
    int status; /* of the release */
};

struct bulk {
    struct sim_pair sim;
    struct sim_config config; /* to be set before bulk_open: endpoints, links, seed */
    bool (*on_datagram)(struct bulk *bulk, int side, struct rdt_arrival *datagram);
    struct bulk_message messages[BULK_MAX];
    uint32_t count;
    uint32_t sent;
    uint32_t delivered;
    uint32_t released;
    uint32_t again;    /* RDT_EAGAIN from rdt_send */
    uint32_t writable; /* RDT_EV_WRITABLE taken */
    uint32_t offered;
    const void *held[BULK_MAX]; /* pooled messages that side 1 keeps */
    uint32_t held_count;
    bool keep;    /* side 1 keeps pooled messages instead of giving them back */
    bool no_post; /* side 1 leaves offers unanswered */
    bool is_blocked;
    uint64_t done_ns; /* when the last delivery so far was */
    void *ctx;        /* the test's own */
};

struct bulk *bulk_make(void);
void bulk_open(struct bulk *bulk); /* and connects */
void bulk_free(struct bulk *bulk);

/* Adds a message to the list; it is sent as soon as there is room. */
void bulk_add(struct bulk *bulk, size_t len);

/* Everything on the list was delivered and released, within the time. */
bool bulk_run(struct bulk *bulk, uint64_t within_ns);

/* Gives back what is kept, and keeps no more. */
void bulk_give_back(struct bulk *bulk);

#endif
