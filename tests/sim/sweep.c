/* SPDX-License-Identifier: MIT */
#include "sweep.h"

#include <rdt/core/handshake.h>

#include <inttypes.h>
#include <stdio.h>

enum {
    OPENING = 3, /* datagrams of a handshake and its answer, each way */
    SMALL = 0,   /* problem whose messages fit a datagram or two */
    LARGE = 6,   /* whose weights wait for a landing and a grant */
    WAYS = 3     /* up, down, both */
};

/* How many datagrams in a row are lost, and how much later the run may be over: a few probe
 * timeouts of a path with a round trip of a millisecond.  Five in a row can be all the CLOSEs that
 * a node says, and the coordinator waits a second for it. */
static const struct {
    uint64_t count;
    uint64_t late_ns;
} bursts[] = {{1, 100000000}, {2, 150000000}, {5, 1100000000}};

enum { BURSTS = sizeof bursts / sizeof bursts[0] };

struct sweep {
    const struct problem *problem;
    const struct world_files *files;
    struct plan plan;
    struct tally tally;
    uint64_t usual_ns;
    uint64_t runs, failed;
    uint64_t latest_ns[BURSTS];
};

/* The first datagrams open the connection: what is lost of them costs the waits before the next
 * INIT, at most one wait for each lost datagram. */
static uint64_t allowed_ns(const struct sweep *sweep, size_t burst)
{
    uint64_t number = sweep->plan.drop_up.first + sweep->plan.drop_down.first;
    uint64_t lost = sweep->plan.drop_up.count + sweep->plan.drop_down.count;
    uint64_t wait_ns = 0;
    uint64_t sum_ns = 0;

    if (number > 2 * (uint64_t)OPENING * sweep->plan.nodes)
        return bursts[burst].late_ns;
    for (uint64_t i = 0; i < lost; i++) {
        wait_ns = handshake_next_wait(wait_ns);
        sum_ns += wait_ns;
    }
    return bursts[burst].late_ns + sum_ns;
}

static void run_one(struct sweep *sweep, size_t burst)
{
    struct world_outcome outcome;
    uint64_t late = 0;

    sweep->runs++;
    world_run(&sweep->plan, sweep->problem, sweep->files, false, &sweep->tally, &outcome);
    if (outcome.taken_ns > sweep->usual_ns)
        late = outcome.taken_ns - sweep->usual_ns;
    if (late > sweep->latest_ns[burst])
        sweep->latest_ns[burst] = late;
    if (outcome.ok && late <= allowed_ns(sweep, burst))
        return;
    sweep->failed++;
    printf("FAILED: %s, %.1f ms later than without loss\n", outcome.ok ? "too late" : outcome.why,
           (double)late / 1e6);
    plan_print(&sweep->plan, stdout);
}

static void run_number(struct sweep *sweep, uint64_t number, uint64_t last)
{
    /* In the long middle a burst meets much the same a few datagrams further on. */
    const bool middle = number > 20 && number + 20 < last && number % 4 != 0;

    for (size_t burst = 0; burst < (middle ? 1 : BURSTS); burst++) {
        const struct plan_drop drop = {.first = number, .count = bursts[burst].count};

        for (int way = 0; way < WAYS; way++) {
            sweep->plan.drop_up = way == 1 ? (struct plan_drop){.first = 0} : drop;
            sweep->plan.drop_down = way == 0 ? (struct plan_drop){.first = 0} : drop;
            run_one(sweep, burst);
        }
    }
}

static bool sweep_problem(struct sweep *sweep, uint32_t idx, uint32_t nodes, uint64_t last)
{
    struct world_outcome outcome;

    plan_make_perfect(&sweep->plan, idx, nodes);
    world_run(&sweep->plan, sweep->problem, sweep->files, false, &sweep->tally, &outcome);
    if (!outcome.ok) {
        printf("FAILED without loss: %s\n", outcome.why);
        return false;
    }
    sweep->usual_ns = outcome.taken_ns;
    if (last > outcome.sent_up && last > outcome.sent_down)
        last = outcome.sent_up > outcome.sent_down ? outcome.sent_up : outcome.sent_down;
    for (uint64_t number = 1; number <= last; number++)
        run_number(sweep, number, last);
    printf("problem %" PRIu32 ", %" PRIu32 " nodes, %" PRIu64 " datagrams up, %" PRIu64
           " down, %.1f ms: %" PRIu64 " runs, %" PRIu64 " failed; latest with",
           idx, nodes, outcome.sent_up, outcome.sent_down, (double)sweep->usual_ns / 1e6,
           sweep->runs, sweep->failed);
    for (size_t burst = 0; burst < BURSTS; burst++)
        printf(" %" PRIu64 " lost: %.1f ms", bursts[burst].count,
               (double)sweep->latest_ns[burst] / 1e6);
    printf("\n");
    return sweep->failed == 0;
}

bool sweep_run(const struct problem *problems, const struct world_files *files, uint64_t last)
{
    static const struct {
        uint32_t problem, nodes;
    } runs[] = {{SMALL, 1}, {SMALL, 2}, {LARGE, 1}};
    bool ok = true;

    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        static struct sweep sweep;

        sweep = (struct sweep){.problem = &problems[runs[i].problem], .files = files};
        ok = sweep_problem(&sweep, runs[i].problem, runs[i].nodes, last) && ok;
    }
    return ok;
}
