/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_PROBLEM_H
#define TESTS_SIM_PROBLEM_H

/*
 * Small trainings, and what each must come to: the hash of the weights after every step, computed
 * here by one thread without coordinator, node or network.
 */

#include <cluster/body.h>
#include <coordinator/coord.h>

enum { PROBLEMS = 8, PROBLEM_STEPS_MAX = 32 };

struct problem {
    struct coord_config coord; /* but for nodes and wait_ns */
    struct nn_model *model;
    struct nn_dataset *train, *test;
    uint8_t *welcome;
    char hashes[PROBLEM_STEPS_MAX][COMMIT_HASH_TEXT]; /* after step i */
    uint64_t evals;
    double eval_loss[PROBLEM_STEPS_MAX];
    uint64_t eval_correct[PROBLEM_STEPS_MAX];
};

/* Makes problem `idx` with its data files in the directory `dir`.  Dies when that fails. */
void problem_open(struct problem *problem, uint32_t idx, const char *dir);

/* Writes files of the same names and sizes with other contents. */
void problem_write_others(uint32_t idx, const char *dir);

void problem_close(struct problem *problem);

#endif
