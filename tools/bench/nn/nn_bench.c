/* SPDX-License-Identifier: MIT */
/*
 * nn-bench: how fast one thread trains and multiplies, as one line of JSON.
 *
 *   nn-bench train --model mlp512|udp200|wide2048 --batch 64 [--opt sgd|momentum|adam]
 *                  [--secs 1] [--data DIR]
 *   nn-bench gemm --shape MxNxK [--secs 1]
 *
 * A step is what a node does in one: order and gather the samples, gradient of the batch as one
 * leaf, optimiser.  "sps" is samples a second by the clock on the wall, "cpu_sps" by the time the
 * processor gave us: on a busy machine the second is the one to compare.
 */
#define _POSIX_C_SOURCE 200809L

#include "nn/nn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, CLASSES = 10 };

static const double warm_up_s = 0.3;

struct options {
    const char *task, *model, *opt, *data, *shape;
    long batch, threads;
    double secs;
};

static const struct {
    const char *name, *json;
} models[] = {
    {"mlp512", "{\"input\":[784],\"layers\":[{\"dense\":512},\"relu\",{\"dense\":512},\"relu\","
               "{\"dense\":10}],\"loss\":\"cross_entropy\"}"},
    {"udp200", "{\"input\":[784],\"layers\":[{\"dense\":200},\"sigmoid\",{\"dense\":200},"
               "\"sigmoid\",{\"dense\":200},\"sigmoid\",{\"dense\":10}],"
               "\"loss\":\"cross_entropy\"}"},
    {"wide2048", "{\"input\":[784],\"layers\":[{\"dense\":2048},\"relu\",{\"dense\":2048},"
                 "\"relu\",{\"dense\":10}],\"loss\":\"cross_entropy\"}"},
};

