/* SPDX-License-Identifier: MIT */
#ifndef TESTS_NN_REFERENCE_H
#define TESTS_NN_REFERENCE_H

/*
 * A second, independent network in double, as plain as can be: loops, libm, no fusion.  It knows
 * the loss and takes gradients by central differences; it shares no code with the library.
 */
#include <stddef.h>
#include <stdint.h>

enum { REF_LAYERS_MAX = 8, REF_WIDTH_MAX = 64 };

struct ref_layer {
    char kind;    /* 'd' dense, 'n' dense without bias, 'r' relu, 's' sigmoid, 't' tanh */
    size_t units; /* dense */
};

struct ref_net {
    size_t inputs;
    struct ref_layer layers[REF_LAYERS_MAX];
    size_t count;
    char loss; /* 'c' cross entropy, 'm' mean square */
};

/* Loss of one sample with its weights in the library's order. */
double ref_loss(const struct ref_net *net, const double *weights, const float *x, uint32_t label);

size_t ref_parameters(const struct ref_net *net);
size_t ref_outputs(const struct ref_net *net);

/* The same network as JSON for nn_model_open. */
void ref_json(const struct ref_net *net, char *out, size_t cap);

#endif
