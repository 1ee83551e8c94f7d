/* SPDX-License-Identifier: MIT */
#ifndef NODE_STATE_H
#define NODE_STATE_H

/* What the parts of the node's step function share.  Private to node/. */

#include <node/worker.h>

enum {
    ASSIGNMENTS_MAX = 128, /* waiting: one a step, and more when other nodes are lost */
    OUTS_MAX = 16          /* bodies computed or on their way */
};

enum worker_state {
    WORKER_IDLE, /* connects at retry_at */
    WORKER_CONNECTING,
    WORKER_JOINING,   /* said JOIN */
    WORKER_PREPARING, /* builds the model, looks for the data */
    WORKER_READY,
    WORKER_CLOSING /* connects again when the old connection is gone */
};

/* A vector of weights, behind the header of its message. */
struct weights {
    enum { WEIGHTS_EMPTY, WEIGHTS_POSTED, WEIGHTS_HELD } state;
    uint64_t step;
    uint8_t *buf; /* MESSAGE_HEADER + 4 * parameters */
};

/* The body of a PARTIAL or EVALUATED. */
struct out {
    enum { OUT_FREE, OUT_COMPUTING, OUT_SENDING } state;
    uint8_t *bytes;
};

struct assignment {
    enum job_kind kind;
    uint64_t view, step;
    bool samples_here;
    struct span parts[TREE_PARTS_MAX];
    size_t parts_count, next;
};

struct worker {
    struct worker_config config;
    enum worker_state state;
    bool begun, exiting;
    struct rdt_conn conn;
    uint64_t run_id;
    uint64_t alone_since; /* without a coordinator */
    uint64_t retry_at;
    uint64_t retry_ns; /* the next pause */

    struct engine engine;
    struct matrix matrix;
    struct job job;
    bool busy;         /* the job is at the compute thread */
    bool stale;        /* it belongs to a connection that is gone */
    bool wants_engine; /* PREPARE is due as soon as the compute thread is free */
    struct out *job_out;
    uint64_t job_view;

    size_t parameters; /* what the buffers are made for */
    uint64_t newest;   /* step of the newest weights held */
    struct weights weights[2];
    struct out outs[OUTS_MAX];
    struct assignment assignments[ASSIGNMENTS_MAX];
    size_t assignments_count;

    struct body_welcome welcome; /* the text of its model is in `model_text` */
    char model_text[BODY_MODEL_MAX];
    uint8_t join_body[BODY_MAX];
    uint8_t ready_body[BODY_MAX];

    /* of the call at hand */
    struct actions *out;
    uint64_t now;
};

/* worker.c */
void worker_send(struct worker *worker, struct message head, const void *body, size_t body_len,
                 void *user);
void worker_event(struct worker *worker, const char *text);
/* The process ends with this code. */
void worker_leave(struct worker *worker, enum worker_exit code, const char *text);
/* This connection is of no use: ends it and tries again. */
void worker_give_up(struct worker *worker, const char *why);

/* buffers.c */
int buffers_open(struct worker *worker); /* for engine.parameters; NN_ENOMEM */
void buffers_free(struct worker *worker);
void buffers_lost(struct worker *worker); /* the connection is gone: posted ones are ours again */
void weights_expect(struct worker *worker, uint64_t first_step);
void weights_arrived(struct worker *worker, const struct input *input);
void weights_recycle(struct worker *worker);
const float *weights_held(const struct worker *worker, uint64_t step);
struct out *outs_take(struct worker *worker); /* NULL: all are on their way, or memory is out */

/* work.c: assignments */
void work_assign(struct worker *worker, const struct message *head);
void work_samples(struct worker *worker, const struct input *input);
void work_advance(struct worker *worker);
void work_done(struct worker *worker);

#endif
