/* SPDX-License-Identifier: MIT */
#ifndef NODE_WORKER_H
#define NODE_WORKER_H

/*
 * A node as a step function: inputs in, actions out (cluster/step.h).  No clock, socket, file or
 * thread; reading data and computing happen in jobs.
 *
 *     idle -> connecting -> joining -> preparing -> ready -> (the run is over: exit)
 *       ^---------------------- connection lost -----------'
 */

#include <cluster/step.h>
#include <node/job.h>

struct worker_config {
    struct rdt_addr peer;
    uint64_t instance; /* random: this process */
    char name[BODY_NAME_MAX];
    uint32_t threads;
    const char *data_dir;     /* borrowed; NULL: none */
    struct data_store *store; /* borrowed; outlives the worker */
    uint64_t wait_ns;         /* give up after so long without a coordinator; UINT64_MAX: never */
};

enum worker_exit { WORKER_DONE = 0, WORKER_FAILED = 1, WORKER_NOT_STARTED = 3, WORKER_STOPPED = 4 };

struct worker; /* opaque */

/* NN_ENOMEM. */
int worker_open(struct worker **out, const struct worker_config *config);
void worker_free(struct worker *worker);

/* The host's view (struct host_client): state is a struct worker. */
void worker_step(void *state, const struct input *input, uint64_t now_ns, struct actions *out);
uint64_t worker_deadline(const void *state);
void worker_run(void *state, void *job);

#endif
