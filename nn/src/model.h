/* SPDX-License-Identifier: MIT */
#ifndef NN_SRC_MODEL_H
#define NN_SRC_MODEL_H

/*
 * A model: its layers in order and where their tensors lie in the flat vector.  Immutable once
 * opened, so threads may share it.
 */
#include "kernels.h"
#include "nn/nn.h"

#include <stdbool.h>

enum { MODEL_LAYERS_MAX = 64, MODEL_UNITS_MAX = 65536, MODEL_TENSORS_MAX = 2 * MODEL_LAYERS_MAX };

static const uint64_t model_parameters_max = (uint64_t)1 << 31;

enum layer_kind { LAYER_DENSE, LAYER_ACTIVATION };
enum layer_init { INIT_DEFAULT, INIT_KAIMING, INIT_XAVIER };
enum loss_kind { LOSS_CROSS_ENTROPY, LOSS_MSE };

struct layer {
    enum layer_kind kind;
    enum activation activation; /* LAYER_ACTIVATION; for LAYER_DENSE the one fused behind it */
    size_t inputs, outputs;     /* floats in a sample, before and behind */

    /* LAYER_DENSE: weight (outputs, inputs), then bias (outputs), offsets in the vector. */
    enum layer_init init;
    bool has_bias;
    size_t weight, bias;

    uint32_t index; /* in the description, where a fused activation counts too */
};

struct nn_model {
    struct layer layers[MODEL_LAYERS_MAX];
    uint32_t count;
    enum loss_kind loss;
    size_t inputs, outputs, parameters;
    size_t widest; /* outputs of the widest layer */
    struct nn_tensor tensors[MODEL_TENSORS_MAX];
    uint32_t tensor_count;
};

#endif