static const struct {
    const char *name;
    struct nn_optim optim;
} optims[] = {
    {"sgd", {.kind = NN_SGD, .lr = 0.05}},
    {"momentum", {.kind = NN_MOMENTUM, .lr = 0.05, .momentum = 0.9}},
    {"adam", {.kind = NN_ADAM, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
};

static double read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int fail(const char *what, const struct nn_error *error)
{
    fprintf(stderr, "nn-bench: %s%s%s\n", what, error == NULL ? "" : ": ",
            error == NULL ? "" : error->text);
    return EXIT_FAILED;
}

/* What one training loop works on; zeroed, then filled by bench_open. */
struct bench {
    struct nn_model *model;
    struct nn_dataset *data;
    struct nn_scratch *scratch;
    struct nn_optim optim;
    size_t batch, parameters;
    float *weights, *gradient, *state, *x;
    uint32_t *labels;
    uint64_t *ids;
    uint64_t step;
    double first_loss, last_loss; /* a sample */
};

static int read_data(struct bench *bench, const char *dir)
{
    struct nn_error error = {.text = ""};
    char images[NN_PATH_MAX], labels[NN_PATH_MAX];

    for (int zipped = 0; zipped < 2; zipped++) {
        const char *suffix = zipped ? ".gz" : "";
        snprintf(images, sizeof images, "%s/train-images-idx3-ubyte%s", dir, suffix);
        snprintf(labels, sizeof labels, "%s/train-labels-idx1-ubyte%s", dir, suffix);
        if (access(images, R_OK) == 0)
            break;
    }
    if (nn_dataset_read_idx(&bench->data, images, labels, 0, CLASSES, &error) < 0)
        return fail("data", &error);
    return 0;
}

static int bench_open(struct bench *bench, const struct options *options)
{
    struct nn_error error = {.text = ""};
    const char *json = NULL;
    bool has_optim = false;

    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        if (strcmp(options->model, models[i].name) == 0)
            json = models[i].json;
    }
    for (size_t i = 0; i < sizeof optims / sizeof optims[0]; i++) {
        if (strcmp(options->opt, optims[i].name) == 0) {
            bench->optim = optims[i].optim;
            has_optim = true;
        }
    }
    if (json == NULL || !has_optim || options->batch < 1) {
        fail("no such model, optimiser or batch", NULL);
        return EXIT_USAGE;
    }
    if (nn_model_open(&bench->model, json, strlen(json), &error) < 0)
        return fail("model", &error);
    bench->batch = (size_t)options->batch;
    bench->parameters = nn_model_parameters(bench->model);
    bench->weights = nn_floats(bench->parameters);
    bench->gradient = nn_floats(bench->parameters);
    bench->state = nn_floats(bench->parameters * nn_optim_vectors(&bench->optim));
    bench->x = nn_floats(bench->batch * nn_model_inputs(bench->model));
    bench->labels = calloc(bench->batch, sizeof *bench->labels);
    bench->ids = calloc(bench->batch, sizeof *bench->ids);
    if (bench->weights == NULL || bench->gradient == NULL || bench->state == NULL ||
        bench->x == NULL || bench->labels == NULL || bench->ids == NULL ||
        nn_scratch_open(&bench->scratch, bench->model, bench->batch) < 0)
        return fail("no memory", NULL);
    nn_model_init(bench->model, 1, bench->weights);
    return read_data(bench, options->data);
}

static void bench_close(struct bench *bench)
{
    nn_scratch_free(bench->scratch);
    nn_dataset_free(bench->data);
    nn_model_free(bench->model);
    nn_floats_free(bench->weights);
    nn_floats_free(bench->gradient);
    nn_floats_free(bench->state);
    nn_floats_free(bench->x);
    free(bench->labels);
    free(bench->ids);
}

static void bench_step(struct bench *bench)
{
    static const struct nn_normalize normalize = {.scale = 1.0 / 255.0, .deviation = 1.0};
    uint64_t samples = nn_dataset_count(bench->data);
    uint64_t steps = samples / bench->batch;
    uint64_t epoch = bench->step / steps;
    uint64_t cursor = bench->step % steps * bench->batch;
    struct nn_result result;

    for (size_t i = 0; i < bench->batch; i++)
        bench->ids[i] = nn_order(1, epoch, samples, cursor + i);
    if (nn_dataset_gather(bench->data, &normalize, bench->ids, bench->batch, bench->x,
                          bench->labels) < 0)
        abort();
    const struct nn_batch batch = {.x = bench->x, .labels = bench->labels, .count = bench->batch};
    nn_gradient(bench->scratch, bench->weights, &batch, bench->gradient, &result);
    bench->step++;
    nn_optim_apply(&bench->optim, bench->step, bench->batch, bench->parameters, bench->weights,
                   bench->gradient, bench->state);
    bench->last_loss = result.loss / (double)bench->batch;
    if (bench->step == 1)
        bench->first_loss = bench->last_loss;
}

static void report_train(const struct bench *bench, const struct options *options, double wall,
                         double cpu, double samples)
{
    double gflops = 1e-9 * nn_model_flops(bench->model) * samples / cpu;

    printf("{\"kind\": \"train\", \"model\": \"%s\", \"batch\": %zu, \"opt\": \"%s\", "
           "\"threads\": 1, \"sps\": %.0f, \"cpu_sps\": %.0f, \"gflops\": %.1f, "
           "\"first_loss\": %.4f, \"last_loss\": %.4f, \"kernel\": \"%s\"}\n",
           options->model, bench->batch, options->opt, samples / wall, samples / cpu, gflops,
           bench->first_loss, bench->last_loss, nn_blas_kernel());
}

static int run_train(const struct options *options)
{
    struct bench bench = {.model = NULL};
    int status = bench_open(&bench, options);

    if (status == 0) {
        double start = read_clock(CLOCK_MONOTONIC);
        while (read_clock(CLOCK_MONOTONIC) - start < warm_up_s || bench.step < 5)
            bench_step(&bench);
        double wall = read_clock(CLOCK_MONOTONIC);
        double cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        uint64_t before = bench.step;
        while (read_clock(CLOCK_MONOTONIC) - wall < options->secs || bench.step - before < 3)
            bench_step(&bench);
        wall = read_clock(CLOCK_MONOTONIC) - wall;
        cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        report_train(&bench, options, wall, cpu, (double)((bench.step - before) * bench.batch));
    }
    bench_close(&bench);
    return status;
}

/* "64x200x784" */
static bool parse_shape(const char *text, size_t shape[3])
{
    for (int i = 0; i < 3; i++) {
        char *end;
        errno = 0;
        unsigned long long size = strtoull(text, &end, 10);
        if (end == text || errno != 0 || size < 1 || size > UINT16_MAX || *end != (i < 2 ? 'x' : 0))
            return false;
        shape[i] = (size_t)size;
        text = end + 1;
    }
    return true;
}

static int run_gemm(const struct options *options)
{
    size_t shape[3];

    if (!parse_shape(options->shape, shape)) {
        fail("--shape wants MxNxK", NULL);
        return EXIT_USAGE;
    }
    const size_t m = shape[0];
    const size_t n = shape[1];
    const size_t k = shape[2];
    float *a = nn_floats(m * k);
    float *b = nn_floats(k * n);
    float *c = nn_floats(m * n);
    if (a == NULL || b == NULL || c == NULL) {
        nn_floats_free(a);
        nn_floats_free(b);
        nn_floats_free(c);
        return fail("no memory", NULL);
    }
    for (size_t i = 0; i < m * k; i++)
        a[i] = (float)(i % 17) - 8.0f;
    for (size_t i = 0; i < k * n; i++)
        b[i] = (float)(i % 13) - 6.0f;
    nn_matmul(m, n, k, a, b, c);
    double wall = read_clock(CLOCK_MONOTONIC);
    double cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    double products = 0.0;
    while (read_clock(CLOCK_MONOTONIC) - wall < options->secs) {
        for (int i = 0; i < 8; i++)
            nn_matmul(m, n, k, a, b, c);
        products += 8.0;
    }
    wall = read_clock(CLOCK_MONOTONIC) - wall;
    cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    double flops = 2e-9 * products * (double)m * (double)n * (double)k;
    printf("{\"kind\": \"gemm\", \"shape\": \"%s\", \"gflops\": %.2f, \"cpu_gflops\": %.2f, "
           "\"kernel\": \"%s\"}\n",
           options->shape, flops / wall, flops / cpu, nn_blas_kernel());
    nn_floats_free(a);
    nn_floats_free(b);
    nn_floats_free(c);
    return 0;
}

/* Options come in pairs.  Those of other benches (--procs, --rank, --addr) are passed over. */
static bool parse(struct options *options, int argc, char **argv)
{
    if (argc < 2 || argc % 2 != 0)
        return false;
    options->task = argv[1];
    for (int i = 2; i < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--model") == 0)
            options->model = value;
        else if (strcmp(argv[i], "--opt") == 0)
            options->opt = value;
        else if (strcmp(argv[i], "--data") == 0)
            options->data = value;
        else if (strcmp(argv[i], "--shape") == 0)
            options->shape = value;
        else if (strcmp(argv[i], "--batch") == 0)
            options->batch = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            options->threads = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--secs") == 0)
            options->secs = strtod(value, NULL);
        else if (strcmp(argv[i], "--procs") != 0 && strcmp(argv[i], "--rank") != 0 &&
                 strcmp(argv[i], "--addr") != 0)
            return false;
    }
    return options->secs > 0.0;
}

int main(int argc, char **argv)
{
    struct options options = {.model = "mlp512",
                              .opt = "sgd",
                              .data = "/usr/share/datasets/fashion-mnist",
                              .shape = "",
                              .batch = 64,
                              .threads = 1,
                              .secs = 1.0};
    struct nn_error error = {.text = ""};

    if (!parse(&options, argc, argv)) {
        fputs("usage: nn-bench train|gemm [--model M] [--batch N] [--opt O] [--secs S] "
              "[--data DIR] [--shape MxNxK]\n",
              stderr);
        return EXIT_USAGE;
    }
    if (options.threads != 1) {
        fail("one thread: a leaf is one thread's work, nodes run leaves side by side", NULL);
        return EXIT_USAGE;
    }
    if (nn_blas_open(NULL, &error) < 0)
        return fail("blas", &error);
    nn_thread_init();
    if (strcmp(options.task, "train") == 0)
        return run_train(&options);
    if (strcmp(options.task, "gemm") == 0)
        return run_gemm(&options);
    fail("the task is train or gemm", NULL);
    return EXIT_USAGE;
}
