/* SPDX-License-Identifier: MIT */
#ifndef NN_NN_H
#define NN_NN_H

/*
 * Neural networks on float vectors.  Knows nothing of networks, nodes or messages.
 *
 * All parameters of a model are one flat f32 vector, all gradients another, optimiser state a third
 * (64-byte aligned, no gaps between tensors).  The unit of work is the *leaf*: a fixed group of
 * samples whose gradient is a pure function of (weights, samples): same bits on every machine that
 * runs the same BLAS kernel, whoever computes it and however many threads there are.
 *
 * Functions return 0 or a negative enum nn_err and leave out-parameters untouched on failure; those
 * that take bad user input also fill a struct nn_error with one line for a person.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nn_err {
    NN_OK = 0,
    NN_EINVAL = -1, /* bad description or argument; nn_error says which */
    NN_ENOMEM = -2,
    NN_EIO = -3,     /* a file could not be read or written; nn_error carries errno's text */
    NN_EFORMAT = -4, /* a file's contents are not what its format promises */
    NN_EMISSING = -5 /* a sample is not held here */
};

struct nn_error {
    char key[64];   /* where in a description: "layers[2].units"; "" when not from one */
    char text[448]; /* one line: what, where, what is allowed */
};

/* ---------- hashes (XXH3) ---------- */

uint64_t nn_hash64(const void *bytes, size_t len);

struct nn_digest {
    uint8_t bytes[16]; /* XXH3-128, canonical (big-endian) */
};

struct nn_digest nn_hash128(const void *bytes, size_t len);

/* `weights_xxh3`: XXH3-64, seed 0, of the f32 little-endian vector.  16 hex digits and a NUL. */
void nn_weights_hash(const float *weights, size_t count, char out[17]);

/* ---------- BLAS ---------- */

/*
 * Opens OpenBLAS for the whole process with one thread a call.  kernel: its name ("Haswell",
 * "SkylakeX", "Zen" ...) or NULL: OPENBLAS_CORETYPE if the user set it, else what cpuid offers
 * (Debian's OpenBLAS takes CPUs newer than itself for a Prescott and runs 6-8 times slower).  Call
 * it once, before other threads start; a second call succeeds if it asks for the same kernel or
 * NULL.
 */
int nn_blas_open(const char *kernel, struct nn_error *error);

/* The kernel in use ("SkylakeX"), and one line for the log: what was chosen, instead of what, why.
 */
const char *nn_blas_kernel(void);
const char *nn_blas_note(void);

/* Sets the floating-point mode (denormals are flushed) of the calling thread.  Every thread that
 * computes calls it first. */
void nn_thread_init(void);

/* c (m, n) = a (m, k) times b (k, n), row-major: the matrix service's door to BLAS. */
void nn_matmul(size_t m, size_t n, size_t k, const float *a, const float *b, float *c);

/* Weighted sums of matrices: x = y = 1 adds, x = y = 1/2 is the mean. */
struct nn_combination {
    size_t count; /* elements */
    double x, y;
};

/* c = x a + y b, computed in double and rounded once. */
void nn_combine(const struct nn_combination *combination, const float *a, const float *b, float *c);

/* A hash of what nn_matmul and nn_combine give for fixed operands of several shapes: machines whose
 * fingerprints agree give the same bits. */
int nn_product_fingerprint(uint64_t *out);

/* ---------- models ---------- */

struct nn_model; /* opaque, immutable after nn_model_open: threads may share it */

enum { NN_RANK_MAX = 4, NN_NAME_MAX = 32 };

struct nn_tensor {
    char name[NN_NAME_MAX]; /* "0.weight", "0.bias": layer index, role */
    size_t offset;          /* in floats, from the start of the vector */
    size_t count;
    uint32_t rank;
    uint32_t shape[NN_RANK_MAX]; /* dense weight: (out, in); bias: (out) */
};

