/* SPDX-License-Identifier: MIT */
#include <coordinator/product_check.h>

#include <nn/nn.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct checker {
    struct checker_config config;
    double *r;      /* (cols): 1 or -1 */
    double *br;     /* (inner): B r */
    double *abs_br; /* (inner): the same of |B|, for how far rounding may go */
    bool primed;
    float *again; /* (block_rows, cols) */
};

int checker_open(struct checker **out, const struct checker_config *config)
{
    const struct body_product *shape = config->shape;
    struct checker *checker = calloc(1, sizeof *checker);

    if (!checker)
        return NN_ENOMEM;
    checker->config = *config;
    checker->r = calloc(shape->cols, sizeof *checker->r);
    checker->br = calloc(shape->inner, sizeof *checker->br);
    checker->abs_br = calloc(shape->inner, sizeof *checker->abs_br);
    checker->again = nn_floats(shape->block_rows * shape->cols);
    if (!checker->r || !checker->br || !checker->abs_br || !checker->again) {
        checker_free(checker);
        return NN_ENOMEM;
    }
    *out = checker;
    return 0;
}

void checker_free(struct checker *checker)
{
    if (!checker)
        return;
    free(checker->r);
    free(checker->br);
    free(checker->abs_br);
    nn_floats_free(checker->again);
    free(checker);
}

static void prime(struct checker *checker)
{
    const struct body_product *shape = checker->config.shape;

    for (uint64_t i = 0; i < shape->cols; i++) {
        uint32_t words[4];

        nn_philox(checker->config.seed, 0, i, words);
        checker->r[i] = words[0] & 1 ? 1 : -1;
    }
    for (uint64_t k = 0; k < shape->inner; k++) {
        const float *row = checker->config.b + k * shape->cols;

        for (uint64_t i = 0; i < shape->cols; i++) {
            checker->br[k] += (double)row[i] * checker->r[i];
            checker->abs_br[k] += fabs((double)row[i]);
        }
    }
    checker->primed = true;
}

/* Sums of f32 products stray by about the square root of their number, seldom by more than a few
 * times that; a false alarm costs one block's time. */
static bool row_fits(const struct checker *checker, const float *a, const float *c)
{
    const struct body_product *shape = checker->config.shape;
    double want = 0, have = 0, size = 0, allowed;

    for (uint64_t k = 0; k < shape->inner; k++) {
        want += (double)a[k] * checker->br[k];
        size += fabs((double)a[k]) * checker->abs_br[k];
    }
    for (uint64_t i = 0; i < shape->cols; i++)
        have += (double)c[i] * checker->r[i];
    allowed = size * ldexp(1, -24) * (4 + sqrt((double)shape->inner));
    return fabs(have - want) <= allowed; /* false for NaN, too: then it is computed anew */
}

static void compute(const struct checker *checker, const struct block *block)
{
    const struct body_product *shape = checker->config.shape;
    const float *a = checker->config.a + block->first * shape->inner;

    if (shape->op == BODY_MULTIPLY) {
        nn_matmul(block->rows, shape->cols, shape->inner, a, checker->config.b, checker->again);
    } else {
        const struct nn_combination combination = {
            .count = block->rows * shape->cols, .x = shape->x, .y = shape->y};

        nn_combine(&combination, a, checker->config.b + block->first * shape->cols, checker->again);
    }
}

void check_run(struct checker *checker, struct check_job *job)
{
    const struct body_product *shape = checker->config.shape;
    size_t bytes = job->block.rows * shape->cols * sizeof(float);
    bool fits = shape->op == BODY_MULTIPLY; /* to combine again costs as little as a test */

    nn_thread_init();
    if (!checker->primed && fits)
        prime(checker);
    for (uint64_t i = 0; i < job->block.rows && fits; i++)
        fits = row_fits(checker, checker->config.a + (job->block.first + i) * shape->inner,
                        job->c + i * shape->cols);
    job->right = true;
    if (fits)
        return;
    compute(checker, &job->block);
    job->right = memcmp(checker->again, job->c, bytes) == 0;
    if (!job->right)
        memcpy(job->c, checker->again, bytes);
}
