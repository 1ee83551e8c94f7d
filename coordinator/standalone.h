/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_STANDALONE_H
#define COORDINATOR_STANDALONE_H

/*
 * Nodes on this machine: children that become the gradwire-node beside our own program.  They are
 * forked before this process has memory, threads or rings worth copying, wait at a pipe, and
 * exec when they are told the port and where to log.  They die with us.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { STANDALONE_MAX = 64, STANDALONE_NAME_MAX = 16 };

struct standalone {
    uint32_t count;
    pid_t pids[STANDALONE_MAX];
    int pipes[STANDALONE_MAX]; /* -1: told already */
};

/* Negative: `why` is one line. */
int standalone_fork(struct standalone *nodes, uint32_t count, uint32_t threads, char *why,
                    size_t why_cap);

/* Lets them start: node i is named n(i+1), joins 127.0.0.1:port, logs to DIR/NAME.log. */
int standalone_start(struct standalone *nodes, uint16_t port, const char *dir);

/* Waits for them to end, a few seconds; who does not is killed.  Also when they never started. */
void standalone_end(struct standalone *nodes);

/* Has a node ended by itself?  Its name and how, once for each. */
bool standalone_lost(struct standalone *nodes, char name[STANDALONE_NAME_MAX], char *why,
                     size_t why_cap);

#endif