/*
 * Builds a model from its JSON description, the `model` section of a run:
 *   {"input": [784], "layers": [{"dense": 512, "init": "kaiming"}, "relu", {"dense": 10}], "loss":
 * "cross_entropy"} layers: {"dense": units [, "init": "kaiming"|"xavier"] [, "bias": true]},
 * "relu", "sigmoid", "tanh". init defaults to kaiming (normal, fan-in) before relu, else xavier
 * (uniform). loss: "cross_entropy" (softmax fused; labels) or "mse" (against one-hot labels).
 */
int nn_model_open(struct nn_model **out, const char *json, size_t len, struct nn_error *error);
void nn_model_free(struct nn_model *model);

size_t nn_model_parameters(const struct nn_model *model); /* floats in the vector */
size_t nn_model_inputs(const struct nn_model *model);     /* floats in a sample */
size_t nn_model_outputs(const struct nn_model *model);    /* classes */
uint32_t nn_model_tensors(const struct nn_model *model);
struct nn_tensor nn_model_tensor(const struct nn_model *model, uint32_t idx);
double nn_model_flops(const struct nn_model *model); /* of training, a sample */

/* Fills the weights: a pure function of (model, seed).  Philox4x32-10. */
void nn_model_init(const struct nn_model *model, uint64_t seed, float *weights);

/* ---------- leaves ---------- */

struct nn_scratch; /* activations of one thread's leaf */

int nn_scratch_open(struct nn_scratch **out, const struct nn_model *model, size_t samples_max);
void nn_scratch_free(struct nn_scratch *scratch);

struct nn_batch {
    const float *x;         /* (count, inputs), 64-byte aligned */
    const uint32_t *labels; /* (count) */
    size_t count;           /* 1 ... samples_max */
};

struct nn_result {
    double loss;      /* sum over the samples */
    uint64_t correct; /* arg max equals label (first of equals) */
    uint64_t count;
    bool finite; /* loss and gradient are */
};

/* Forward and backward of one leaf.  grad (parameters) is overwritten with the SUM over the
 * samples; whoever applies it divides once by the number of samples of the step.  No allocation. */
void nn_gradient(struct nn_scratch *scratch, const float *weights, const struct nn_batch *batch,
                 float *grad, struct nn_result *result);

/* Forward only: loss and accuracy. */
void nn_evaluate(struct nn_scratch *scratch, const float *weights, const struct nn_batch *batch,
                 struct nn_result *result);

/* XXH3 of a fixed self-test over every op (K > 512 included) and of the gradient of one synthetic
 * leaf of this model at its initial weights: machines whose fingerprints agree compute the same
 * bits. */
int nn_fingerprint(const struct nn_model *model, uint64_t seed, size_t leaf, uint64_t *out);

/* ---------- optimisers ---------- */

enum nn_optim_kind { NN_SGD, NN_MOMENTUM, NN_ADAM };

/* How the learning rate goes over the `steps` of a run: stays, or falls in a line to lr / steps in
 * the last one. */
enum nn_rate { NN_RATE_CONSTANT, NN_RATE_LINEAR };

struct nn_optim {
    enum nn_optim_kind kind;
    double lr;
    double momentum;     /* NN_MOMENTUM */
    double beta1, beta2; /* NN_ADAM */
    double epsilon;      /* NN_ADAM */
    double weight_decay; /* added to the gradient (L2) */
    enum nn_rate rate;
    uint64_t steps; /* of the whole run, NN_RATE_LINEAR */
};

/* Vectors of `parameters` floats of state: 0, 1 or 2.  They start as zero. */
uint32_t nn_optim_vectors(const struct nn_optim *optim);

/* Applies one step: gradient = grad_sum / samples.  step counts from 1.  state is vectors x count.
 */
void nn_optim_apply(const struct nn_optim *optim, uint64_t step, uint64_t samples, size_t count,
                    float *weights, const float *grad_sum, float *state);

/* ---------- randomness and order ---------- */

/* Philox4x32-10: four words for (key, counter).  A pure function. */
void nn_philox(uint64_t key, uint64_t counter_low, uint64_t counter_high, uint32_t out[4]);

/* Which sample stands at `position` of an epoch: a keyed bijection of [0, count) (six Feistel
 * rounds with cycle walking).  O(1) memory, every sample exactly once. */
