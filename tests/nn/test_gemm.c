/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "nn/src/gemm.h"

#include "suite.h"

#include <assert.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { M_MAX = 64, N_MAX = 130, K_MAX = 1100, SLACK = 16 };

static const struct cpu new_intel = {
    .vendor = "GenuineIntel", .family = 6, .model = 207, .avx2_fma = true, .avx512 = true};
static const struct cpu client_intel = {
    .vendor = "GenuineIntel", .family = 6, .model = 250, .avx2_fma = true};
static const struct cpu new_amd = {
    .vendor = "AuthenticAMD", .family = 27, .model = 1, .avx2_fma = true, .avx512 = true};
static const struct cpu plain_amd = {
    .vendor = "AuthenticAMD", .family = 26, .model = 1, .avx2_fma = true};
static const struct cpu old = {.vendor = "GenuineIntel", .family = 6, .model = 15};

START_TEST(cpu__best_kernel_by_what_it_offers)
{
    ck_assert_str_eq(cpu_kernel(&new_intel), "SkylakeX");
    ck_assert_str_eq(cpu_kernel(&client_intel), "Haswell");
    ck_assert_str_eq(cpu_kernel(&new_amd), "SkylakeX");
    ck_assert_str_eq(cpu_kernel(&plain_amd), "Zen");
    ck_assert_ptr_null(cpu_kernel(&old));
}
END_TEST

START_TEST(cpu__class_orders_kernels)
{
    ck_assert_int_eq(cpu_kernel_class("skylakex"), CPU_AVX512);
    ck_assert_int_eq(cpu_kernel_class("HASWELL"), CPU_AVX2);
    ck_assert_int_eq(cpu_kernel_class("Zen"), CPU_AVX2);
    ck_assert_int_eq(cpu_kernel_class("Prescott"), CPU_OLD);
    ck_assert_int_eq(cpu_kernel_class("Ze"), CPU_OLD);
    ck_assert_int_eq(cpu_kernel_class("Zenn"), CPU_OLD);
    ck_assert_int_eq(cpu_class(&new_intel), CPU_AVX512);
    ck_assert_int_eq(cpu_class(&plain_amd), CPU_AVX2);
    ck_assert_int_eq(cpu_class(&old), CPU_OLD);
}
END_TEST

START_TEST(cpu__reads_this_processor)
{
    struct cpu cpu = cpu_read();

    ck_assert_int_eq(cpu_class(&cpu), cpu_class_here());
#if defined(__x86_64__)
    ck_assert_uint_eq(strlen(cpu.vendor), 12);
    ck_assert_uint_gt(cpu.family, 0);
#endif
}
END_TEST

/* Case B21: what OpenBLAS 0.3.21 chooses on a processor newer than itself is overruled. */
START_TEST(gemm__overrules_a_choice_below_the_processor)
{
    ck_assert_str_eq(gemm_better(&new_intel, "Prescott"), "SkylakeX");
    ck_assert_str_eq(gemm_better(&new_intel, "Haswell"), "SkylakeX");
    ck_assert_str_eq(gemm_better(&client_intel, "Prescott"), "Haswell");
    ck_assert_str_eq(gemm_better(&plain_amd, "Prescott"), "Zen");
    ck_assert_ptr_null(gemm_better(&new_intel, "SkylakeX"));
    ck_assert_ptr_null(gemm_better(&new_intel, "Cooperlake"));
    ck_assert_ptr_null(gemm_better(&plain_amd, "Haswell"));
    ck_assert_ptr_null(gemm_better(&old, "Prescott"));
}
END_TEST

/* The same through the library itself: it is opened for a processor with AVX-512 (no product is
 * computed, so none is needed).  Where OpenBLAS does not choose SkylakeX itself, it is reloaded. */
START_TEST(gemm__reloads_openblas_with_the_right_kernel)
{
    struct nn_error error = {.text = ""};

    unsetenv("OPENBLAS_CORETYPE");
    ck_assert_int_eq(gemm_open(&new_intel, NULL, &error), 0);
    ck_assert_int_eq(cpu_kernel_class(nn_blas_kernel()), CPU_AVX512);
    ck_assert_ptr_null(strchr(nn_blas_note(), '\n'));
    ck_assert_ptr_nonnull(strstr(nn_blas_note(), nn_blas_kernel()));
    if (strstr(nn_blas_note(), "chosen_by=openblas") == NULL) {
        ck_assert_str_eq(nn_blas_kernel(), "SkylakeX");
        ck_assert_ptr_nonnull(strstr(nn_blas_note(), "instead_of="));
        ck_assert_ptr_nonnull(strstr(nn_blas_note(), "family 6 model 207"));
    }
    ck_assert_ptr_null(getenv("OPENBLAS_CORETYPE"));
}
END_TEST

START_TEST(gemm__chosen_here_is_no_slower_than_the_processor)
{
    struct cpu cpu = cpu_read();
    struct nn_error error = {.text = ""};

    unsetenv("OPENBLAS_CORETYPE");
    ck_assert_msg(nn_blas_open(NULL, &error) == 0, "%s", error.text);
    ck_assert_int_ge(cpu_kernel_class(nn_blas_kernel()), cpu_class(&cpu));
    ck_assert_str_ne(nn_blas_note(), "");
}
END_TEST

