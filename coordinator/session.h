/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_SESSION_H
#define COORDINATOR_SESSION_H

/* One `train` from the command line to the exit code, whoever computes: setup, run directory,
 * progress, and the files that are written at the end. */

#include <coordinator/args.h>
#include <coordinator/coord.h>
#include <coordinator/progress.h>
#include <coordinator/rundir.h>
#include <coordinator/setup.h>

struct session {
    const struct args *args;
    struct setup setup;
    struct rundir dir;
    struct progress progress;
    uint64_t begun_ns; /* first record of a step, minus what it took */
    uint64_t ended_ns; /* last record */
    struct record last_step, last_eval;
    bool has_step, has_eval;
    uint32_t nodes; /* 0: in process */
    uint64_t bytes_sent, bytes_retransmitted;
};

/* 0 or an exit code, said on stderr. */
int session_open(struct session *session, const struct args *args);
void session_close(struct session *session);

void session_record(struct session *session, const struct record *record, uint64_t now_ns);
void session_event(struct session *session, const char *text);

/* Writes what the run leaves behind and says the result.  `code` and `why` are how it ended;
 * returns the exit code, which is another when writing fails. */
int session_end(struct session *session, int code, const char *why, const float *weights,
                uint64_t steps);

#endif
