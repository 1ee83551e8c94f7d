/* SPDX-License-Identifier: MIT */
#ifndef TESTS_COORDINATOR_PROBLEM_H
#define TESTS_COORDINATOR_PROBLEM_H

/* What the arena's processes train: a small network on made-up samples. */

#include "arena.h"

enum { NODE_INPUTS = 12 };

struct problem {
    struct nn_model *model;
    struct nn_dataset *train, *test;
    struct schedule schedule;
    struct nn_normalize normalize;
    struct nn_optim optim;
    uint8_t welcome[BODY_MAX];
    size_t welcome_len;
    uint64_t fingerprint;
};

/* Everybody who makes the set of this seed makes the same. */
struct nn_dataset *problem_set(uint64_t count, uint64_t seed);

void problem_open(struct problem *problem, const struct arena_config *config);

/* Frees the problem itself, too. */
void problem_close(struct problem *problem);

/* A random number; *random is the seed and moves on. */
uint64_t problem_draw(uint64_t *random);

/* Notes what the coordinator reports. */
void result_record(struct arena_result *result, const struct record *record);
void result_event(struct arena_result *result, const char *text);

#endif
