/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_BODY_H
#define CLUSTER_BODY_H

/*
 * Bodies of messages.  Layouts: docs/protocol.md, "Cluster".
 *
 * body_x_encode asserts its room and returns the length.  body_x_decode believes nothing: false
 * when a length, a count or a value is out of its documented range, or bytes are left over.  Texts
 * come out terminated and printable; spans ("model") are borrowed from the message.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BODY_NAME_MAX = 64, /* with the NUL, as all of these */
    BODY_PATH_MAX = 1024,
    BODY_TEXT_MAX = 240,
    BODY_MODEL_MAX = 48 * 1024,
    BODY_DIGEST = 16,
    /* Every body but those of WEIGHTS, PARTIAL and what later issues define fits. */
    BODY_MAX = 65536 - 64,
};

/* A label for logs: 1 to 63 of A-Z a-z 0-9 . _ - */
bool body_name_ok(const char *name);

struct body_join {
    uint64_t instance; /* random: the identity of this process */
    uint32_t threads;  /* 1 ... 4096 */
    char name[BODY_NAME_MAX];
};

size_t body_join_encode(const struct body_join *join, uint8_t out[BODY_MAX]);
bool body_join_decode(struct body_join *out, const uint8_t *body, size_t len);

/* Where a set of samples is and how to know it.  count 0: there is no such set. */
struct body_set {
    uint8_t digest[BODY_DIGEST];
    uint64_t count;        /* samples, after the limit */
    uint32_t sample_bytes; /* label included */
    char images[BODY_PATH_MAX];
    char labels[BODY_PATH_MAX];
};

struct body_welcome {
    uint64_t parameters; /* floats in the vector: the model's own count must agree */
    uint64_t seed;
    uint32_t epochs;
    uint32_t batch;     /* samples in a step; >= 1 */
    uint32_t leaf;      /* samples in a leaf of training; >= 1 */
    uint32_t eval_leaf; /* samples in a leaf of evaluation; >= 1 */
    bool drop_last;
    double scale, mean, deviation; /* finite; deviation is not 0 */
    struct body_set train, test;
    char kernel[BODY_NAME_MAX]; /* of BLAS */
    const char *model;          /* JSON, not terminated */
    uint32_t model_len;         /* <= BODY_MODEL_MAX */
};

size_t body_welcome_encode(const struct body_welcome *welcome, uint8_t out[BODY_MAX]);
bool body_welcome_decode(struct body_welcome *out, const uint8_t *body, size_t len);

/* ---------- WELCOME of a run whose purpose is a product: C = op(A, B), in blocks of rows
 * ---------- */

enum {
    BODY_PRODUCT_BYTES = 256, /* enough for any */
    BODY_DEPTH_MAX = 32,
    BODY_PIECE_FLOATS = 1 << 20, /* B goes out in pieces of so many floats, the last shorter */
};

enum body_op {
    BODY_MULTIPLY = 0, /* C = A B */
    BODY_COMBINE = 1   /* C = x A + y B, element by element */
};

struct body_product {
    enum body_op op;
    uint64_t rows, inner, cols; /* A (rows, inner), B (inner, cols), C (rows, cols); COMBINE: all
                                   three matrices are (rows, cols), and inner is cols */
    uint64_t block_rows;        /* of every block but the last, which may be shorter */
    uint32_t depth;             /* blocks under way to this node: it posts for so many */
    double x, y;                /* COMBINE */
    char kernel[BODY_NAME_MAX]; /* of BLAS */
};

size_t body_product_encode(const struct body_product *product, uint8_t out[BODY_PRODUCT_BYTES]);
bool body_product_decode(struct body_product *out, const uint8_t *body, size_t len);

/* Do the numbers make sense, and does every message of it fit rdt's 4 GiB? */
bool body_product_ok(const struct body_product *product);

/* REFUSE: one line for a person.  Too long a text is cut, control characters become '?'. */
size_t body_refuse_encode(const char *text, uint8_t out[BODY_MAX]);
bool body_refuse_decode(char out[BODY_TEXT_MAX], const uint8_t *body, size_t len);

struct body_ready {
    uint64_t fingerprint;
    bool has_train; /* all samples of the set are here */
    bool has_test;
};

size_t body_ready_encode(const struct body_ready *ready, uint8_t out[BODY_MAX]);
bool body_ready_decode(struct body_ready *out, const uint8_t *body, size_t len);

/* ---------- SAMPLES: header, ids, raw samples; as many as fit a message ---------- */

enum body_which { BODY_TRAIN = 0, BODY_TEST = 1 };

struct body_samples {
    enum body_which which;
    uint32_t count;
    uint32_t sample_bytes;
    const uint8_t *ids; /* borrowed, as the next; read them by the functions below */
    const uint8_t *samples;
};

/* The most samples of this size in one body; 0: not even one. */
uint32_t body_samples_max(uint32_t sample_bytes);
size_t body_samples_len(uint32_t count, uint32_t sample_bytes);

/* Writes the header; each of the `count` samples follows by put, idx < count. */
void body_samples_start(uint8_t *out, enum body_which which, uint32_t count, uint32_t sample_bytes);
void body_samples_put(uint8_t *out, uint32_t idx, uint64_t id, const uint8_t *sample);

/* count >= 1, sample_bytes >= 1; ids are anything: check them against the set. */
bool body_samples_decode(struct body_samples *out, const uint8_t *body, size_t len);
uint64_t body_samples_id(const struct body_samples *samples, uint32_t idx);
const uint8_t *body_samples_at(const struct body_samples *samples, uint32_t idx);

/* ---------- PARTIAL: the floats, then this trailer (the floats stay aligned) ---------- */

enum { BODY_TRAILER = 16 };

struct body_trailer {
    double loss;      /* sum over the samples of the subtree, in tree order */
    uint32_t correct; /* samples whose label came first */
    bool finite;      /* loss and gradient are */
};

size_t body_partial_len(uint64_t parameters);
void body_trailer_encode(const struct body_trailer *trailer, uint8_t out[BODY_TRAILER]);

/* `body` is the whole one; its length must be that of `parameters` floats and the trailer. */
bool body_partial_decode(struct body_trailer *out, uint64_t parameters, const uint8_t *body,
                         size_t len);

/* ---------- EVALUATED: one result for each of the head's leaves ---------- */

struct body_result {
    double loss;
    uint32_t correct;
};

enum { BODY_RESULT = 12, BODY_RESULTS_MAX = BODY_MAX / BODY_RESULT };

size_t body_evaluated_len(uint32_t count);
void body_evaluated_put(uint8_t *out, uint32_t idx, const struct body_result *result);

/* Is this a body of `count` results? */
bool body_evaluated_ok(uint32_t count, size_t len);
struct body_result body_evaluated_get(const uint8_t *body, uint32_t idx);

#endif
