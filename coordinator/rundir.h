/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_RUNDIR_H
#define COORDINATOR_RUNDIR_H

/*
 * The directory of one run.  One writer.  Files that are written once appear whole or not at all
 * (temporary name, fsync, rename); run.jsonl and events.log grow by whole lines.
 */

#include <coordinator/record.h>
#include <stdio.h>

enum { RUNDIR_PATH_MAX = 1024, RUNDIR_WHY_MAX = 1280 };
enum { RUNDIR_FAILED = -1, RUNDIR_TAKEN = -2 };

struct rundir {
    char path[RUNDIR_PATH_MAX];
    FILE *steps;
    FILE *events;
    long steps_len, events_len; /* bytes of whole lines */
    bool failed;                /* a write failed; `why` says which and how */
    char why[RUNDIR_WHY_MAX];
};

/* Creates `path` (NULL: runs/NAME-TIME, NAME from the config's file name) and opens its logs.  A
 * directory that holds a run already is refused (RUNDIR_TAKEN).  Negative: `why` is one line. */
int rundir_open(struct rundir *dir, const char *path, const char *config_path);
void rundir_close(struct rundir *dir);

/* Takes away what rundir_open made, when the run never started: empty logs and directories. */
void rundir_discard(struct rundir *dir);

/* Appends.  A failing write sets `failed` and is reported by the caller once. */
void rundir_step(struct rundir *dir, const struct record *record);
void rundir_event(struct rundir *dir, const char *text);

/* Writes a whole small file. */
int rundir_text(struct rundir *dir, const char *name, const char *text);
int rundir_model(struct rundir *dir, const struct nn_model *model, const float *weights,
                 uint64_t steps);

struct summary {
    const char *outcome; /* "done", "stopped", ... */
    uint64_t steps;
    double final_loss;
    bool has_test;
    double test_accuracy, test_loss;
    double samples_per_s, seconds;
    uint32_t nodes;
    uint64_t bytes_sent, bytes_retransmitted;
    char hash[COMMIT_HASH_TEXT];
    const char *kernel;
};

/* The summary as one line of JSON, or one key a line. */
void summary_print(const struct summary *summary, bool one_line, char *out, size_t cap);

#endif
