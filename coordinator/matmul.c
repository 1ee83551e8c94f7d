/* SPDX-License-Identifier: MIT */
#include <coordinator/matmul.h>

#include <cluster/text.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OP_MUL, OP_ADD, OP_SUB, OP_AVG };

enum { PATH_TEXT_MAX = 4096 + 32, CORNER_ROWS = 256, CORNER = 2048, CORNER_ELEMENTS = 1 << 20 };

/* "X,Y": numbers whose sum is not 0. */
static int read_weights(const char *text, double *x, double *y)
{
    char *end;

    *x = strtod(text, &end);
    if (end == text || *end != ',')
        return -1;
    text = end + 1;
    *y = strtod(text, &end);
    if (end == text || *end != '\0')
        return -1;
    return isfinite(*x) && isfinite(*y) && fabs(*x + *y) > 0 && isfinite(*x + *y) ? 0 : -1;
}

static int read_op(struct matmul *matmul, char why[MATMUL_WHY_MAX])
{
    static const char *const names[] = {"mul", "add", "sub", "avg"};
    const struct args *args = matmul->args;
    struct body_product *shape = &matmul->shape;
    size_t op = OP_MUL;
    double x = 1, y = 1;

    while (args->op && op <= OP_AVG && strcmp(args->op, names[op]) != 0)
        op++;
    if (op > OP_AVG) {
        text_format(why, MATMUL_WHY_MAX, "--op %s: not one of mul, add, sub, avg", args->op);
        return EXIT_USAGE;
    }
    if (args->weights && op != OP_AVG) {
        text_format(why, MATMUL_WHY_MAX, "--weights: for --op avg only");
        return EXIT_USAGE;
    }
    if (args->weights && read_weights(args->weights, &x, &y) < 0) {
        text_format(why, MATMUL_WHY_MAX, "--weights %s: not two numbers X,Y whose sum is not 0",
                    args->weights);
        return EXIT_USAGE;
    }
    shape->op = op == OP_MUL ? BODY_MULTIPLY : BODY_COMBINE;
    shape->x = op == OP_AVG ? x / (x + y) : 1;
    shape->y = op == OP_AVG ? y / (x + y) : op == OP_SUB ? -1 : 1;
    return 0;
}

/* Found out now, not after the work: by a file of another name in its directory. */
static int check_output(const char *path, char why[MATMUL_WHY_MAX])
{
    const char *slash = strrchr(path, '/');
    char probe[PATH_TEXT_MAX];
    struct stat info;
    int fd;

    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        text_format(why, MATMUL_WHY_MAX, "-o %s: a directory", path);
        return EXIT_USAGE;
    }
    text_format(probe, sizeof probe, "%.*s.gradwire-XXXXXX", slash ? (int)(slash + 1 - path) : 0,
                path);
    fd = mkstemp(probe);
    if (fd < 0) {
        text_format(why, MATMUL_WHY_MAX, "-o %s: cannot be written: %s", path, strerror(errno));
        return EXIT_NOT_STARTED;
    }
    close(fd);
    unlink(probe);
    return 0;
}

static int read_one(struct nn_matrix *out, const char *path, char why[MATMUL_WHY_MAX])
{
    struct nn_error error = {.key = ""};
    int err = nn_npy_read(out, path, &error);

    if (err == 0)
        return 0;
    text_format(why, MATMUL_WHY_MAX, "%s", error.text);
    return err == NN_ENOMEM ? EXIT_OTHER : EXIT_USAGE;
}

