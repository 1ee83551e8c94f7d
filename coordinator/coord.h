/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_COORD_H
#define COORDINATOR_COORD_H

/*
 * The coordinator as a step function: inputs in, actions out (cluster/step.h).  No clock, socket,
 * file or thread.
 *
 *     gather -> step -> commit -> step ... -> eval -> step ... -> end
 *
 * A step hands every node a share of the leaves and posts a landing for each whole subtree in it;
 * when the partials cover the tree, one job commits the step.  What a lost node has not sent is
 * handed to the others in the same step; a node that joins is used from the next one; with too few
 * nodes the run waits.  The weights of a finished step are whole until the next one has been
 * committed: stopping at any moment leaves a model to save.
 */

#include <cluster/schedule.h>
#include <cluster/step.h>
#include <coordinator/record.h>

enum { COORD_NODES_MAX = 64 };

/* Exit codes of a run, as the user sees them. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_OTHER = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_STARTED = 3,
    EXIT_STOPPED = 4,
    EXIT_NUMERIC = 5,
    EXIT_NODES = 6
};

struct coord_config {
    uint64_t run_id;
    const void *welcome; /* encoded body of WELCOME; borrowed, like model and data */
    size_t welcome_len;
    const struct nn_model *model;
    const struct nn_dataset *train;
    const struct nn_dataset *test; /* NULL: no evaluation */
    struct schedule schedule;
    struct nn_optim optim;
    uint64_t seed;
    uint64_t fingerprint;
    uint32_t nodes;     /* wait for so many before the first step; at most COORD_NODES_MAX */
    uint32_t min_nodes; /* go on with at least so many; 0 is 1 */
    uint64_t wait_ns;   /* for the nodes to come, and for one to come back */
};

struct coord; /* opaque */

/* NN_ENOMEM.  Takes the memory for weights and optimiser; landings are taken when the first step
 * is shared out. */
int coord_open(struct coord **out, const struct coord_config *config);
void coord_free(struct coord *coord);

/* The host's view (struct host_client): state is a struct coord. */
void coord_step(void *state, const struct input *input, uint64_t now_ns, struct actions *out);
uint64_t coord_deadline(const void *state);
void coord_run(void *state, void *job);

/* Ends the run at the next call of coord_step: the disk is full, say. */
void coord_fail(struct coord *coord, enum exit_code code, const char *text);

/* The node of this name is known to be dead (its process ended here): at the next call of
 * coord_step its connection ends, without waiting for silence. */
void coord_drop(struct coord *coord, const char *name);

/* Still waiting for nodes? */
bool coord_is_gathering(const struct coord *coord);

/* The weights after `coord_steps` committed steps. */
const float *coord_weights(const struct coord *coord);
uint64_t coord_steps(const struct coord *coord);

/* Every node that ever was ready, for nodes.csv. */
struct coord_node {
    char name[64];
    uint64_t instance;
    uint64_t pid; /* as the node says; 0: unknown */
    struct rdt_addr peer;
    struct rdt_conn conn;
    uint32_t threads;
    bool has_train, has_test;
    bool lost;
    bool banned;           /* it broke the protocol: not welcome again */
    uint64_t leaves;       /* computed */
    uint64_t samples_sent; /* to it */
};

size_t coord_nodes(const struct coord *coord);
struct coord_node coord_node(const struct coord *coord, size_t idx);

#endif
