/* SPDX-License-Identifier: MIT */
#ifndef TESTS_COORDINATOR_BENCH_H
#define TESTS_COORDINATOR_BENCH_H

#include "problem.h"

/* The coordinator alone: the test is host, compute thread and every node. */
struct bench {
    struct problem *problem;
    struct coord *coord;
    struct actions actions;
    uint64_t now;
};

extern struct bench bench;
extern const struct arena_config bench_config; /* five leaves a step */

void open_bench_for(const struct arena_config *chosen, uint32_t nodes);
void open_bench(uint32_t nodes);
void open_three(const struct arena_config *chosen); /* ready: leaves 0-1, 2-3 and 4 are theirs */
void close_bench(void);

/* One call of the step function; its actions are in bench.actions. */
void feed(struct input input);
const struct action *did(enum action_kind kind);
bool sent(enum message_kind kind);
const struct action *must(const struct action *action); /* asserts that it is there */
const struct action *the_exit(void);                    /* asserts likewise */

struct rdt_conn conn_of(uint32_t idx);
void hear(uint32_t idx, struct message head, const void *body, size_t len);
void join(uint32_t idx, uint64_t instance); /* from a host of its own */
void join_from(uint32_t idx, uint64_t instance, uint8_t host);
void ready(uint32_t idx);
void lose(uint32_t idx);

/* The gradient sum of a subtree, as a node would send it; `twist` spoils it. */
size_t partial_body(uint8_t *body, struct span span, float twist, uint64_t *hash);

/* Where the call at hand posted a landing for this span; asserts that it did. */
struct landing_of {
    void *buf, *user;
};

struct landing_of landing_of(struct span span);
void land(uint32_t idx, struct landing_of landing, struct span span, float twist);

#endif