static int fit(struct matmul *matmul, char why[MATMUL_WHY_MAX])
{
    const struct nn_matrix *a = &matmul->a, *b = &matmul->b;
    struct body_product *shape = &matmul->shape;
    bool multiplies = shape->op == BODY_MULTIPLY;

    if (multiplies ? a->cols != b->rows : a->rows != b->rows || a->cols != b->cols) {
        text_format(why, MATMUL_WHY_MAX, "shapes do not match: %s is %zu x %zu, %s is %zu x %zu%s",
                    matmul->args->first, a->rows, a->cols, matmul->args->second, b->rows, b->cols,
                    multiplies ? "; mul needs as many rows of B as columns of A" : "");
        return EXIT_USAGE;
    }
    matmul->c = (struct nn_matrix){.rows = a->rows, .cols = b->cols};
    shape->depth = 1;
    shape->rows = multiplies ? a->rows : a->rows * a->cols;
    shape->inner = multiplies ? a->cols : 1;
    shape->cols = multiplies ? b->cols : 1;
    if (!blocks_plan(shape)) {
        text_format(why, MATMUL_WHY_MAX,
                    "%zu x %zu times %zu x %zu is too large: a row of A (%.0f bytes) and of C "
                    "(%.0f bytes) must fit a message (4 GiB), and a matrix the memory",
                    a->rows, a->cols, b->rows, b->cols, 4.0 * (double)a->cols,
                    4.0 * (double)b->cols);
        return EXIT_USAGE;
    }
    matmul->flops = (multiplies ? 2.0 * (double)a->cols : 1.0) * (double)a->rows * (double)b->cols;
    return 0;
}

static int take_result(struct matmul *matmul, char why[MATMUL_WHY_MAX])
{
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double bytes = sizeof(float) * (double)matmul->c.rows * (double)matmul->c.cols;

    /* The kernel promises more than there is, and kills us later. */
    if (bytes <= machine)
        matmul->c.data = nn_floats(matmul->c.rows * matmul->c.cols);
    if (matmul->c.data)
        return 0;
    text_format(why, MATMUL_WHY_MAX, "not enough memory for C: %zu x %zu floats, %.0f bytes",
                matmul->c.rows, matmul->c.cols, bytes);
    return EXIT_OTHER;
}

int matmul_open(struct matmul *matmul, const struct args *args, char why[MATMUL_WHY_MAX])
{
    struct nn_error error = {.key = ""};
    int code;

    matmul->args = args;
    code = read_op(matmul, why);
    if (code == 0)
        code = read_one(&matmul->a, args->first, why);
    if (code == 0)
        code = read_one(&matmul->b, args->second, why);
    if (code == 0)
        code = fit(matmul, why);
    if (code == 0)
        code = check_output(args->out, why);
    if (code != 0)
        return code;
    if (nn_blas_open(NULL, &error) < 0) {
        text_format(why, MATMUL_WHY_MAX, "%s", error.text);
        return EXIT_NOT_STARTED;
    }
    nn_thread_init();
    progress_init(&matmul->progress, args->json, 0, 0);
    progress_say(&matmul->progress, nn_blas_note());
    text_format(matmul->shape.kernel, sizeof matmul->shape.kernel, "%s", nn_blas_kernel());
    return take_result(matmul, why);
}

void matmul_close(struct matmul *matmul)
{
    nn_matrix_free(&matmul->a);
    nn_matrix_free(&matmul->b);
    nn_matrix_free(&matmul->c);
}

/* ---------- was it worth it? ---------- */

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static size_t at_most(size_t value, size_t max)
{
    return value < max ? value : max;
}

/* Operations a second of one thread here, from a corner of the problem: the best of three. */
static double local_rate(const struct matmul *matmul)
{
    const struct body_product *shape = &matmul->shape;
    size_t m = at_most(shape->rows, CORNER_ROWS), n = at_most(shape->cols, CORNER);
    size_t k = at_most(shape->inner, CORNER), elements = at_most(shape->rows, CORNER_ELEMENTS);
    float *c = nn_floats(shape->op == BODY_MULTIPLY ? m * n : elements);
    double best = 0;

    for (int i = 0; c && i < 3; i++) {
        double begun = now_s(), taken, flops = 2.0 * (double)(m * n) * (double)k;

        if (shape->op == BODY_MULTIPLY) {
            nn_matmul(m, n, k, matmul->a.data, matmul->b.data, c);
        } else {
            const struct nn_combination combination = {
                .count = elements, .x = shape->x, .y = shape->y};

            nn_combine(&combination, matmul->a.data, matmul->b.data, c);
            flops = (double)elements;
        }
        taken = now_s() - begun;
        if (taken > 0 && flops / taken > best)
            best = flops / taken;
    }
    nn_floats_free(c);
    return best;
}

