/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_MEMBER_H
#define TESTS_SIM_MEMBER_H

/*
 * One process of the cluster in virtual time: the production endpoint, wire and step function, and
 * a compute thread that takes as long as the plan says.  What host.c does with sockets, a clock and
 * a thread, this does with arguments; the saying goodbye at the end included.
 */

#include "watch.h"

#include <cluster/host.h>
#include <cluster/wire.h>

enum { MEMBER_JOBS_MAX = 16 };

struct member_job {
    void *job;
    uint64_t done_ns;
};

struct member {
    const char *name;
    struct rdt_addr addr;
    struct host_client client;
    struct rdt_endpoint *ep;
    struct wire *wire;
    uint64_t random;
    double slowness;
    struct member_job jobs[MEMBER_JOBS_MAX];
    uint32_t jobs_count;
    bool running;
    bool exited;       /* by ACT_EXIT: only what is under way is still sent */
    uint64_t leave_ns; /* exited: when it goes at the latest */
    int code;
    char text[ACTION_TEXT_MAX];
    struct watch watch;
};

struct member_config {
    const char *name;
    struct rdt_addr addr;
    struct host_client client;
    bool listen;
    uint64_t seed;
    double slowness;
};

void member_start(struct member *member, const struct member_config *config, uint64_t now_ns);

/* The process is gone, as after kill -9, or after it was done. */
void member_end(struct member *member);

/* A datagram came in.  Was it valid? */
bool member_arrival(struct member *member, const struct rdt_arrival *arrival, uint64_t now_ns);
uint64_t member_deadline(const struct member *member);
void member_turn(struct member *member, uint64_t now_ns);

/* It has exited and said all it had to say. */
bool member_is_done(const struct member *member, uint64_t now_ns);

/* A signal. */
void member_stop(struct member *member, uint64_t now_ns);

#endif
