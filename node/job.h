/* SPDX-License-Identifier: MIT */
#ifndef NODE_JOB_H
#define NODE_JOB_H

/*
 * What a node computes.  A job belongs to the compute thread from ACT_COMPUTE to IN_COMPUTED;
 * worker.c fills it in and reads it, job_run does it.
 */

#include <cluster/body.h>
#include <node/data.h>
#include <node/leaves.h>
#include <node/matrix.h>

enum job_kind { JOB_PREPARE, JOB_GRADIENT, JOB_EVALUATE, JOB_MATRIX_PREPARE, JOB_MATRIX_BLOCKS };

/* What a run needs on this machine, made by JOB_PREPARE. */
struct engine {
    struct nn_model *model;
    struct schedule schedule;
    struct nn_dataset *train, *test; /* borrowed from the data store; test may be NULL */
    struct leaves *leaves;
    size_t parameters;
};

struct job {
    enum job_kind kind;
    struct engine *engine; /* PREPARE: filled; else read */

    /* PREPARE */
    struct body_welcome welcome; /* its model text is `model_text` */
    char model_text[BODY_MODEL_MAX];
    uint32_t threads;
    const char *data_dir;
    struct data_store *store;
    int err; /* out; negative: `why` */
    char why[512];
    struct body_ready ready; /* out */

    /* GRADIENT, EVALUATE */
    const float *weights;
    uint64_t step;
    struct span span;
    uint8_t *body;   /* out: the body of PARTIAL or EVALUATED; floats aligned */
    size_t body_len; /* out */
    uint64_t hash;   /* out: of the body */
    bool finite;     /* out, GRADIENT */
    uint32_t bad_leaf;

    /* MATRIX_PREPARE (filled; with threads, err, why and ready as above), MATRIX_BLOCKS */
    struct matrix_engine *matrix;
    struct matrix_task tasks[BODY_DEPTH_MAX];
    uint32_t tasks_count;
};

void job_run(struct job *job);
void engine_close(struct engine *engine);

#endif
