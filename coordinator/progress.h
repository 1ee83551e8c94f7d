/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_PROGRESS_H
#define COORDINATOR_PROGRESS_H

/*
 * What a person sees while a run goes, on stderr.  On a terminal one line that updates; piped,
 * plain lines every few seconds; with --json one object a line.
 */

#include <coordinator/record.h>

struct progress {
    bool tty, json;
    bool open_line; /* the terminal's line is not ended */
    uint64_t steps, epochs;
    uint64_t begun_ns, shown_ns; /* of the first step; of the last line */
    uint64_t samples, done;      /* since begun_ns */
    uint64_t retransmitted;      /* bytes; kept up to date by the owner */
    struct record last;
};

void progress_init(struct progress *progress, bool json, uint64_t steps, uint64_t epochs);
void progress_record(struct progress *progress, const struct record *record, uint64_t now_ns);

/* A line of its own: warnings, losses, the end. */
void progress_say(struct progress *progress, const char *text);

/* Samples a second since the first step. */
double progress_rate(const struct progress *progress, uint64_t now_ns);

#endif
