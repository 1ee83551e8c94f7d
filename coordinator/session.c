/* SPDX-License-Identifier: MIT */
#include <coordinator/session.h>

#include <cluster/text.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUMMARY_MAX = 2048 };

static int give_up(struct session *session, int code, const char *why)
{
    fprintf(stderr, "gradwire-coordinator: %s\n", why);
    session_close(session);
    return code;
}

static int too_many_nodes(struct session *session)
{
    char text[RUNDIR_WHY_MAX];

    text_format(text, sizeof text, "%s:%u: cluster.nodes: %u is not allowed (allowed: 1 to %d)",
                session->args->first, config_line(session->args->first, "cluster.nodes"),
                session->setup.config.cluster.nodes, COORD_NODES_MAX);
    return give_up(session, EXIT_USAGE, text);
}

int session_open(struct session *session, const struct args *args)
{
    struct setup *setup = &session->setup;
    char *config;
    int code;

    memset(session, 0, sizeof *session);
    session->args = args;
    code = setup_open(setup, args->first, args->sets, args->sets_count);
    if (code != 0)
        return give_up(session, code, setup->why);
    if (args->has_nodes)
        setup->config.cluster.nodes = args->nodes;
    if (args->where == WHERE_STANDALONE && args->standalone > 0)
        setup->config.cluster.nodes = args->standalone;
    if (setup->config.cluster.nodes > COORD_NODES_MAX)
        return too_many_nodes(session);
    code = rundir_open(&session->dir, args->out, args->first);
    if (code < 0)
        return give_up(session, code == RUNDIR_TAKEN ? EXIT_USAGE : EXIT_NOT_STARTED,
                       session->dir.why);
    config = config_print(&setup->config);
    if (!config || rundir_text(&session->dir, "config.json", config) < 0) {
        free(config);
        rundir_discard(&session->dir);
        return give_up(session, EXIT_NOT_STARTED, session->dir.why);
    }
    free(config);
    progress_init(&session->progress, args->json, schedule_steps(&setup->schedule),
                  setup->schedule.epochs);
    progress_say(&session->progress, nn_blas_note());
    return 0;
}

void session_close(struct session *session)
{
    rundir_close(&session->dir);
    setup_close(&session->setup);
}

void session_record(struct session *session, const struct record *record, uint64_t now_ns)
{
    session->progress.retransmitted = session->bytes_retransmitted;
    progress_record(&session->progress, record, now_ns);
    if (record->kind == RECORD_MEMBERS)
        return;
    if (!session->has_step)
        session->begun_ns = now_ns - record->taken_ns;
    session->ended_ns = now_ns;
    if (record->kind == RECORD_STEP) {
        session->has_step = true;
        session->last_step = *record;
        rundir_step(&session->dir, record);
    } else {
        char text[ACTION_TEXT_MAX];

        session->has_eval = true;
        session->last_eval = *record;
        text_format(text, sizeof text, "evaluated epoch=%u step=%llu accuracy=%.6f loss=%.9g",
                    record->epoch, (unsigned long long)record->step,
                    (double)record->correct / (double)record->samples, record->loss);
        rundir_event(&session->dir, text);
    }
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

void session_event(struct session *session, const char *text)
{
    rundir_event(&session->dir, text);
    if (starts(text, "warning") || starts(text, "lost") || starts(text, "left") ||
        starts(text, "refused") || starts(text, "stopping") || starts(text, "process") ||
        starts(text, "waiting") || starts(text, "resumed"))
        progress_say(&session->progress, text);
}

static void fill_summary(const struct session *session, int code, const float *weights,
                         uint64_t steps, struct summary *out)
{
    double seconds = (double)(session->ended_ns - session->begun_ns) * 1e-9;
    const struct record *eval = &session->last_eval;

    *out = (struct summary){
        .outcome = code == EXIT_DONE      ? "done"
                   : code == EXIT_STOPPED ? "stopped"
                                          : "failed",
        .steps = steps,
        .final_loss = session->last_step.loss,
        .has_test = session->has_eval,
        .seconds = seconds,
        .samples_per_s = seconds > 0 ? (double)session->progress.samples / seconds : 0,
        .nodes = session->nodes,
        .bytes_sent = session->bytes_sent,
        .bytes_retransmitted = session->bytes_retransmitted,
        .kernel = nn_blas_kernel(),
    };
    if (session->has_eval) {
        out->test_accuracy = (double)eval->correct / (double)eval->samples;
        out->test_loss = eval->loss;
    }
    nn_weights_hash(weights, nn_model_parameters(session->setup.model), out->hash);
}

static void say_result(const struct session *session, const struct summary *summary)
{
    char text[SUMMARY_MAX];

    if (session->args->json) {
        summary_print(summary, true, text, sizeof text);
        printf("%s\n", text);
        return;
    }
    printf("%s after %llu steps in %.1f s, %.0f samples/s\n", summary->outcome,
           (unsigned long long)summary->steps, summary->seconds, summary->samples_per_s);
    if (summary->has_test)
        printf("test accuracy %.2f %%\n", 100 * summary->test_accuracy);
    printf("weights_xxh3 %s\n%s/model.safetensors\n", summary->hash, session->dir.path);
}

int session_end(struct session *session, int code, const char *why, const float *weights,
                uint64_t steps)
{
    struct rundir *dir = &session->dir;
    struct summary summary;
    char text[SUMMARY_MAX];

    if (session->progress.open_line)
        progress_say(&session->progress, "");
    if (code != EXIT_DONE)
        fprintf(stderr, "gradwire-coordinator: %s\n", why);
    if (code == EXIT_NOT_STARTED || (code == EXIT_STOPPED && steps == 0)) {
        rundir_discard(dir);
        return code;
    }
    fill_summary(session, code, weights, steps, &summary);
    summary_print(&summary, false, text, sizeof text);
    if (!dir->failed && rundir_model(dir, session->setup.model, weights, steps) == 0)
        rundir_text(dir, "summary.json", text);
    rundir_close(dir);
    if (dir->failed) {
        if (strcmp(dir->why, why) != 0)
            fprintf(stderr, "gradwire-coordinator: %s\n", dir->why);
        return code == EXIT_DONE || code == EXIT_STOPPED ? EXIT_OTHER : code;
    }
    say_result(session, &summary);
    return code;
}
