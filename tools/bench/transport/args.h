/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TRANSPORT_ARGS_H
#define BENCH_TRANSPORT_ARGS_H

/*
 * The command line that every program of this directory takes, so that tools/bench/transport/run
 * can start any of them:
 *
 *     PROGRAM recv|send|ping|pong --ip ADDRESS --port P [--OPTION VALUE ...]
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct args {
    const char *role;
    const char *ip;     /* recv, pong: bind to it; send, ping: go there */
    const char *mode;   /* a variant of the program */
    const char *impair; /* a simulated link, see rdt/link.h */
    bool stats;
    uint16_t port;
    uint32_t mss;    /* the largest UDP payload or TCP segment; 0: the program's default */
    uint64_t window; /* bytes; 0: the program's default */
    size_t size;     /* of a ping */
    size_t count;    /* of pings */
    size_t chunk;    /* bytes a message or call; 0: the program's default */
    uint64_t bytes;
    double secs;
};

/* Prints what is wrong and ends the program with 2 when the command line is not understood. */
struct args args_parse(int argc, char **argv);

bool args_role_is(const struct args *args, const char *role);
bool args_mode_has(const struct args *args, const char *word); /* --mode is a comma list */

double clock_seconds(void);

/* "RECV bytes=.. secs=.." */
void report_receive(uint64_t bytes, double secs);

/* "PING n=.. p50=.. p99=.. p999=.. max=.." in microseconds.  Sorts the samples. */
void report_ping(double *samples_us, size_t count);

#endif
