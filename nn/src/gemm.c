/* SPDX-License-Identifier: MIT */
/*
 * DESIGN: OpenBLAS reads its variables in the library's constructor, before any code of ours could
 * set them if we were linked with it.  So it is loaded by hand: once as it comes, to learn what it
 * would choose on its own; and if the processor offers better, unloaded, told, and loaded again.
 * The road not taken, a list of the models it knows, would be as wrong one day as its own list.
 */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "gemm.h"

#include "fail.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>
#include <dlfcn.h>

enum { KERNEL_NAME_MAX = 32, NOTE_MAX = 256, BLAS_ROOM = 512 << 20 };

#define CORETYPE "OPENBLAS_CORETYPE"

typedef void sgemm_fn(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, blasint,
                      blasint, blasint, float, const float *, blasint, const float *, blasint,
                      float, float *, blasint);
typedef char *get_corename_fn(void);
typedef void set_num_threads_fn(int);

struct library {
    void *handle;
    sgemm_fn *sgemm;
    char kernel[KERNEL_NAME_MAX];
};

/* Set once, before other threads start. */
static struct library blas;
static char note[NOTE_MAX];

/* A pointer to a function cannot be cast from void * in C; POSIX says that it may be copied. */
static bool resolve(void *handle, const char *name, void *function, size_t size)
{
    void *symbol = dlsym(handle, name);

    assert(size == sizeof symbol);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

/* OpenBLAS asks for memory by the 128 MiB, and again for ever when it does not get them. */
static bool has_room(void)
{
    void *volatile room = malloc(BLAS_ROOM); /* volatile: the compiler may not do without */
    const bool got = room != NULL;

    free(room);
    return got;
}

static int load(struct library *out, struct nn_error *error)
{
    /* The build with threads of its own: the OpenMP one would start a team in every caller. */
    static const char *const names[] = {
        "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0", "libopenblas.so.0"};
    struct library lib = {.handle = NULL};
    get_corename_fn *get_corename;
    set_num_threads_fn *set_num_threads;

    if (!has_room()) {
        nn_fail(error, NN_ENOMEM, NULL,
                "OpenBLAS needs %d MiB of memory, which is more than there is", BLAS_ROOM >> 20);
        return NN_ENOMEM;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0] && lib.handle == NULL; i++)
        lib.handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (lib.handle == NULL) {
        nn_fail(error, NN_EMISSING, NULL,
                "OpenBLAS cannot be loaded: %s (package libopenblas0-pthread)", dlerror());
        return NN_EMISSING;
    }
    if (!resolve(lib.handle, "cblas_sgemm", &lib.sgemm, sizeof lib.sgemm) ||
        !resolve(lib.handle, "openblas_get_corename", &get_corename, sizeof get_corename) ||
        !resolve(lib.handle, "openblas_set_num_threads", &set_num_threads,
                 sizeof set_num_threads)) {
        nn_fail(error, NN_EFORMAT, NULL, "libopenblas.so.0 is not OpenBLAS with CBLAS: %s",
                dlerror());
        dlclose(lib.handle);
        return NN_EFORMAT;
    }
    set_num_threads(1);
    snprintf(lib.kernel, sizeof lib.kernel, "%s", get_corename());
    *out = lib;
    return 0;
}

/* Loads it with the kernel named; the variable is left as the user's environment had it. */
static int load_kernel(struct library *out, const char *kernel, struct nn_error *error)
{
    const char *before = getenv(CORETYPE);
    char saved[NOTE_MAX] = "";

    if (before != NULL)
        snprintf(saved, sizeof saved, "%s", before);
    if (setenv(CORETYPE, kernel, 1) != 0)
        return nn_fail(error, NN_ENOMEM, NULL, "no memory to set " CORETYPE);
    int err = load(out, error);
    if (before != NULL)
        setenv(CORETYPE, saved, 1);
    else
        unsetenv(CORETYPE);
    return err;
}

const char *gemm_better(const struct cpu *cpu, const char *chosen)
{
    const char *best = cpu_kernel(cpu);

    if (best == NULL || cpu_kernel_class(chosen) >= cpu_kernel_class(best))
        return NULL;
    return best;
}

