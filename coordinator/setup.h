/* SPDX-License-Identifier: MIT */
#ifndef COORDINATOR_SETUP_H
#define COORDINATOR_SETUP_H

/* A run made ready from its configuration: model, data, schedule, optimiser. */

#include <cluster/body.h>
#include <cluster/config.h>
#include <cluster/schedule.h>
#include <nn/nn.h>

enum { SETUP_WHY_MAX = 2048 };

struct setup {
    const char *path; /* of the configuration; borrowed */
    struct config config;
    struct nn_model *model;
    struct nn_dataset *train;
    struct nn_dataset *test; /* NULL: none */
    struct schedule schedule;
    struct nn_normalize normalize;
    struct nn_optim optim;
    uint8_t *welcome; /* body of WELCOME, by setup_welcome */
    size_t welcome_len;
    uint64_t fingerprint; /* by setup_welcome */
    char why[SETUP_WHY_MAX];
};

/* Reads configuration and data and checks that they fit.  Opens BLAS.  Returns 0 or an exit code
 * with one line in `why`. */
int setup_open(struct setup *setup, const char *path, const char *const *sets, size_t sets_count);
void setup_close(struct setup *setup);

/* What nodes need to know, and our own fingerprint.  0 or an exit code. */
int setup_welcome(struct setup *setup);

#endif
