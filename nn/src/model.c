/* SPDX-License-Identifier: MIT */
/* From a description to layers with a place in the vector; and the table that tells others. */
#include "model.h"

#include "fail.h"
#include "spec.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static void add_tensor(struct nn_model *model, const struct layer *layer, bool is_weight)
{
    struct nn_tensor *tensor = &model->tensors[model->tensor_count++];

    snprintf(tensor->name, sizeof tensor->name, "%u.%s", layer->index,
             is_weight ? "weight" : "bias");
    tensor->offset = is_weight ? layer->weight : layer->bias;
    tensor->count = is_weight ? layer->outputs * layer->inputs : layer->outputs;
    tensor->rank = is_weight ? 2 : 1;
    tensor->shape[0] = (uint32_t)layer->outputs;
    if (is_weight)
        tensor->shape[1] = (uint32_t)layer->inputs;
}

/* Places weight and bias behind what is there. */
static void place_tensors(struct nn_model *model, struct layer *layer)
{
    layer->weight = model->parameters;
    model->parameters += layer->outputs * layer->inputs;
    add_tensor(model, layer, true);
    layer->bias = model->parameters;
    if (layer->has_bias) {
        model->parameters += layer->outputs;
        add_tensor(model, layer, false);
    }
}

/* The initialiser of spec layer idx: what it asks for, or what its activation wants. */
static enum layer_init init_of(const struct spec *spec, uint32_t idx)
{
    if (spec->layers[idx].init != INIT_DEFAULT)
        return spec->layers[idx].init;
    if (idx + 1 < spec->count && spec->layers[idx + 1].kind == LAYER_ACTIVATION &&
        spec->layers[idx + 1].activation == ACT_RELU)
        return INIT_KAIMING;
    return INIT_XAVIER;
}

static int add_layer(struct nn_model *model, const struct spec *spec, uint32_t idx,
                     struct nn_error *error)
{
    const struct spec_layer *wanted = &spec->layers[idx];
    struct layer *last = model->count == 0 ? NULL : &model->layers[model->count - 1];

    /* An activation behind a dense layer works on that layer's output while it is in the cache. */
    if (wanted->kind == LAYER_ACTIVATION && last != NULL && last->kind == LAYER_DENSE &&
        last->activation == ACT_NONE) {
        last->activation = wanted->activation;
        return 0;
    }
    struct layer *layer = &model->layers[model->count++];
    *layer = (struct layer){.kind = wanted->kind,
                            .activation = wanted->activation,
                            .inputs = model->outputs,
                            .outputs = model->outputs,
                            .index = idx};
    if (wanted->kind == LAYER_ACTIVATION)
        return 0;
    layer->outputs = wanted->units;
    layer->has_bias = wanted->bias;
    layer->init = init_of(spec, idx);
    uint64_t size = ((uint64_t)layer->inputs + layer->has_bias) * layer->outputs;
    if (size + model->parameters > model_parameters_max) {
        char key[64];
        snprintf(key, sizeof key, "layers[%u].dense", idx);
        return nn_fail(error, NN_EINVAL, key, "the model has more than 2^31 parameters here");
    }
    place_tensors(model, layer);
    model->outputs = layer->outputs;
    return 0;
}

int nn_model_open(struct nn_model **out, const char *json, size_t len, struct nn_error *error)
{
    struct spec spec;
    int err = spec_parse(&spec, json, len, error);

    if (err < 0)
        return err;
    struct nn_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return nn_fail(error, NN_ENOMEM, NULL, "no memory for a model");
    model->inputs = spec.inputs;
    model->outputs = spec.inputs;
    model->loss = spec.loss;
    for (uint32_t i = 0; i < spec.count && err == 0; i++)
        err = add_layer(model, &spec, i, error);
    if (err < 0) {
        free(model);
        return err;
    }
    for (uint32_t i = 0; i < model->count; i++) {
        if (model->layers[i].outputs > model->widest)
            model->widest = model->layers[i].outputs;
    }
    *out = model;
    return 0;
}

void nn_model_free(struct nn_model *model)
{
    free(model);
}

size_t nn_model_parameters(const struct nn_model *model)
{
    return model->parameters;
}

size_t nn_model_inputs(const struct nn_model *model)
{
    return model->inputs;
}

size_t nn_model_outputs(const struct nn_model *model)
{
    return model->outputs;
}

uint32_t nn_model_tensors(const struct nn_model *model)
{
    return model->tensor_count;
}

struct nn_tensor nn_model_tensor(const struct nn_model *model, uint32_t idx)
{
    assert(idx < model->tensor_count);

    return model->tensors[idx];
}

double nn_model_flops(const struct nn_model *model)
{
    double flops = 0.0;
    bool is_first = true;

    for (uint32_t i = 0; i < model->count; i++) {
        const struct layer *layer = &model->layers[i];
        /* Output and weight gradient; the gradient of the input only where someone needs it. */
        double products = is_first ? 2.0 : 3.0;
        if (layer->kind != LAYER_DENSE)
            continue;
        flops += products * 2.0 * (double)layer->inputs * (double)layer->outputs;
        is_first = false;
    }
    return flops;
}