static int open_best(const struct cpu *cpu, struct nn_error *error)
{
    struct library lib = {.handle = NULL};
    char own[KERNEL_NAME_MAX];
    int err = load(&lib, error);

    if (err < 0)
        return err;
    const char *better = gemm_better(cpu, lib.kernel);
    if (better == NULL) {
        snprintf(note, sizeof note, "kernel=%s chosen_by=openblas", lib.kernel);
        blas = lib;
        return 0;
    }
    memcpy(own, lib.kernel, sizeof own);
    dlclose(lib.handle);
    err = load_kernel(&lib, better, error);
    if (err < 0)
        return err;
    if (cpu_same_kernel(lib.kernel, better)) {
        snprintf(note, sizeof note,
                 "kernel=%s instead_of=%s reason=\"OpenBLAS does not know %s family %u model %u\"",
                 lib.kernel, own, cpu->vendor, cpu->family, cpu->model);
    } else { /* Somebody else in this process holds it: a Python module, say. */
        snprintf(note, sizeof note,
                 "kernel=%s slower_than=%s reason=\"OpenBLAS was loaded before: set " CORETYPE
                 "=%s\"",
                 lib.kernel, better, better);
    }
    blas = lib;
    return 0;
}

static int open_named(const struct cpu *cpu, const char *kernel, const char *asked_by,
                      struct nn_error *error)
{
    struct library lib = {.handle = NULL};

    if (cpu_kernel_class(kernel) > cpu_class(cpu)) {
        const char *best = cpu_kernel(cpu);
        return nn_fail(error, NN_EINVAL, NULL,
                       "kernel %s (asked for by %s) has instructions that this processor lacks; "
                       "it can run %s",
                       kernel, asked_by, best == NULL ? "Prescott" : best);
    }
    int err = load_kernel(&lib, kernel, error);
    if (err < 0)
        return err;
    if (!cpu_same_kernel(lib.kernel, kernel)) {
        nn_fail(error, NN_EINVAL, NULL,
                "OpenBLAS has no kernel %.*s (asked for by %s); it would use %s", KERNEL_NAME_MAX,
                kernel, asked_by, lib.kernel);
        dlclose(lib.handle);
        return NN_EINVAL;
    }
    const char *better = gemm_better(cpu, lib.kernel);
    snprintf(note, sizeof note, "kernel=%s chosen_by=%s%s%s", lib.kernel, asked_by,
             better == NULL ? "" : " slower_than=", better == NULL ? "" : better);
    blas = lib;
    return 0;
}

int gemm_open(const struct cpu *cpu, const char *kernel, struct nn_error *error)
{
    const char *variable = getenv(CORETYPE);
    char user[KERNEL_NAME_MAX] = ""; /* setenv ends the life of what getenv returned */

    if (variable != NULL)
        snprintf(user, sizeof user, "%s", variable);
    if (blas.handle != NULL) {
        if (kernel == NULL || cpu_same_kernel(kernel, blas.kernel))
            return 0;
        return nn_fail(error, NN_EINVAL, NULL, "OpenBLAS already runs its kernel %s, not %s",
                       blas.kernel, kernel);
    }
    /* A second BLAS thread changes bits; and with this set it does not even start any. */
    if (setenv("OPENBLAS_NUM_THREADS", "1", 1) != 0)
        return nn_fail(error, NN_ENOMEM, NULL, "no memory to set OPENBLAS_NUM_THREADS");
    if (kernel != NULL)
        return open_named(cpu, kernel, "the run", error);
    if (user[0] != '\0')
        return open_named(cpu, user, CORETYPE, error);
    return open_best(cpu, error);
}

int nn_blas_open(const char *kernel, struct nn_error *error)
{
    struct cpu cpu = cpu_read();

    return gemm_open(&cpu, kernel, error);
}

const char *nn_blas_kernel(void)
{
    assert(blas.handle != NULL);

    return blas.kernel;
}

const char *nn_blas_note(void)
{
    assert(blas.handle != NULL);

    return note;
}

void gemm(const struct gemm *shape, const float *a, const float *b, float *c)
{
    assert(blas.handle != NULL);
    assert(shape->m <= INT_MAX && shape->n <= INT_MAX && shape->k <= INT_MAX);

    blasint m = (blasint)shape->m;
    blasint n = (blasint)shape->n;
    blasint k = (blasint)shape->k;
    blas.sgemm(CblasRowMajor, shape->transpose_a ? CblasTrans : CblasNoTrans,
               shape->transpose_b ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a,
               shape->transpose_a ? m : k, b, shape->transpose_b ? k : n, 0.0f, c, n);
}

void nn_matmul(size_t m, size_t n, size_t k, const float *a, const float *b, float *c)
{
    gemm(&(struct gemm){.m = m, .n = n, .k = k}, a, b, c);
}
