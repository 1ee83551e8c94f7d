/* SPDX-License-Identifier: MIT */
#include <coordinator/matmul.h>

#include <cluster/text.h>
#include <node/compute.h>

#include <time.h>

struct local {
    struct matmul *matmul;
    struct crew *crew;
    uint64_t next; /* block; under the crew's lock */
};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void compute_one(const struct matmul *matmul, uint64_t idx)
{
    const struct body_product *shape = &matmul->shape;
    struct block block = blocks_at(shape, idx);
    const float *a = matmul->a.data + block.first * shape->inner;
    float *c = matmul->c.data + block.first * shape->cols;

    if (shape->op == BODY_MULTIPLY) {
        nn_matmul(block.rows, shape->cols, shape->inner, a, matmul->b.data, c);
    } else {
        const struct nn_combination combination = {
            .count = block.rows * shape->cols, .x = shape->x, .y = shape->y};

        nn_combine(&combination, a, matmul->b.data + block.first * shape->cols, c);
    }
}

static void work(void *arg, uint32_t hand)
{
    struct local *local = arg;
    uint64_t blocks = blocks_count(&local->matmul->shape), idx;

    (void)hand;
    for (;;) {
        crew_lock(local->crew);
        idx = local->next++;
        crew_unlock(local->crew);
        if (idx >= blocks)
            return;
        compute_one(local->matmul, idx);
    }
}

int matmul_local(struct matmul *matmul, struct matmul_result *result, char why[MATMUL_WHY_MAX])
{
    struct local local = {.matmul = matmul};
    double begun;

    if (crew_open(&local.crew, matmul->threads, nn_thread_init) < 0) {
        text_format(why, MATMUL_WHY_MAX, "cannot start %u threads", matmul->threads);
        return EXIT_OTHER;
    }
    begun = now_s();
    crew_run(local.crew, work, &local);
    *result =
        (struct matmul_result){.seconds = now_s() - begun, .blocks = blocks_count(&matmul->shape)};
    crew_free(local.crew);
    return EXIT_DONE;
}
