/* SPDX-License-Identifier: MIT */
#include <coordinator/progress.h>

#include <cluster/text.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint64_t tty_pause_ns = 100000000;
static const uint64_t plain_pause_ns = 2000000000;

void progress_init(struct progress *progress, bool json, uint64_t steps, uint64_t epochs)
{
    memset(progress, 0, sizeof *progress);
    progress->json = json;
    progress->tty = !json && isatty(STDERR_FILENO);
    progress->steps = steps;
    progress->epochs = epochs;
}

static void end_line(struct progress *progress)
{
    if (progress->open_line)
        fputc('\n', stderr);
    progress->open_line = false;
}

void progress_say(struct progress *progress, const char *text)
{
    end_line(progress);
    if (progress->json) {
        fputs("{\"note\": \"", stderr);
        for (const char *at = text; *at; at++) {
            if (*at == '"' || *at == '\\')
                fputc('\\', stderr);
            fputc(*at, stderr);
        }
        fputs("\"}\n", stderr);
    } else {
        fprintf(stderr, "%s\n", text);
    }
    fflush(stderr);
}

double progress_rate(const struct progress *progress, uint64_t now_ns)
{
    double seconds = (double)(now_ns - progress->begun_ns) * 1e-9;

    return seconds > 0 ? (double)progress->samples / seconds : 0;
}

static void show_step(struct progress *progress, uint64_t now_ns)
{
    const struct record *last = &progress->last;
    double rate = progress_rate(progress, now_ns);
    double left = progress->done > 0
                      ? (double)(now_ns - progress->begun_ns) * 1e-9 *
                            (double)(progress->steps - last->step - 1) / (double)progress->done
                      : 0;
    char loss[TEXT_NUMBER_MAX];

    if (progress->json) {
        fprintf(stderr,
                "{\"step\": %" PRIu64 ", \"steps\": %" PRIu64 ", \"epoch\": %" PRIu32
                ", \"loss\": %s, \"samples_per_s\": %.1f, \"nodes\": %" PRIu32
                ", \"bytes_retransmitted\": %" PRIu64 ", \"eta_s\": %.0f}\n",
                last->step + 1, progress->steps, last->epoch + 1, text_number(last->loss, 6, loss),
                rate, last->nodes, progress->retransmitted, left);
    } else {
        fprintf(stderr,
                "%sepoch %" PRIu32 "/%" PRIu64 "  step %" PRIu64 "/%" PRIu64
                "  %.0f samples/s  loss %.4f  nodes %" PRIu32 "  retransmitted %.1f MB  ETA "
                "%d:%02d%s",
                progress->tty ? "\r\033[K" : "", last->epoch + 1, progress->epochs, last->step + 1,
                progress->steps, rate, last->loss, last->nodes,
                (double)progress->retransmitted * 1e-6, (int)left / 60, (int)left % 60,
                progress->tty ? "" : "\n");
        progress->open_line = progress->tty;
    }
    progress->shown_ns = now_ns;
    fflush(stderr);
}

static void show_eval(struct progress *progress, const struct record *record)
{
    double accuracy = (double)record->correct / (double)record->samples;
    char loss[TEXT_NUMBER_MAX];

    end_line(progress);
    if (progress->json) {
        fprintf(stderr, "{\"epoch\": %" PRIu32 ", \"test_accuracy\": %.6f, \"test_loss\": %s}\n",
                record->epoch + 1, accuracy, text_number(record->loss, 6, loss));
    } else {
        fprintf(
            stderr,
            "epoch %" PRIu32 "/%" PRIu64 "  train loss %.4f  test loss %.4f  accuracy %.2f %%\n",
            record->epoch + 1, progress->epochs, progress->last.loss, record->loss, 100 * accuracy);
    }
    fflush(stderr);
}

static void show_members(struct progress *progress, const struct record *record)
{
    end_line(progress);
    if (progress->json)
        fprintf(stderr, "{\"nodes\": %" PRIu32 ", \"wanted\": %" PRIu32 "}\n", record->nodes,
                record->wanted);
    else
        fprintf(stderr, "%" PRIu32 "/%" PRIu32 " nodes joined\n", record->nodes, record->wanted);
    fflush(stderr);
}

void progress_record(struct progress *progress, const struct record *record, uint64_t now_ns)
{
    uint64_t pause = progress->tty ? tty_pause_ns : plain_pause_ns;

    switch (record->kind) {
    case RECORD_MEMBERS:
        if (record->wanted > 0)
            show_members(progress, record);
        return;
    case RECORD_EVAL:
        show_eval(progress, record);
        return;
    case RECORD_STEP:
        break;
    }
    if (progress->done == 0) {
        progress->begun_ns = now_ns - record->taken_ns;
        progress->shown_ns = now_ns;
    }
    progress->last = *record;
    progress->done++;
    progress->samples += record->samples;
    if (now_ns - progress->shown_ns >= pause || record->step + 1 == progress->steps)
        show_step(progress, now_ns);
}
