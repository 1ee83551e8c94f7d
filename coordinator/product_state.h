/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_PRODUCT_STATE_H
#define COORDINATOR_PRODUCT_STATE_H

/* What the parts of the product's step function share.  Private to coordinator/. */

#include <coordinator/product.h>
#include <coordinator/product_check.h>

enum {
    MILLS_MAX = COORD_NODES_MAX + 16, /* connections: nodes, and strangers about to be refused */
    PIECES_FLYING_MAX = 8             /* pieces of B on their way to one node */
};

enum mill_state {
    MILL_FREE,
    MILL_CONNECTED, /* has not said who it is */
    MILL_JOINING,   /* welcomed: takes its memory, tests its arithmetic */
    MILL_READY,
    MILL_LEAVING /* its connection is being closed */
};

/* A node: what is ground there are blocks. */
struct mill {
    enum mill_state state;
    struct rdt_conn conn;
    uint64_t instance;
    char name[BODY_NAME_MAX];
    uint32_t depth;  /* blocks it may have under way */
    uint32_t blocks; /* it has */
    /* Where blocks land there: the next one in landing i has number serials[i], i more than a
     * multiple of depth; it may be sent when the one before it there has come back. */
    uint64_t serials[BODY_DEPTH_MAX];
    bool taken[BODY_DEPTH_MAX];
    uint64_t piece;    /* of B, the next to it */
    uint32_t flying;   /* pieces not released */
    uint64_t finished; /* blocks it computed */
    bool dropped;      /* we abort its connection, for this reason: */
    const char *reason;
    uint8_t body[BODY_PRODUCT_BYTES]; /* WELCOME or REFUSE: lent until the connection ends */
};

/* Where a block of C lands, and which: the only trace of a block that is under way. */
struct grist {
    struct grist *next; /* spare, out or to be checked */
    struct mill *mill;
    uint64_t instance; /* of the mill, which may be gone when the block is checked */
    char name[BODY_NAME_MAX];
    uint64_t serial;
    uint64_t idx; /* of the block */
    uint8_t *buf; /* MESSAGE_HEADER and rows of C */
};

enum product_phase { PRODUCT_GATHER, PRODUCT_RUN, PRODUCT_END };

struct product {
    struct product_config config;
    enum product_phase phase;
    bool begun; /* the clock of the gathering runs */
    uint64_t view;
    uint64_t wait_until; /* GATHER; RUN with no node */
    uint64_t end_at;
    struct mill mills[MILLS_MAX];
    uint64_t wrong[COORD_NODES_MAX]; /* instances that computed wrong */

    uint64_t blocks, next; /* given out so far, not counting those that came back: */
    uint64_t *lost;        /* blocks of lost nodes */
    uint32_t lost_count;
    uint8_t *copies; /* of a block, under way: a second one is stolen from a slow node */
    bool *come;      /* a block has come back */
    uint32_t turn;   /* whose turn it is for a block */
    bool more;       /* a step was full: go on at once */
    struct grist *spare, *out;

    struct checker *checker; /* NULL: nothing is checked */
    struct grist *unchecked; /* the oldest is checked now */
    struct check_job job;
    bool checking;

    struct product_status status;
    uint8_t scratch[BODY_MAX];
    int code;
    char text[ACTION_TEXT_MAX];
    bool failing;
    char ended[BODY_NAME_MAX];

    /* of the call at hand */
    struct actions *actions;
    uint64_t now;
};

/* product.c */
void product_finish(struct product *product, enum exit_code code, const char *text);
void product_begin(struct product *product);
struct action *product_event(struct product *product);

/* product_members.c */
struct mill *mill_find(struct product *product, struct rdt_conn conn);
uint32_t mills_in(const struct product *product, enum mill_state state);
void mill_connected(struct product *product, const struct input *input);
void mill_closed(struct product *product, struct mill *mill, enum rdt_closed reason);
void mill_join(struct product *product, struct mill *mill, const struct input *input);
void mill_ready(struct product *product, struct mill *mill, const struct input *input);
void mill_drop(struct product *product, struct mill *mill, const char *reason);
void mill_send(struct product *product, struct mill *mill, struct message head, const void *body,
               size_t body_len, void *user);

/* product_deal.c */
void deal_pump(struct product *product);
void deal_take_back(struct product *product, const struct mill *mill);
void deal_result(struct product *product, struct mill *mill, const struct input *input);
void deal_checked(struct product *product);
void deal_free(struct product *product);

#endif