START_TEST(gemm__the_users_variable_wins)
{
    struct nn_error error = {.text = ""};

    setenv("OPENBLAS_CORETYPE", "nehalem", 1);
    ck_assert_msg(nn_blas_open(NULL, &error) == 0, "%s", error.text);
    ck_assert_str_eq(nn_blas_kernel(), "Nehalem");
    ck_assert_ptr_nonnull(strstr(nn_blas_note(), "chosen_by=OPENBLAS_CORETYPE"));
    ck_assert_str_eq(getenv("OPENBLAS_CORETYPE"), "nehalem");
}
END_TEST

START_TEST(gemm__the_run_names_the_kernel)
{
    struct nn_error error = {.text = ""};

    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    ck_assert_msg(nn_blas_open("Nehalem", &error) == 0, "%s", error.text);
    ck_assert_str_eq(nn_blas_kernel(), "Nehalem");
    ck_assert_str_eq(getenv("OPENBLAS_CORETYPE"), "Prescott");
    ck_assert_int_eq(nn_blas_open(NULL, &error), 0);
    ck_assert_int_eq(nn_blas_open("NEHALEM", &error), 0);
    ck_assert_int_eq(nn_blas_open("Prescott", &error), NN_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "already runs its kernel Nehalem"));
}
END_TEST

START_TEST(gemm__refuses_kernels_that_cannot_run)
{
    struct nn_error error = {.text = ""};

    unsetenv("OPENBLAS_CORETYPE");
    ck_assert_int_eq(nn_blas_open("NoSuchKernel", &error), NN_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "NoSuchKernel"));
    ck_assert_int_eq(gemm_open(&plain_amd, "SkylakeX", &error), NN_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "it can run Zen"));
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    ck_assert_int_eq(gemm_open(&old, NULL, &error), NN_EINVAL);
    ck_assert_ptr_nonnull(strstr(error.text, "OPENBLAS_CORETYPE"));
    unsetenv("OPENBLAS_CORETYPE");
    ck_assert_int_eq(nn_blas_open(NULL, &error), 0); /* nothing of the refused ones is left */
}
END_TEST

static void fill(float *out, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t words[4];
        nn_philox(seed, i, 0, words);
        out[i] = (float)(int32_t)words[0] * 0x1p-31f;
    }
}

static void open_here(void)
{
    struct nn_error error = {.text = ""};

    ck_assert_msg(nn_blas_open(NULL, &error) == 0, "%s", error.text);
}

static void compare(const struct gemm *s, const float *a, const float *b, const float *c)
{
    for (size_t i = 0; i < s->m; i++) {
        for (size_t j = 0; j < s->n; j++) {
            double sum = 0.0;
            for (size_t l = 0; l < s->k; l++) {
                float left = s->transpose_a ? a[l * s->m + i] : a[i * s->k + l];
                float right = s->transpose_b ? b[j * s->k + l] : b[l * s->n + j];
                sum += (double)left * (double)right;
            }
            ck_assert_double_eq_tol((double)c[i * s->n + j], sum, 2e-5);
        }
    }
}

START_TEST(gemm__every_form_and_odd_shape)
{
    static const size_t shapes[][3] = {{1, 1, 1},   {1, 10, 7},   {3, 5, 2},     {7, 1, 33},
                                       {64, 10, 3}, {33, 61, 65}, {64, 130, 40}, {5, 13, 1100}};
    static float a[M_MAX * K_MAX], b[N_MAX * K_MAX], c[M_MAX * N_MAX];

    open_here();
    fill(a, sizeof a / sizeof a[0], 1);
    fill(b, sizeof b / sizeof b[0], 2);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int form = 0; form < 4; form++) {
            const struct gemm shape = {.m = shapes[i][0],
                                       .n = shapes[i][1],
                                       .k = shapes[i][2],
                                       .transpose_a = (form & 1) != 0,
                                       .transpose_b = (form & 2) != 0};
            fill(c, sizeof c / sizeof c[0], 3); /* what was there must not matter */
            gemm(&shape, a, b, c);
            compare(&shape, a, b, c);
        }
    }
}
END_TEST

/* One product with its operands at `offset` floats behind a cache line. */
struct job {
    int form;
    size_t offset;
    uint64_t hash;
};

static void *work(void *arg)
{
    struct job *job = arg;
    const struct gemm shape = {.m = 33,
                               .n = 129,
                               .k = 800,
                               .transpose_a = (job->form & 1) != 0,
                               .transpose_b = (job->form & 2) != 0};
    float *a = nn_floats(33 * 800 + SLACK);
    float *b = nn_floats(129 * 800 + SLACK);
    float *c = nn_floats(33 * 129 + SLACK);

    nn_thread_init();
    fill(a + job->offset, 33 * 800, 1);
    fill(b + job->offset, 129 * 800, 2);
    for (int repeat = 0; repeat < 20; repeat++) {
        gemm(&shape, a + job->offset, b + job->offset, c + job->offset);
        uint64_t hash = nn_hash64(c + job->offset, (size_t)33 * 129 * sizeof *c);
        assert(repeat == 0 || hash == job->hash);
        job->hash = hash;
    }
    nn_floats_free(a);
    nn_floats_free(b);
    nn_floats_free(c);
    return NULL;
}

