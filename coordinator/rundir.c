/* SPDX-License-Identifier: MIT */
#include <coordinator/rundir.h>

#include <cluster/text.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MAX = RUNDIR_PATH_MAX + 64 };

static void fail(struct rundir *dir, const char *what, const char *path)
{
    if (!dir->failed)
        text_format(dir->why, sizeof dir->why, "%s: cannot %s: %s", path, what, strerror(errno));
    dir->failed = true;
}

static void name_directory(struct rundir *dir, const char *config_path)
{
    const char *slash = strrchr(config_path, '/');
    const char *name = slash ? slash + 1 : config_path;
    const char *dot = strrchr(name, '.');
    int len = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    time_t now = time(NULL);
    struct tm tm;
    char stamp[32];

    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    text_format(dir->path, sizeof dir->path, "runs/%.*s-%s", len, name, stamp);
    /* Two runs within a second get two directories. */
    for (int i = 2; access(dir->path, F_OK) == 0 && i < 1000; i++)
        text_format(dir->path, sizeof dir->path, "runs/%.*s-%s-%d", len, name, stamp, i);
}

static int make_directories(const char *path)
{
    char part[RUNDIR_PATH_MAX];

    text_format(part, sizeof part, "%s", path);
    for (char *at = part + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            return -1;
        *at = '/';
    }
    return mkdir(part, 0777) < 0 && errno != EEXIST ? -1 : 0;
}

static FILE *open_log(struct rundir *dir, const char *name)
{
    char path[FILE_MAX];
    FILE *file;

    text_format(path, sizeof path, "%s/%s", dir->path, name);
    file = fopen(path, "we");
    if (!file)
        fail(dir, "write", path);
    return file;
}

int rundir_open(struct rundir *dir, const char *path, const char *config_path)
{
    struct stat status;
    char old[FILE_MAX];

    memset(dir, 0, sizeof *dir);
    if (path && strlen(path) >= sizeof dir->path) {
        text_format(dir->why, sizeof dir->why, "--out: path longer than %d bytes",
                    RUNDIR_PATH_MAX - 1);
        return RUNDIR_FAILED;
    }
    if (path)
        text_format(dir->path, sizeof dir->path, "%s", path);
    else
        name_directory(dir, config_path);
    text_format(old, sizeof old, "%s/run.jsonl", dir->path);
    if (stat(old, &status) == 0 && status.st_size > 0) {
        text_format(dir->why, sizeof dir->why,
                    "%s: holds a run already: choose another --out or remove it", dir->path);
        return RUNDIR_TAKEN;
    }
    if (make_directories(dir->path) < 0) {
        fail(dir, "create", dir->path);
        return RUNDIR_FAILED;
    }
    dir->steps = open_log(dir, "run.jsonl");
    dir->events = dir->steps ? open_log(dir, "events.log") : NULL;
    if (!dir->events) {
        rundir_close(dir);
        return RUNDIR_FAILED;
    }
    return 0;
}

void rundir_close(struct rundir *dir)
{
    if (dir->steps && fclose(dir->steps) != 0)
        fail(dir, "write", "run.jsonl");
    if (dir->events && fclose(dir->events) != 0)
        fail(dir, "write", "events.log");
    dir->steps = NULL;
    dir->events = NULL;
}

void rundir_discard(struct rundir *dir)
{
    static const char *const names[] = {"run.jsonl", "events.log", "config.json", "nodes.csv"};
    char path[FILE_MAX];

    rundir_close(dir);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        text_format(path, sizeof path, "%s/%s", dir->path, names[i]);
        unlink(path);
    }
    rmdir(dir->path);
}

/* Ends a line.  One that did not reach the disk whole is taken back. */
static void end_line(struct rundir *dir, FILE *file, long *whole, const char *name)
{
    if (fflush(file) == 0) {
        *whole = ftell(file);
        return;
    }
    fail(dir, "write", name);
    if (ftruncate(fileno(file), *whole) < 0)
        text_append(dir->why, sizeof dir->why, "; its last line is cut");
}

