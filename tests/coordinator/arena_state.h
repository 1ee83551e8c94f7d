/* SPDX-License-Identifier: MIT */
#ifndef TESTS_COORDINATOR_ARENA_STATE_H
#define TESTS_COORDINATOR_ARENA_STATE_H

/* What the parts of the arena share: arena.c (everything that happens) and arena_run.c (a run). */

#include "arena.h"
#include "problem.h"

enum {
    PROCS = ARENA_NODES_MAX + 1,
    CONNS = 256,
    POSTS = 4096,
    POOLED_MAX = 65536,
};

enum item_kind {
    ITEM_MESSAGE,
    ITEM_RELEASED,
    ITEM_CLOSED,
    ITEM_CONNECTED,
    ITEM_COMPUTED,
    ITEM_CLOSE,
    ITEM_FAULT
};

struct item {
    struct item *next;
    uint64_t at, seq;
    enum item_kind kind;
    uint32_t proc; /* who gets it; MESSAGE: the receiver */
    uint32_t conn;
    struct message head;
    const void *lent; /* MESSAGE, RELEASED: the sender's bytes, and what they were */
    uint8_t *copy;
    size_t len;
    void *user;
    int status;
    enum rdt_closed reason;
    void *job;
    bool ran;
    uint64_t flush_until;
    const struct arena_fault *fault;
};

struct post {
    uint32_t proc, conn;
    uint64_t tag;
    uint8_t *buf;
    size_t cap;
    void *user;
};

struct proc {
    void *state;
    void (*step)(void *, const struct input *, uint64_t, struct actions *);
    uint64_t (*deadline)(const void *);
    void (*run)(void *, void *);
    bool gone;
    uint64_t sleeps_until; /* nothing happens to it before */
    int code;
};

struct conn {
    uint32_t proc[2]; /* connecting node, coordinator */
    bool open;
    uint64_t control_at[2]; /* by receiver's side: control is ordered */
};

struct arena {
    const struct arena_config *config;
    struct arena_result *result;
    uint64_t now, seq, random;
    struct proc procs[PROCS];
    uint32_t procs_count;
    struct conn conns[CONNS];
    uint32_t conns_count;
    struct post posts[POSTS];
    size_t posts_count;
    struct item *items;
    struct actions actions;
    bool stop_due;
    bool faults_done[ARENA_FAULTS_MAX];
};

/* One thing happens: the earliest. */
void arena_turn(struct arena *arena);

/* Forgets what was still to happen. */
void arena_clear(struct arena *arena);

#endif
