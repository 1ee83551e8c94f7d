/* SPDX-License-Identifier: MIT */

/*
 * The cluster simulator: the production transport, coordinator and nodes, in virtual time.
 *
 *   sim [--seeds N] [--from S] [--jobs J] [--seeds-file F]   seeds S ... S + N - 1, and those in F
 *   sim --seed S [--verbose]                                  one seed, its plan and its events
 *   sim --sweep N        small runs over perfect links that lose the n-th datagrams, n = 1 ... N
 *
 * The same seed gives the same trace; every 16th seed is run twice to see it.  Exit 1: a seed
 * failed (printed with its plan), or a kind of fault never happened.
 */
#include "sweep.h"
#include "world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
    uint64_t from, seeds;
    uint64_t sweep; /* 0: none */
    unsigned jobs;
    bool single, verbose;
    const char *seeds_file;
};

static struct problem problems[PROBLEMS];
static char right_dir[] = "/tmp/gradwire-sim-XXXXXX";
static char wrong_dir[] = "/tmp/gradwire-sim-XXXXXX";
static const struct world_files files = {.right = right_dir, .wrong = wrong_dir};

static bool run_seed(uint64_t seed, bool verbose, struct tally *tally)
{
    struct plan plan;
    struct world_outcome outcome;
    struct world_outcome again;
    struct tally ignored = {0};

    plan_make(&plan, seed, PROBLEMS);
    if (verbose)
        plan_print(&plan, stdout);
    world_run(&plan, &problems[plan.problem], &files, verbose, tally, &outcome);
    if (outcome.ok && (seed % 16 == 0 || verbose)) {
        world_run(&plan, &problems[plan.problem], &files, false, &ignored, &again);
        if (again.trace != outcome.trace) {
            outcome.ok = false;
            snprintf(outcome.why, sizeof outcome.why, "another run has another trace");
        }
    }
    if (verbose)
        printf("trace %016" PRIx64 "\n", outcome.trace);
    if (!outcome.ok) {
        printf("FAILED seed %" PRIu64 ": %s\n", seed, outcome.why);
        plan_print(&plan, stdout);
        fflush(stdout);
    }
    return outcome.ok;
}

/* ---------- several processes ---------- */

struct share {
    struct tally tally;
    uint64_t failed;
};

static void add(struct share *sum, const struct share *part)
{
    uint64_t *to = (uint64_t *)(void *)sum;
    const uint64_t *from = (const uint64_t *)(const void *)part;

    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static void run_share(const struct options *options, unsigned job, struct share *share)
{
    for (uint64_t i = job; i < options->seeds; i += options->jobs)
        share->failed += !run_seed(options->from + i, false, &share->tally);
}

static int run_jobs(const struct options *options, struct share *sum)
{
    int ends[64][2];
    pid_t pids[64];
    int err = 0;

    for (unsigned i = 0; i < options->jobs; i++) {
        if (pipe(ends[i]) < 0)
            return -1;
        fflush(stdout);
        pids[i] = fork();
        if (pids[i] < 0)
            return -1;
        if (pids[i] == 0) {
            struct share share = {0};

            run_share(options, i, &share);
            fflush(stdout);
            _exit(write(ends[i][1], &share, sizeof share) == sizeof share ? 0 : 1);
        }
        close(ends[i][1]);
    }
    for (unsigned i = 0; i < options->jobs; i++) {
        struct share share = {0};
        int status;

        if (read(ends[i][0], &share, sizeof share) != sizeof share)
            err = -1;
        close(ends[i][0]);
        if (waitpid(pids[i], &status, 0) < 0 || status != 0)
            err = -1;
        add(sum, &share);
    }
    return err;
}

/* ---------- seeds that failed once ---------- */

static void run_file(const struct options *options, struct share *share)
{
    FILE *file = options->seeds_file ? fopen(options->seeds_file, "r") : NULL;
    char line[256];

    if (options->seeds_file && !file) {
        fprintf(stderr, "sim: cannot read %s\n", options->seeds_file);
        exit(2);
    }
    while (file && fgets(line, sizeof line, file)) {
        char *end;
        uint64_t seed = strtoull(line, &end, 10);

        if (end != line)
            share->failed += !run_seed(seed, false, &share->tally);
    }
    if (file)
        fclose(file);
}

/* ---------- report ---------- */

static bool report(const struct tally *tally, bool complete)
{
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"datagrams", tally->datagrams},
        {"lost", tally->lost},
        {"duplicated", tally->duplicated},
        {"reordered", tally->reordered},
        {"corrupted", tally->corrupted},
        {"queue_dropped", tally->queue_dropped},
        {"blackouts", tally->blackouts},
        {"stalls", tally->stalls},
        {"garbage", tally->garbage},
        {"damaged", tally->damaged},
        {"repeated", tally->repeated},
        {"late_nodes", tally->late_nodes},
        {"late_coordinators", tally->late_coordinators},
        {"without_data", tally->without_data},
        {"with_wrong_data", tally->with_wrong_data},
        {"unlucky", tally->unlucky},
        {"killed_early", tally->killed_early},
        {"stand_ins", tally->stand_ins},
        {"copied_identities", tally->copied},
        {"refused", tally->refused},
        {"retransmits", tally->retransmits},
        {"spurious", tally->spurious},
        {"ptos", tally->ptos},
        {"rejected", tally->rejected},
        {"deaths", tally->deaths},
        {"releases", tally->releases},
        {"runs_done", tally->done},
        {"runs_stopped", tally->stops},
        {"stopped_before_a_step", tally->stops_early},
        {"too_few_nodes", tally->too_few},
        {"nodes_killed", tally->kills},
        {"nodes_left", tally->leaves},
        {"nodes_frozen", tally->freezes},
        {"partitions", tally->partitions},
        {"late_and_used", tally->late_used},
        {"waits_for_nodes", tally->waits},
        {"resumed", tally->resumed},
        {"steps", tally->steps},
        {"evaluations", tally->evals},
    };
    bool ok = true;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        printf("%s%s=%" PRIu64, i ? " " : "", rows[i].name, rows[i].count);
        if (complete && rows[i].count == 0) {
            printf(" (NEVER HAPPENED)");
            ok = false;
        }
    }
    printf("\nvirtual time %.0f s\n", (double)tally->virtual_ms / 1e3);
    return ok;
}

