/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_MEMBER_H
#define TESTS_SIM_MEMBER_H

/*
 * One process of the cluster in virtual time: the production endpoint, wire and step function, and
 * a compute thread that takes as long as the plan says.  What host.c does with sockets, a clock and
 * a thread, this does with arguments.
 */

#include <cluster/host.h>
#include <cluster/wire.h>
#include <rdt/rdt.h>

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
    uint64_t step_deadline_ns; /* of the step function, as last asked */
    struct member_job jobs[MEMBER_JOBS_MAX];
    uint32_t jobs_count;
    bool running;
    bool exited; /* by ACT_EXIT */
    int code;
    char text[ACTION_TEXT_MAX];
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

/* The process is gone, as after kill -9, or after its exit. */
void member_end(struct member *member);

uint64_t member_deadline(const struct member *member);
void member_turn(struct member *member, uint64_t now_ns);

/* A signal. */
void member_stop(struct member *member, uint64_t now_ns);

#endif
