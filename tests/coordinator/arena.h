/* SPDX-License-Identifier: MIT */
#ifndef TESTS_COORDINATOR_ARENA_H
#define TESTS_COORDINATOR_ARENA_H

/*
 * One coordinator and N nodes in one thread, without rdt: messages, acknowledgements, jobs and
 * connections take a random time and (on the bulk channel) a random order, drawn from a seed.
 * Buffers behave as rdt's do: a message lands where it was posted, a small one that nobody posted
 * is pooled, a large one waits.
 */

#include <coordinator/coord.h>
#include <node/worker.h>

enum { ARENA_NODES_MAX = 8, ARENA_EVENTS_MAX = 64, ARENA_FAULTS_MAX = 4 };

/* What happens to a node up to 20 ms after it was asked for leaves of a step (or, with `eval`, of
 * the evaluation after it). */
struct arena_fault {
    enum {
        FAULT_NONE,
        FAULT_KILL,   /* it vanishes: noticed after 2.5 s */
        FAULT_FREEZE, /* it does not run for freeze_ms */
        FAULT_LEAVE   /* a signal */
    } kind;
    uint32_t node; /* index */
    uint64_t step;
    bool eval;
    uint64_t freeze_ms;
};

struct arena_config {
    uint64_t seed;
    uint32_t nodes;  /* started */
    uint32_t wanted; /* 0: as many as started */
    uint64_t samples, test_samples;
    uint32_t batch, leaf, epochs;
    bool drop_last;
    uint32_t hidden;       /* units of the middle layer: how large messages are */
    uint32_t without_data; /* the last so many nodes hold no samples */
    double lr;
    uint32_t min_nodes;
    uint32_t late; /* the last so many nodes start late_ms after the others */
    uint64_t late_ms;
    struct arena_fault faults[ARENA_FAULTS_MAX];
    uint64_t stop_at_step; /* with stop: IN_STOP when this step is recorded */
    bool stop;
    uint32_t liar; /* 1 + index of a node whose fingerprint is wrong; 0: none */
};

struct arena_result {
    int code;
    char text[ACTION_TEXT_MAX];
    int node_codes[ARENA_NODES_MAX]; /* -1: did not exit */
    uint64_t steps, records;
    bool records_in_order;
    char hash[COMMIT_HASH_TEXT];      /* of the weights kept at the end */
    char last_hash[COMMIT_HASH_TEXT]; /* of the last record */
    double last_loss, eval_loss;
    uint64_t correct, evals;
    uint64_t samples_sent;
    uint64_t leaves[ARENA_NODES_MAX]; /* computed by each node */
    uint64_t ended_ms;
    char events[ARENA_EVENTS_MAX][ACTION_TEXT_MAX]; /* of the coordinator, the last ones */
    size_t events_count;
};

/* Runs to the coordinator's exit; asserts that it comes. */
void arena_run(const struct arena_config *config, struct arena_result *out);

/* The same training without nodes or messages. */
void arena_local(const struct arena_config *config, uint32_t threads, struct arena_result *out);

/* Is there an event of the coordinator that contains this text? */
bool arena_said(const struct arena_result *result, const char *text);

#endif
