/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_CONFIG_H
#define CLUSTER_CONFIG_H

/*
 * A run's configuration: JSON with // and block comments, sections model, data, train, cluster.
 * Unknown keys, wrong types and values out of range are errors that name file, line, key, what is
 * allowed and the nearest valid key.  The `model` section is opaque here: nn reads it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFIG_PATH_MAX = 1024, CONFIG_NAME_MAX = 64, CONFIG_WHY_MAX = 1280 };

/* Relative paths are taken from the config file's folder; what comes out is absolute, and could be
 * read.  A test set that is absent has empty paths. */
struct config_files {
    char images[CONFIG_PATH_MAX];
    char labels[CONFIG_PATH_MAX];
};

enum config_optimizer { OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAM };

struct config_train {
    char strategy[CONFIG_NAME_MAX]; /* "sync" */
    char reduce[CONFIG_NAME_MAX];   /* "star" */
    uint32_t epochs;                /* 1 */
    uint32_t batch;                 /* 64 */
    uint32_t leaf;                  /* 0 in the file or absent: 32 below batch 256, else 64 */
    uint64_t seed;                  /* 1 */
    bool drop_last;                 /* false */
    enum config_optimizer optimizer;
    double lr;                    /* 0.1; adam: 0.001 */
    double momentum;              /* 0.9 */
    double beta1, beta2, epsilon; /* 0.9, 0.999, 1e-8 */
    double weight_decay;          /* 0 */
    char
        schedule[CONFIG_NAME_MAX]; /* of lr: "constant", or "linear": falls to nothing at the end */
};

struct config_data {
    struct config_files train, test;
    uint64_t train_limit, test_limit; /* 0: all */
    double scale, mean, deviation;    /* 1/255, 0, 1 */
};

struct config_cluster {
    uint32_t nodes;               /* how many to wait for; 1 */
    uint32_t min_nodes;           /* go on with at least so many; 1 */
    uint32_t wait_s;              /* 60 */
    uint32_t dead_ms;             /* 2500 */
    char kernel[CONFIG_NAME_MAX]; /* BLAS kernel; "": the coordinator's choice */
};

struct config {
    char *model; /* the section's JSON text, owned */
    size_t model_len;
    struct config_data data;
    struct config_train train;
    struct config_cluster cluster;
};

/* Reads the file, applies the `sets` ("train.optimizer.lr=0.1", from --set) and checks everything.
 * Negative: `why` is one line "FILE:LINE: key: problem (allowed: ...)", with "--set" in the place
 * of FILE:LINE when the value came from there; nothing is owned then. */
int config_read(struct config *out, const char *path, const char *const *sets, size_t sets_count,
                char why[CONFIG_WHY_MAX]);
void config_free(struct config *config);

/* The line of a key path ("model.layers[2].dense") in the file, or of its deepest part that is
 * there, for errors found by others; 0: none. */
unsigned config_line(const char *path, const char *key);

/* Everything with defaults filled in, as JSON text for the run directory; free() it. */
char *config_print(const struct config *config);

#endif