void rundir_step(struct rundir *dir, const struct record *record)
{
    char loss[TEXT_NUMBER_MAX];

    if (dir->failed)
        return;
    fprintf(dir->steps,
            "{\"step\":%" PRIu64 ",\"epoch\":%" PRIu32 ",\"loss\":%s,\"samples\":%" PRIu64
            ",\"weights_xxh3\":\"%s\",\"nodes\":%" PRIu32 ",\"seconds\":%.6f}\n",
            record->step, record->epoch, text_number(record->loss, 17, loss), record->samples,
            record->hash, record->nodes, (double)record->taken_ns * 1e-9);
    end_line(dir, dir->steps, &dir->steps_len, "run.jsonl");
}

void rundir_event(struct rundir *dir, const char *text)
{
    struct timespec now;
    struct tm tm;
    char stamp[32];

    if (dir->failed || !dir->events)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    fprintf(dir->events, "%s.%03ldZ %s\n", stamp, now.tv_nsec / 1000000, text);
    end_line(dir, dir->events, &dir->events_len, "events.log");
}

int rundir_text(struct rundir *dir, const char *name, const char *text)
{
    char path[FILE_MAX], temporary[FILE_MAX + 8];
    size_t len = strlen(text);
    FILE *file;
    bool good;

    text_format(path, sizeof path, "%s/%s", dir->path, name);
    text_format(temporary, sizeof temporary, "%s.tmp", path);
    file = fopen(temporary, "we");
    if (!file) {
        fail(dir, "write", path);
        return -1;
    }
    good = fwrite(text, 1, len, file) == len && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (fclose(file) != 0)
        good = false;
    if (good && rename(temporary, path) == 0)
        return 0;
    fail(dir, "write", path);
    unlink(temporary);
    return -1;
}

int rundir_model(struct rundir *dir, const struct nn_model *model, const float *weights,
                 uint64_t steps)
{
    char path[FILE_MAX], text[32], hash[COMMIT_HASH_TEXT];
    const char *const metadata[] = {"steps", text, "weights_xxh3", hash, NULL};
    struct nn_error error;

    text_format(path, sizeof path, "%s/model.safetensors", dir->path);
    text_format(text, sizeof text, "%" PRIu64, steps);
    nn_weights_hash(weights, nn_model_parameters(model), hash);
    if (nn_safetensors_write(path, model, weights, metadata, &error) == 0)
        return 0;
    if (!dir->failed)
        text_format(dir->why, sizeof dir->why, "%s", error.text);
    dir->failed = true;
    return -1;
}

/* text_append keeps a line one line; a summary has several. */
__attribute__((format(printf, 3, 4))) static void put(char *out, size_t cap, const char *format,
                                                      ...)
{
    size_t len = strlen(out);
    va_list args;

    va_start(args, format);
    vsnprintf(out + len, cap - len, format, args);
    va_end(args);
}

void summary_print(const struct summary *summary, bool one_line, char *out, size_t cap)
{
    const char *gap = one_line ? "" : "\n  ";
    const char *sep = one_line ? ", " : ",\n  ";
    char loss[TEXT_NUMBER_MAX];

    out[0] = '\0';
    put(out, cap, "{%s\"outcome\": \"%s\"%s\"steps\": %" PRIu64 "%s\"final_loss\": %s", gap,
        summary->outcome, sep, summary->steps, sep, text_number(summary->final_loss, 17, loss));
    if (summary->has_test)
        put(out, cap, "%s\"test_accuracy\": %.6f%s\"test_loss\": %s", sep, summary->test_accuracy,
            sep, text_number(summary->test_loss, 17, loss));
    put(out, cap, "%s\"samples_per_s\": %.1f%s\"seconds\": %.3f", sep, summary->samples_per_s, sep,
        summary->seconds);
    put(out, cap, "%s\"nodes\": %" PRIu32 "%s\"bytes_sent\": %" PRIu64, sep, summary->nodes, sep,
        summary->bytes_sent);
    put(out, cap, "%s\"bytes_retransmitted\": %" PRIu64 "%s\"kernel\": \"%s\"", sep,
        summary->bytes_retransmitted, sep, summary->kernel);
    put(out, cap, "%s\"weights_xxh3\": \"%s\"%s", sep, summary->hash, one_line ? "}" : "\n}\n");
}