static void advise(struct matmul *matmul, const struct matmul_result *result)
{
    const struct args *args = matmul->args;
    bool here = args->where == WHERE_STANDALONE;
    double rate = local_rate(matmul);
    double cores = fmin((double)matmul->threads * (here ? result->nodes : 1),
                        (double)sysconf(_SC_NPROCESSORS_ONLN));
    double local, link;
    char text[512];

    if (rate <= 0 || result->nodes == 0)
        return;
    local = matmul->flops / (rate * cores);
    if (local >= result->seconds)
        return;
    text_format(text, sizeof text,
                "here alone it would have taken about %.4g s (%.1f GFLOP/s on %.0f threads): %s"
                "moving %.1f MB cost more than it saved (--standalone 0 computes here)",
                local, rate * cores * 1e-9, cores,
                here ? "the nodes have no cores but this machine's, and " : "",
                (double)result->bytes * 1e-6);
    progress_say(&matmul->progress, text);
    if (here || matmul->shape.op != BODY_MULTIPLY || result->nodes < 2)
        return;
    /* Of n x n: 4 (N + 2) n^2 bytes over the link against 2 n^3 (1 - 1/N) operations saved. */
    link = (double)result->bytes / result->seconds;
    text_format(
        text, sizeof text,
        "on this network (%.0f MB/s) %u such nodes pay from about n = %.0f for n x n matrices",
        link * 1e-6, result->nodes,
        2.0 * (result->nodes + 2.0) * rate * cores / link / (1.0 - 1.0 / (double)result->nodes));
    progress_say(&matmul->progress, text);
}

static void say(const struct matmul *matmul, const struct matmul_result *result)
{
    const struct args *args = matmul->args;
    const struct nn_matrix *a = &matmul->a, *b = &matmul->b, *c = &matmul->c;
    double gflops = result->seconds > 0 ? matmul->flops / result->seconds * 1e-9 : 0;
    const char *op = args->op ? args->op : "mul";

    if (args->json) {
        printf("{\"op\": \"%s\", \"rows\": %zu, \"inner\": %zu, \"cols\": %zu, \"seconds\": %.6f, "
               "\"gflops\": %.3f, \"bytes_moved\": %" PRIu64 ", \"nodes\": %u, \"blocks\": %" PRIu64
               ", \"blocks_again\": %" PRIu64 ", \"nodes_wrong\": %u}\n",
               op, c->rows, a->cols, c->cols, result->seconds, gflops, result->bytes, result->nodes,
               result->blocks, result->again, result->wrong);
        return;
    }
    printf("%s %zu x %zu: %s of %zu x %zu and %zu x %zu in %.4g s, %.2f GFLOP/s, %.1f MB moved, ",
           args->out, c->rows, c->cols, op, a->rows, a->cols, b->rows, b->cols, result->seconds,
           gflops, (double)result->bytes * 1e-6);
    if (result->nodes > 0)
        printf("%u nodes, %" PRIu64 " blocks\n", result->nodes, result->blocks);
    else
        printf("in this process, %" PRIu64 " blocks\n", result->blocks);
}

int matmul_end(struct matmul *matmul, const struct matmul_result *result, char why[MATMUL_WHY_MAX])
{
    struct nn_error error = {.key = ""};

    if (nn_npy_write(matmul->args->out, &matmul->c, &error) < 0) {
        text_format(why, MATMUL_WHY_MAX, "%s", error.text);
        return EXIT_OTHER;
    }
    say(matmul, result);
    advise(matmul, result);
    return EXIT_DONE;
}
