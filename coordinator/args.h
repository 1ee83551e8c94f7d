/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_ARGS_H
#define COORDINATOR_ARGS_H

/* The command line of gradwire-coordinator. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARGS_SETS_MAX = 64, ARGS_WHY_MAX = 512 };

enum command {
    COMMAND_TRAIN,
    COMMAND_EVAL,
    COMMAND_VERIFY,
    COMMAND_HASH,
    COMMAND_MATMUL,
    COMMAND_HELP
};

enum where { WHERE_LISTEN, WHERE_STANDALONE };

struct args {
    enum command command;
    const char *first;  /* RUN.json, MODEL, DIR_A or A.npy */
    const char *second; /* RUN.json, DIR_B or B.npy */
    enum where where;
    const char *listen;  /* ADDR:PORT */
    uint32_t standalone; /* nodes to start; 0: everything in process */
    bool has_nodes;
    uint32_t nodes;
    uint32_t threads; /* 0: cores divided by local nodes */
    const char *out;
    const char *impair;
    const char *sets[ARGS_SETS_MAX];
    size_t sets_count;
    bool json;
    const char *op;      /* matmul, as the next four; NULL: mul */
    const char *weights; /* "a,b" */
    bool check;
    bool has_wait;
    uint32_t wait_s;
};

/* Negative: `why` is one line for the user.  COMMAND_HELP: `why` is not touched. */
int args_read(struct args *args, int argc, char **argv, char why[ARGS_WHY_MAX]);

const char *args_help(void);

#endif
