/* SPDX-License-Identifier: MIT */
/* gradwire-coordinator: what each command does, in order. */
#include <cluster/host.h>
#include <cluster/text.h>
#include <coordinator/args.h>
#include <coordinator/local.h>
#include <coordinator/matmul.h>
#include <coordinator/remote.h>
#include <coordinator/session.h>
#include <coordinator/standalone.h>
#include <coordinator/verify.h>

#include <sched.h>
#include <stdio.h>

enum { WHY_MAX = 1024 };

static uint32_t threads_for(const struct args *args)
{
    uint32_t nodes = args->where == WHERE_STANDALONE && args->standalone ? args->standalone : 1;
    cpu_set_t cpus;
    uint32_t cores = 1;

    if (args->threads)
        return args->threads;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
        cores = (uint32_t)CPU_COUNT(&cpus);
    return cores / nodes ? cores / nodes : 1;
}

static int say(int code, const char *why)
{
    fprintf(stderr, "gradwire-coordinator: %s\n", why);
    return code;
}

static int train(const struct args *args)
{
    bool in_process = args->where == WHERE_STANDALONE && args->standalone == 0;
    struct standalone nodes = {.count = 0};
    struct remote_config config;
    struct session session;
    char why[WHY_MAX] = "";
    int code = 0;

    if (!in_process)
        code = remote_config(&config, args, why, sizeof why);
    else if (args->impair)
        return say(EXIT_USAGE, "--impair needs nodes: --standalone 0 sends nothing");
    if (code != 0)
        return say(code, why);
    /* The children first, while this process is small. */
    if (!in_process && args->standalone > 0 &&
        standalone_fork(&nodes, args->standalone, threads_for(args), why, sizeof why) < 0)
        code = say(EXIT_NOT_STARTED, why);
    if (code == 0)
        code = session_open(&session, args);
    if (code == 0) {
        code = in_process ? local_train(&session, threads_for(args))
                          : remote_train(&session, &config, &nodes);
        session_close(&session);
    }
    standalone_end(&nodes);
    return code;
}

static int eval_with(const struct args *args, struct setup *setup)
{
    size_t parameters = nn_model_parameters(setup->model);
    float *weights = nn_floats(parameters);
    struct nn_error error = {.key = ""};
    uint64_t correct, samples;
    char number[TEXT_NUMBER_MAX];
    double loss;
    int code = EXIT_DONE;

    if (!setup->test)
        code = say(EXIT_USAGE, "data.test: eval needs test data");
    else if (!weights)
        code = say(EXIT_OTHER, "not enough memory for the weights");
    else if (nn_safetensors_read(args->first, setup->model, weights, &error) < 0)
        code = say(EXIT_USAGE, error.text);
    else if (local_evaluate(setup, weights, threads_for(args), &loss, &correct) < 0)
        code = say(EXIT_OTHER, "not enough memory to evaluate");
    if (code == EXIT_DONE) {
        samples = nn_dataset_count(setup->test);
        printf(args->json ? "{\"test_accuracy\": %.6f, \"test_loss\": %s, \"correct\": %llu, "
                            "\"samples\": %llu}\n"
                          : "test accuracy %.6f  loss %s  (%llu of %llu)\n",
               (double)correct / (double)samples, text_number(loss, 9, number),
               (unsigned long long)correct, (unsigned long long)samples);
    }
    nn_floats_free(weights);
    return code;
}

static int eval(const struct args *args)
{
    struct setup setup;
    int code = setup_open(&setup, args->second, args->sets, args->sets_count);

    code = code != 0 ? say(code, setup.why) : eval_with(args, &setup);
    setup_close(&setup);
    return code;
}

static int matmul(const struct args *args)
{
    bool in_process = args->where == WHERE_STANDALONE && args->standalone == 0;
    struct standalone nodes = {.count = 0};
    struct matmul matmul = {.threads = threads_for(args)};
    struct matmul_result result;
    char why[MATMUL_WHY_MAX] = "";
    int code = 0;

    if (in_process && args->impair)
        return say(EXIT_USAGE, "--impair needs nodes: --standalone 0 sends nothing");
    if (!in_process && args->standalone > 0 &&
        standalone_fork(&nodes, args->standalone, matmul.threads, why, sizeof why) < 0)
        code = EXIT_NOT_STARTED;
    if (code == 0)
        code = matmul_open(&matmul, args, why);
    if (code == 0)
        code = in_process ? matmul_local(&matmul, &result, why)
                          : matmul_remote(&matmul, &nodes, &result, why);
    if (code == 0)
        code = matmul_end(&matmul, &result, why);
    matmul_close(&matmul);
    standalone_end(&nodes);
    return code == 0 ? 0 : say(code, why);
}

int main(int argc, char **argv)
{
    struct args args;
    char why[ARGS_WHY_MAX];

    host_keep_stdio();
    if (args_read(&args, argc, argv, why) < 0)
        return say(EXIT_USAGE, why);
    switch (args.command) {
    case COMMAND_TRAIN:
        return train(&args);
    case COMMAND_EVAL:
        return eval(&args);
    case COMMAND_VERIFY:
        return verify(args.first, args.second);
    case COMMAND_HASH:
        return verify_hash(args.first);
    case COMMAND_MATMUL:
        return matmul(&args);
    case COMMAND_HELP:
        break;
    }
    fputs(args_help(), stdout);
    return EXIT_DONE;
}
