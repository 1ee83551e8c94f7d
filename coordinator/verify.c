/* SPDX-License-Identifier: MIT */
#include <coordinator/verify.h>

#include <cluster/text.h>
#include <nn/nn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_HERE = 1200, HASH_TEXT = 17 };

struct run {
    const char *dir;
    struct nn_safetensors file;
    char hash[HASH_TEXT]; /* recomputed from the file */
};

static int open_run(struct run *run, const char *dir)
{
    char path[PATH_MAX_HERE];
    struct nn_error error;

    run->dir = dir;
    text_format(path, sizeof path, "%s/model.safetensors", dir);
    if (nn_safetensors_open(&run->file, path, &error) < 0) {
        fprintf(stderr, "gradwire-coordinator: %s\n", error.text);
        return -1;
    }
    nn_weights_hash(run->file.vector, run->file.count, run->hash);
    return 0;
}

/* The value of a key in a line of our own run.jsonl: digits, or hex digits in quotes. */
static bool value_of(const char *line, const char *key, char out[32])
{
    const char *at = strstr(line, key);
    size_t len = 0;

    if (!at)
        return false;
    at += strlen(key);
    while (*at == ' ' || *at == '"')
        at++;
    while (at[len] && !strchr(",}\" \n", at[len]) && len < 31)
        len++;
    memcpy(out, at, len);
    out[len] = '\0';
    return len > 0;
}

static FILE *open_steps(const char *dir)
{
    char path[PATH_MAX_HERE];

    text_format(path, sizeof path, "%s/run.jsonl", dir);
    return fopen(path, "re");
}

static bool next_step(FILE *file, char *line, int cap, char step[32], char hash[32])
{
    return fgets(line, cap, file) && value_of(line, "\"step\":", step) &&
           value_of(line, "\"weights_xxh3\":", hash);
}

/* Says at which step the logs of the two runs part, if they do. */
static void name_step(const struct run *a, const struct run *b)
{
    FILE *files[2] = {open_steps(a->dir), open_steps(b->dir)};
    char line[1024], step[2][32], hash[2][32];
    unsigned long long steps = 0;

    while (files[0] && files[1]) {
        bool have[2] = {next_step(files[0], line, sizeof line, step[0], hash[0]),
                        next_step(files[1], line, sizeof line, step[1], hash[1])};

        if (have[0] && have[1] && strcmp(hash[0], hash[1]) != 0) {
            printf("first step that differs: %s (%s against %s)\n", step[0], hash[0], hash[1]);
            break;
        }
        if (!have[0] || !have[1]) {
            if (have[0] != have[1])
                printf("the same for %llu steps; then only %s goes on\n", steps,
                       have[0] ? a->dir : b->dir);
            break;
        }
        steps++;
    }
    for (size_t i = 0; i < 2; i++)
        if (files[i])
            fclose(files[i]);
}

static bool same_shape(const struct nn_tensor *a, const struct nn_tensor *b)
{
    return strcmp(a->name, b->name) == 0 && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

/* Bits, not numbers: 0 and -0 differ, a NaN equals itself. */
static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void name_element(const struct run *a, const struct run *b)
{
    size_t differ = 0;

    if (a->file.tensors != b->file.tensors) {
        printf("%s has %u tensors, %s %u\n", a->dir, a->file.tensors, b->dir, b->file.tensors);
        return;
    }
    for (uint32_t i = 0; i < a->file.tensors; i++) {
        const struct nn_tensor *ta = &a->file.table[i], *tb = &b->file.table[i];

        if (!same_shape(ta, tb)) {
            printf("tensor %s against %s: another name or shape\n", ta->name, tb->name);
            return;
        }
        for (size_t at = 0; at < ta->count; at++) {
            float fa = a->file.vector[ta->offset + at], fb = b->file.vector[tb->offset + at];

            if (bits_of(fa) == bits_of(fb))
                continue;
            if (differ++ == 0)
                printf("first element that differs: tensor %s, element %zu: %.9g against %.9g\n",
                       ta->name, at, (double)fa, (double)fb);
        }
    }
    printf("%zu of %zu elements differ\n", differ, a->file.count);
}

/* A run whose own summary names another hash than its model has is worth a word. */
static void check_summary(const struct run *run)
{
    char path[PATH_MAX_HERE], line[1024], hash[32];
    FILE *file;

    text_format(path, sizeof path, "%s/summary.json", run->dir);
    file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file))
        if (value_of(line, "\"weights_xxh3\":", hash) && strcmp(hash, run->hash) != 0)
            printf("%s: says %s, but model.safetensors has %s\n", path, hash, run->hash);
    fclose(file);
}

int verify(const char *dir_a, const char *dir_b)
{
    struct run a = {.dir = NULL}, b = {.dir = NULL};
    bool same;

    if (open_run(&a, dir_a) < 0)
        return 2;
    if (open_run(&b, dir_b) < 0) {
        nn_safetensors_close(&a.file);
        return 2;
    }
    same = strcmp(a.hash, b.hash) == 0 && a.file.count == b.file.count;
    check_summary(&a);
    check_summary(&b);
    if (same) {
        printf("same weights: %s\n", a.hash);
    } else {
        printf("weights differ: %s against %s\n", a.hash, b.hash);
        name_step(&a, &b);
        name_element(&a, &b);
    }
    nn_safetensors_close(&a.file);
    nn_safetensors_close(&b.file);
    return same ? 0 : 1;
}

int verify_hash(const char *path)
{
    struct nn_safetensors file;
    struct nn_error error;
    char hash[HASH_TEXT];

    if (nn_safetensors_open(&file, path, &error) < 0) {
        fprintf(stderr, "gradwire-coordinator: %s\n", error.text);
        return 2;
    }
    nn_weights_hash(file.vector, file.count, hash);
    printf("%s\n", hash);
    nn_safetensors_close(&file);
    return 0;
}
