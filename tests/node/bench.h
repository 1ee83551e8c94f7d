/* SPDX-License-Identifier: MIT */
#ifndef TESTS_NODE_BENCH_H
#define TESTS_NODE_BENCH_H

#include "tests/coordinator/problem.h"

/* A node on a bench: the test is host, compute thread and coordinator. */
struct bench {
    struct problem *problem;
    struct data_store store;
    struct worker *worker;
    struct actions actions;
    uint64_t now;
    struct rdt_conn conn;
};

extern struct bench bench;
extern const struct arena_config bench_config; /* five leaves a step */

void open_bench(void);
void close_bench(void);

/* One call of the step function; its actions are in bench.actions. */
void feed(struct input input);
void tick(void);
void connect_bench(void);
void hear(struct message head, const void *body, size_t len, void *user);
const struct action *did(enum action_kind kind);
const struct action *sent(enum message_kind kind);
const struct action *must(const struct action *action); /* asserts that it is there */

/* Runs the job that the worker has just given out, and hands it back. */
void compute(void);

/* Up to READY, and up to the news of the step it begins with. */
void prepare(void);
void get_ready(void);

/* Initial weights land where the worker wants those of this step. */
void give_weights(const struct action *post);

#endif