static bool parse(int argc, char **argv, struct options *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    *options = (struct options){.from = 1, .seeds = 2000, .jobs = cores > 0 ? (unsigned)cores : 1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        uint64_t number = strtoull(value, NULL, 10);

        if (strcmp(argv[i], "--verbose") == 0) {
            options->verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0)
            options->seeds = number;
        else if (strcmp(argv[i], "--from") == 0)
            options->from = number;
        else if (strcmp(argv[i], "--jobs") == 0)
            options->jobs = (unsigned)number;
        else if (strcmp(argv[i], "--seeds-file") == 0)
            options->seeds_file = value;
        else if (strcmp(argv[i], "--sweep") == 0)
            options->sweep = number;
        else if (strcmp(argv[i], "--seed") == 0) {
            options->single = true;
            options->from = number;
        } else
            return false;
        i++;
    }
    if (options->jobs > 64)
        options->jobs = 64;
    return options->jobs > 0;
}

static bool make_data(void)
{
    if (!mkdtemp(right_dir) || !mkdtemp(wrong_dir))
        return false;
    for (uint32_t i = 0; i < PROBLEMS; i++) {
        problem_open(&problems[i], i, right_dir);
        problem_write_others(i, wrong_dir);
    }
    return true;
}

static void remove_dir(const char *dir)
{
    char path[256];

    for (unsigned i = 0; i < PROBLEMS; i++) {
        for (int part = 0; part < 4; part++) {
            snprintf(path, sizeof path, "%s/%s%u-%s", dir, part & 1 ? "test" : "train", i,
                     part & 2 ? "labels" : "images");
            unlink(path);
        }
    }
    rmdir(dir);
}

static bool run_all(const struct options *options)
{
    struct share sum = {0};
    bool ok;

    if (options->sweep)
        return sweep_run(problems, &files, options->sweep);
    if (options->single) {
        ok = run_seed(options->from, options->verbose, &sum.tally);
        report(&sum.tally, false);
        return ok;
    }
    run_file(options, &sum);
    ok = run_jobs(options, &sum) == 0;
    ok = report(&sum.tally, options->seeds >= 500) && ok && sum.failed == 0;
    printf("%" PRIu64 " seeds, %" PRIu64 " failed\n", options->seeds, sum.failed);
    return ok;
}

int main(int argc, char **argv)
{
    struct options options;
    struct nn_error error;
    bool ok;

    if (!parse(argc, argv, &options)) {
        fprintf(stderr,
                "usage: %s [--seeds N] [--from S] [--jobs J] [--seeds-file F] | --seed S "
                "[--verbose] | --sweep N\n",
                argv[0]);
        return 2;
    }
    nn_thread_init();
    if (nn_blas_open(NULL, &error) < 0 || !make_data()) {
        fprintf(stderr, "sim: no directory in /tmp, or no OpenBLAS\n");
        return 1;
    }
    ok = run_all(&options);
    remove_dir(right_dir);
    remove_dir(wrong_dir);
    for (uint32_t i = 0; i < PROBLEMS; i++)
        problem_close(&problems[i]);
    return ok ? 0 : 1;
}
