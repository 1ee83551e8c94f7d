/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_STATE_H
#define COORDINATOR_STATE_H

/* What the parts of the coordinator's step function share.  Private to coordinator/. */

#include <cluster/body.h>
#include <coordinator/coord.h>

enum {
    /* Connections that may be open: nodes, and strangers that are about to be refused. */
    MEMBERS_MAX = COORD_NODES_MAX + 16,
    /* SAMPLES messages on their way to one member. */
    SAMPLES_FLYING_MAX = 2,
    /* Pieces asked of one member: below what its queue of assignments and our transport hold. */
    MEMBER_PIECES_MAX = 64
};

enum { SET_COUNT = 2 }; /* BODY_TRAIN, BODY_TEST */

enum member_state {
    MEMBER_FREE,
    MEMBER_CONNECTED, /* has not said who it is */
    MEMBER_JOINING,   /* welcomed: builds the model, looks for the data */
    MEMBER_READY,
    MEMBER_LEAVING /* its connection is being closed */
};

/* Bytes that we lent to rdt: the `user` of their send. */
struct loan {
    enum { LOAN_WEIGHTS, LOAN_SAMPLES } kind;
};

struct samples_buf {
    struct loan loan;
    struct samples_buf *next; /* in the list of spare ones */
    uint32_t member;
    uint8_t bytes[BODY_MAX];
};

struct member {
    enum member_state state;
    struct coord_node node;
    uint8_t *sent[SET_COUNT]; /* a bit for each sample sent to it */
    uint64_t given;           /* 1 + the step of the newest weights sent to it; 0: none yet */
    struct span telling;      /* STEP or EVAL for these leaves follows (count 0: none) ... */
    uint64_t position, end;   /* ... when the samples at these positions are on their way */
    uint32_t flying;          /* SAMPLES messages not released */
    bool dropped;             /* we abort its connection, for this reason: */
    enum rdt_closed reason;
    bool process_ended;
};

/* A subtree of the step or the evaluation at hand: who computes it, and where its sum lands.  The
 * pieces that are not gone cover every leaf once. */
struct piece {
    enum {
        PIECE_GONE,  /* part of another piece now */
        PIECE_LOST,  /* of nobody: not handed out yet, or its node is lost */
        PIECE_ASKED, /* of a step: its landing is posted to the member */
        PIECE_HERE
    } state;
    struct span span;
    uint32_t member;        /* ASKED */
    bool told;              /* ASKED: STEP or EVAL has been sent or is being prepared */
    char by[BODY_NAME_MAX]; /* HERE: computed by */
    uint8_t *buf;           /* MESSAGE_HEADER + body_partial_len; NULL: not needed so far */
    double loss;
    uint64_t hash;
};

enum phase { PHASE_GATHER, PHASE_STEP, PHASE_COMMIT, PHASE_EVAL, PHASE_END };

struct eval_leaf {
    bool have;
    double loss;
    uint32_t correct;
    uint32_t count;
};

struct coord {
    struct coord_config config;
    size_t parameters;
    enum phase phase;
    bool begun; /* the clock of the gathering runs */
    bool stopping;
    bool owes_commit; /* covered, but the next weights are still lent */
    bool committing;  /* the job is at the compute thread */
    uint64_t view;
    uint64_t gather_until, end_at;
    struct member members[MEMBERS_MAX];
    struct coord_node gone[MEMBERS_MAX]; /* were ready, are not members any more */
    size_t gone_count;

    uint64_t step; /* committed so far; also the step at hand */
    uint64_t steps;
    uint64_t started_ns; /* of the step or evaluation at hand */
    float *weights[2];   /* of step n in [n % 2] */
    struct loan loans[2];
    uint32_t lent[2];

    struct piece *pieces; /* one for each leaf is always enough */
    uint32_t pieces_count, pieces_max;
    bool hurry; /* pieces are left that did not fit into this call's actions */
    struct partial *partials;
    struct committer *committer;
    struct commit commit;

    struct eval_leaf *evals;
    struct partial *eval_partials;
    uint32_t eval_leaves, eval_have;

    struct samples_buf *spare;
    uint64_t *ids; /* of one SAMPLES message */
    uint32_t ids_max;

    bool waiting; /* there are too few nodes to go on */
    uint64_t wait_until;
    char last_lost[ACTION_TEXT_MAX]; /* which node, and why */

    struct record record;
    int code;
    char text[ACTION_TEXT_MAX];
    bool failing; /* code and text were set from outside */
    bool ended;   /* the process of a member is known to have ended */

    /* of the call at hand */
    struct actions *out;
    uint64_t now;
};

/* members.c */
struct member *member_find(struct coord *coord, struct rdt_conn conn);
uint32_t members_in(const struct coord *coord, enum member_state state);
bool member_is_able(const struct member *member); /* to compute */
bool coord_is_running(const struct coord *coord); /* between gathering and the end */
void member_connected(struct coord *coord, const struct input *input);
void member_closed(struct coord *coord, struct member *member, enum rdt_closed reason);
void member_drop(struct coord *coord, struct member *member, enum rdt_closed reason);
void member_join(struct coord *coord, struct member *member, const struct input *input);
void member_refuse(struct coord *coord, struct member *member, const char *reason, bool for_good);
void member_ready(struct coord *coord, struct member *member, const struct input *input);
void member_send(struct coord *coord, struct member *member, struct message head, const void *body,
                 size_t body_len, void *user);

/* assign.c: who computes what, and samples for whoever lacks them. */
void assign_begin(struct coord *coord, uint32_t leaves); /* a new step or evaluation */
void assign_pieces(struct coord *coord);                 /* those of nobody, as far as it can be */
void assign_pump(struct coord *coord, struct member *member);
void assign_released(struct coord *coord, struct samples_buf *buf);
struct samples_buf *assign_buf(struct coord *coord, struct member *member);

/* reduce.c: partials and evaluations that come back. */
void reduce_partial(struct coord *coord, struct member *member, const struct input *input);
bool reduce_covered(const struct coord *coord);
void reduce_commit(struct coord *coord);
void reduce_evaluated(struct coord *coord, struct member *member, const struct input *input);

/* quorum.c: go on with at least so many nodes; with fewer wait, then end. */
void quorum_check(struct coord *coord);

/* coord.c */
void coord_finish(struct coord *coord, enum exit_code code, const char *text);
void coord_begin(struct coord *coord);
struct action *coord_event(struct coord *coord);
void coord_record(struct coord *coord);

#endif