uint64_t nn_order(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position);

/* ---------- data ---------- */

struct nn_dataset; /* raw samples: bytes as in the file, and a label; threads may read it together
                    */

enum { NN_PATH_MAX = 1024 };

/* IDX images and labels (u8), plain or gzip.  limit 0: all.  NN_EIO, NN_EFORMAT with file and
 * reason: wrong magic, truncated, counts of samples and labels differ, a label >= classes. */
int nn_dataset_read_idx(struct nn_dataset **out, const char *images, const char *labels,
                        uint64_t limit, uint32_t classes, struct nn_error *error);

/* An empty one of the same shape, to be filled sample by sample (nn_dataset_put). */
int nn_dataset_open(struct nn_dataset **out, uint64_t count, size_t sample_bytes);
void nn_dataset_free(struct nn_dataset *data);

uint64_t nn_dataset_count(const struct nn_dataset *data);
size_t nn_dataset_sample_bytes(const struct nn_dataset *data); /* image bytes + 4 (label, u32 LE) */

/* Content: XXH3-128 of the decoded bytes and the dimensions (of the first `limit` samples).  Every
 * sample must be held. */
struct nn_digest nn_dataset_digest(const struct nn_dataset *data);

bool nn_dataset_has(const struct nn_dataset *data, uint64_t id);
const uint8_t *nn_dataset_get(const struct nn_dataset *data,
                              uint64_t id); /* sample_bytes; or NULL */

/* Takes a sample in; one that is held already stays as it is.  One thread may put while others read
 * and gather. */
void nn_dataset_put(struct nn_dataset *data, uint64_t id, const uint8_t *sample);

/* x = (byte * scale - mean) / deviation, in float, by table. */
struct nn_normalize {
    double scale; /* 1/255 */
    double mean;
    double deviation;
};

/* Is it finite for every byte? */
bool nn_normalize_ok(const struct nn_normalize *normalize);

/* Gathers samples into a batch: x (count, inputs) and labels (count).  NN_EMISSING names nothing:
 * check nn_dataset_has first.  NN_EINVAL: the table would hold what is not finite. */
int nn_dataset_gather(const struct nn_dataset *data, const struct nn_normalize *normalize,
                      const uint64_t *ids, size_t count, float *x, uint32_t *labels);

/* ---------- files ---------- */

/* Writes {name: tensor} of the model's table, f32, to path by temporary name, fsync and rename;
 * text metadata pairs ("key", "value", ..., NULL) may be NULL. */
int nn_safetensors_write(const char *path, const struct nn_model *model, const float *vector,
                         const char *const *metadata, struct nn_error *error);

/* Reads a vector for this model: every tensor of the table must be there with its shape, f32. */
int nn_safetensors_read(const char *path, const struct nn_model *model, float *vector,
                        struct nn_error *error);

/* A file on its own, for verify: names, offsets and shapes as stored, in file order. */
struct nn_safetensors {
    uint32_t tensors;
    struct nn_tensor *table;
    float *vector; /* all tensors, in table order, without gaps */
    size_t count;
};

int nn_safetensors_open(struct nn_safetensors *out, const char *path, struct nn_error *error);
void nn_safetensors_close(struct nn_safetensors *file);

struct nn_matrix {
    size_t rows, cols;
    float *data; /* row-major, 64-byte aligned; free with nn_matrix_free */
};

/* .npy, version 1-3, '<f4' (and '<f8', narrowed), C or Fortran order, one or two dimensions (one: a
 * row). */
int nn_npy_read(struct nn_matrix *out, const char *path, struct nn_error *error);
int nn_npy_write(const char *path, const struct nn_matrix *matrix, struct nn_error *error);
void nn_matrix_free(struct nn_matrix *matrix);

/* 64-byte aligned, zeroed floats; NULL when memory is out.  nn_floats_free(NULL) is nothing. */
float *nn_floats(size_t count);
void nn_floats_free(float *floats);

#ifdef __cplusplus
}
#endif
#endif
