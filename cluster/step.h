/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_STEP_H
#define CLUSTER_STEP_H

/*
 * The shape of coord_step and worker_step: inputs in, actions out, nothing else.  No clock, socket,
 * file or thread.  The host loop (cluster/host.h) turns rdt events, signals and finished jobs into
 * inputs and performs the actions; the simulator does the same in virtual time.
 */

#include <cluster/message.h>
#include <rdt/rdt.h>

enum input_kind {
    IN_TIME,      /* the deadline the step function asked for has passed */
    IN_CONNECTED, /* conn, peer, incoming */
    IN_CLOSED,    /* conn, reason */
    IN_MESSAGE,   /* conn, head, bytes, len, user of the landing */
    IN_RELEASED,  /* conn, user, status: the body of a sent message is ours again */
    IN_COMPUTED,  /* job: done by the compute thread */
    IN_STOP,      /* SIGINT or SIGTERM */
};

struct input {
    enum input_kind kind;
    struct rdt_conn conn;
    struct rdt_addr peer;
    bool incoming;
    enum rdt_closed reason;
    struct message head;
    const uint8_t *body; /* valid during the step call, unless it lies in a buffer we posted */
    size_t body_len;
    void *user; /* MESSAGE: of the landing (NULL: pooled); RELEASED: of the send */
    int status;
    void *job; /* the step function's own struct, as given in ACT_COMPUTE */
};

enum action_kind {
    ACT_CONNECT, /* peer */
    ACT_CLOSE,   /* conn: after flushing up to flush_ns */
    ACT_ABORT,   /* conn */
    ACT_SEND,    /* conn, head, body (borrowed until IN_RELEASED with `user`) */
    ACT_POST,    /* conn, head (kind, first, count, step name the landing), buf, cap, user */
    ACT_UNPOST,  /* conn, head */
    ACT_COMPUTE, /* job: hand it to the compute thread */
    ACT_EVENT,   /* text: one line of events.log, "event key=value ..." */
    ACT_RECORD,  /* record: a finished step or evaluation, for run.jsonl and the progress line */
    ACT_EXIT     /* code, text: flush, say why, leave with this exit code */
};

enum { ACTION_TEXT_MAX = 256, ACTIONS_MAX = 1024 };

struct action {
    enum action_kind kind;
    struct rdt_conn conn;
    struct rdt_addr peer;
    struct message head;
    const void *body;
    size_t body_len;
    void *buf;
    size_t cap;
    void *user;
    void *job;
    const void *record; /* the step function's own struct, valid until its next call */
    uint64_t flush_ns;
    int code;
    char text[ACTION_TEXT_MAX];
};

/* A bounded queue, filled by one step call and emptied before the next. */
struct actions {
    size_t count;
    struct action items[ACTIONS_MAX];
};

/* The next free action, zeroed but for its kind.  The bound is an invariant (asserted): a step
 * makes at most a few actions per member. */
struct action *actions_add(struct actions *actions, enum action_kind kind);

#endif
