/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_SPEC_H
#define NN_SRC_SPEC_H

/*
 * The description of a model as JSON, read strictly: what is not known is an error that names its
 * place and says what is allowed.
 */
#include "model.h"

/* One entry of "layers", as written. */
struct spec_layer {
    enum layer_kind kind;
    enum activation activation; /* LAYER_ACTIVATION */
    uint32_t units;             /* LAYER_DENSE */
    enum layer_init init;       /* LAYER_DENSE */
    bool bias;                  /* LAYER_DENSE */
};

struct spec {
    size_t inputs; /* floats in a sample */
    struct spec_layer layers[MODEL_LAYERS_MAX];
    uint32_t count; /* at least 1, at least one of them dense */
    enum loss_kind loss;
};

int spec_parse(struct spec *out, const char *json, size_t len, struct nn_error *error);

#endif
