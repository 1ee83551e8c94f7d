/* SPDX-License-Identifier: MIT */
/* Command line and result lines of the transport benchmarks. */
#include "args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: %s recv|send|ping|pong [OPTION VALUE ...]\n"
    "  --ip ADDRESS    bind to it (recv, pong) or go there (127.0.0.1)\n"
    "  --port P        (7700)\n"
    "  --bytes N       recv, send: how much (256000000)\n"
    "  --secs S        recv, send, ping: at most so long (8)\n"
    "  --size B        ping: message size, up to 65536 (64)\n"
    "  --count K       ping: how many (20000)\n"
    "  --mss N         largest UDP payload (what the route takes)\n"
    "  --chunk N       recv, send: bytes a message (1048576)\n"
    "  --wnd N         a constant congestion window of N bytes (none)\n"
    "  --mode WORDS    comma list of spin, no-gso, no-gro\n"
    "  --impair TEXT   send and receive through a simulated link: loss=5%%,delay=1ms,...\n"
    "  --stats         print the transport's counters at the end\n";

static void refuse(const char *program, const char *option, const char *value)
{
    if (value)
        fprintf(stderr, "%s: %s: bad value: %s\n", program, option, value);
    else
        fprintf(stderr, "%s: unknown option: %s\n", program, option);
    fprintf(stderr, usage, program);
    exit(2);
}

static bool read_number(uint64_t *out, const char *text, uint64_t min, uint64_t max)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value < min || value > max)
        return false;
    *out = value;
    return true;
}

static bool read_seconds(double *out, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value > 0 && value <= 86400))
        return false;
    *out = value;
    return true;
}

static bool set_number(struct args *a, const char *option, const char *text)
{
    uint64_t value = 0;
    bool ok;

    if (strcmp(option, "--port") == 0) {
        ok = read_number(&value, text, 1, 65535);
        a->port = (uint16_t)value;
    } else if (strcmp(option, "--mss") == 0) {
        ok = read_number(&value, text, 88, 65507);
        a->mss = (uint32_t)value;
    } else if (strcmp(option, "--wnd") == 0) {
        ok = read_number(&a->window, text, 1, UINT64_MAX / 2);
    } else if (strcmp(option, "--bytes") == 0) {
        ok = read_number(&a->bytes, text, 1, UINT64_MAX / 2);
    } else if (strcmp(option, "--size") == 0) {
        ok = read_number(&value, text, 1, 65536);
        a->size = value;
    } else if (strcmp(option, "--count") == 0) {
        ok = read_number(&value, text, 1, 100000000);
        a->count = value;
    } else {
        ok = read_number(&value, text, 1, UINT32_MAX);
        a->chunk = value;
    }
    return ok;
}

static bool is_number(const char *option)
{
    static const char *const names[] = {"--port", "--mss",   "--wnd",  "--bytes",
                                        "--size", "--count", "--chunk"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

/* Returns how many words it took; 0: the option or its value is not understood. */
static int set_option(struct args *a, const char *option, const char *value)
{
    if (strcmp(option, "--stats") == 0) {
        a->stats = true;
        return 1;
    }
    if (!value)
        return 0;
    if (strcmp(option, "--ip") == 0)
        a->ip = value;
    else if (strcmp(option, "--mode") == 0)
        a->mode = value;
    else if (strcmp(option, "--impair") == 0)
        a->impair = value;
    else if (strcmp(option, "--secs") == 0)
        return read_seconds(&a->secs, value) ? 2 : 0;
    else if (is_number(option))
        return set_number(a, option, value) ? 2 : 0;
    else
        return 0;
    return 2;
}

struct args args_parse(int argc, char **argv)
{
    struct args a = {
        .role = argc > 1 ? argv[1] : "",
        .ip = "127.0.0.1",
        .mode = "",
        .port = 7700,
        .size = 64,
        .count = 20000,
        .bytes = 256000000,
        .secs = 8,
    };
    int i = 2;

    if (strcmp(a.role, "-h") == 0 || strcmp(a.role, "--help") == 0) {
        printf(usage, argv[0]);
        exit(0);
    }
    while (i < argc) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        int words = set_option(&a, argv[i], value);

        if (words == 0)
            refuse(argv[0], argv[i], value);
        i += words;
    }
    if (!args_role_is(&a, "recv") && !args_role_is(&a, "send") && !args_role_is(&a, "ping") &&
        !args_role_is(&a, "pong")) {
        fprintf(stderr, usage, argc > 0 ? argv[0] : "bench");
        exit(2);
    }
    return a;
}

bool args_role_is(const struct args *args, const char *role)
{
    return strcmp(args->role, role) == 0;
}

bool args_mode_has(const struct args *args, const char *word)
{
    const size_t len = strlen(word);

    for (const char *at = args->mode; *at;) {
        const size_t n = strcspn(at, ",");

        if (n == len && memcmp(at, word, len) == 0)
            return true;
        at += n;
        at += *at == ',';
    }
    return false;
}

double clock_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void report_receive(uint64_t bytes, double secs)
{
    printf("RECV bytes=%llu secs=%.6f\n", (unsigned long long)bytes, secs);
    fflush(stdout);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double at_share(const double *sorted, size_t count, double share)
{
    size_t i = (size_t)((double)count * share);

    return sorted[i < count ? i : count - 1];
}

void report_ping(double *samples_us, size_t count)
{
    if (count == 0) {
        printf("PING n=0\n");
    } else {
        qsort(samples_us, count, sizeof *samples_us, compare);
        printf("PING n=%zu p50=%.1f p99=%.1f p999=%.1f max=%.1f\n", count,
               at_share(samples_us, count, 0.5), at_share(samples_us, count, 0.99),
               at_share(samples_us, count, 0.999), samples_us[count - 1]);
    }
    fflush(stdout);
}