START_TEST(gemm__bits_do_not_depend_on_place_or_company)
{
    open_here();
    for (int form = 0; form < 4; form++) {
        struct job alone = {.form = form, .offset = 0};
        work(&alone);
        for (size_t offset = 1; offset < SLACK; offset += 2) {
            struct job moved = {.form = form, .offset = offset};
            work(&moved);
            ck_assert_uint_eq(moved.hash, alone.hash);
        }
        struct job pair[2] = {{.form = form, .offset = 0}, {.form = form, .offset = 3}};
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &pair[i]), 0);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
            ck_assert_uint_eq(pair[i].hash, alone.hash);
        }
    }
}
END_TEST

static size_t count_threads(void)
{
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");

    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* Each product is its caller's thread alone, whatever the environment asks for. */
START_TEST(gemm__starts_no_thread)
{
    static float a[600 * 600], b[600 * 600], c[600 * 600];
    size_t before = count_threads(); /* a sanitizer may have one of its own */

    setenv("OPENBLAS_NUM_THREADS", "2", 1);
    setenv("OMP_NUM_THREADS", "2", 1);
    open_here();
    nn_matmul(600, 600, 600, a, b, c);
    ck_assert_uint_eq(count_threads(), before);
}
END_TEST

/* Denormals are zero on a thread that computes, in operands and results. */
START_TEST(thread__flushes_denormals)
{
    volatile float smallest = 1.17549435e-38f;
    volatile float denormal = 1e-40f;
    volatile float half = 0.5f;

    nn_thread_init();
#if defined(__x86_64__)
    ck_assert(smallest * half == 0.0f);
    ck_assert(denormal * 1e30f == 0.0f);
#endif
    ck_assert(smallest * 2.0f > 0.0f);
}
END_TEST

START_TEST(matmul__is_the_plain_product)
{
    static float a[9 * 31], b[31 * 17], c[9 * 17];

    open_here();
    fill(a, 9 * 31, 1);
    fill(b, 31 * 17, 2);
    nn_matmul(9, 17, 31, a, b, c);
    compare(&(struct gemm){.m = 9, .n = 17, .k = 31}, a, b, c);
}
END_TEST

/* In double, rounded once: for sums and differences that is what floats alone would give. */
START_TEST(combine__adds_subtracts_and_averages)
{
    static float a[1000], b[1000], c[1000];
    const struct nn_combination add = {.count = 1000, .x = 1, .y = 1};
    const struct nn_combination subtract = {.count = 1000, .x = 1, .y = -1};
    const struct nn_combination mean = {.count = 999, .x = 0.25, .y = 0.75};

    fill(a, 1000, 3);
    fill(b, 1000, 4);
    nn_combine(&add, a, b, c);
    for (size_t i = 0; i < 1000; i++)
        ck_assert(c[i] >= a[i] + b[i] && c[i] <= a[i] + b[i]);
    nn_combine(&subtract, a, b, c);
    for (size_t i = 0; i < 1000; i++)
        ck_assert(c[i] >= a[i] - b[i] && c[i] <= a[i] - b[i]);
    c[999] = 42;
    nn_combine(&mean, a, b, c);
    for (size_t i = 0; i < 999; i++)
        ck_assert_double_eq_tol((double)c[i], 0.25 * (double)a[i] + 0.75 * (double)b[i], 1e-6);
    ck_assert_double_eq((double)c[999], 42);
}
END_TEST

START_TEST(product__fingerprint_is_a_constant_of_the_kernel)
{
    uint64_t first = 0, second = 1;

    open_here();
    nn_thread_init();
    ck_assert_int_eq(nn_product_fingerprint(&first), 0);
    ck_assert_int_eq(nn_product_fingerprint(&second), 0);
    ck_assert_uint_eq(first, second);
    ck_assert_uint_ne(first, 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        cpu__best_kernel_by_what_it_offers,
        cpu__class_orders_kernels,
        cpu__reads_this_processor,
        gemm__overrules_a_choice_below_the_processor,
        gemm__reloads_openblas_with_the_right_kernel,
        gemm__chosen_here_is_no_slower_than_the_processor,
        gemm__the_users_variable_wins,
        gemm__the_run_names_the_kernel,
        gemm__refuses_kernels_that_cannot_run,
        gemm__every_form_and_odd_shape,
        gemm__bits_do_not_depend_on_place_or_company,
        gemm__starts_no_thread,
        thread__flushes_denormals,
        matmul__is_the_plain_product,
        combine__adds_subtracts_and_averages,
        product__fingerprint_is_a_constant_of_the_kernel,
    };

    return RUN_SUITE("gemm", tests);
}
