/* SPDX-License-Identifier: MIT */
/*
 * One leaf, forward and backward.  A scratch belongs to one thread; all its memory is taken when
 * it is opened.  Every product has a shape that the leaf alone decides, so its bits are the same
 * wherever it is computed.
 */
#include "activation.h"
#include "dense.h"
#include "loss.h"
#include "model.h"

#include <assert.h>
#include <stdlib.h>

struct nn_scratch {
    const struct nn_model *model;
    size_t samples_max;
    uint32_t first_dense;             /* the backward pass ends here: below it nothing is trained */
    float *outputs[MODEL_LAYERS_MAX]; /* (samples_max, outputs) of each layer */
    float *deltas[2];                 /* (samples_max, widest): gradient by y, and by x */
};

static float *open_rows(size_t rows, size_t cols)
{
    return cols != 0 && rows > SIZE_MAX / cols ? NULL : nn_floats(rows * cols);
}

int nn_scratch_open(struct nn_scratch **out, const struct nn_model *model, size_t samples_max)
{
    assert(samples_max >= 1);

    struct nn_scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch == NULL)
        return NN_ENOMEM;
    scratch->model = model;
    scratch->samples_max = samples_max;
    while (model->layers[scratch->first_dense].kind != LAYER_DENSE)
        scratch->first_dense++;
    bool all = true;
    for (uint32_t i = 0; i < model->count; i++) {
        scratch->outputs[i] = open_rows(samples_max, model->layers[i].outputs);
        all = all && scratch->outputs[i] != NULL;
    }
    for (int i = 0; i < 2; i++) {
        scratch->deltas[i] = open_rows(samples_max, model->widest);
        all = all && scratch->deltas[i] != NULL;
    }
    if (!all) {
        nn_scratch_free(scratch);
        return NN_ENOMEM;
    }
    *out = scratch;
    return 0;
}

void nn_scratch_free(struct nn_scratch *scratch)
{
    if (scratch == NULL)
        return;
    for (uint32_t i = 0; i < scratch->model->count; i++)
        nn_floats_free(scratch->outputs[i]);
    for (int i = 0; i < 2; i++)
        nn_floats_free(scratch->deltas[i]);
    free(scratch);
}

/* What layer idx reads. */
static const float *input_of(const struct nn_scratch *scratch, const struct nn_batch *batch,
                             uint32_t idx)
{
    return idx == 0 ? batch->x : scratch->outputs[idx - 1];
}

/* The layers up to the loss; its gradient is left in deltas[0]. */
static void forward(struct nn_scratch *scratch, const float *weights, const struct nn_batch *batch,
                    struct nn_result *result)
{
    const struct nn_model *model = scratch->model;

    assert(batch->count >= 1);
    assert(batch->count <= scratch->samples_max);
    for (uint32_t i = 0; i < model->count; i++) {
        const struct layer *layer = &model->layers[i];
        const float *x = input_of(scratch, batch, i);
        switch (layer->kind) {
        case LAYER_DENSE:
            dense_forward(layer, weights, x, batch->count, scratch->outputs[i]);
            break;
        case LAYER_ACTIVATION:
            activation_forward(layer, x, batch->count, scratch->outputs[i]);
            break;
        }
    }
    const struct loss_input end = {.output = scratch->outputs[model->count - 1],
                                   .labels = batch->labels,
                                   .count = batch->count,
                                   .classes = model->outputs};
    loss_gradient(model->loss, &end, scratch->deltas[0], result);
}

void nn_gradient(struct nn_scratch *scratch, const float *weights, const struct nn_batch *batch,
                 float *grad, struct nn_result *result)
{
    const struct nn_model *model = scratch->model;
    float *dy = scratch->deltas[0];
    float *dx = scratch->deltas[1];
    struct nn_result r;

    forward(scratch, weights, batch, &r);
    for (uint32_t i = model->count; i-- > scratch->first_dense;) {
        const struct layer *layer = &model->layers[i];
        if (layer->kind == LAYER_ACTIVATION) {
            activation_backward(layer, scratch->outputs[i], batch->count, dy);
            continue;
        }
        const struct dense_backward pass = {.batch = batch->count,
                                            .x = input_of(scratch, batch, i),
                                            .y = scratch->outputs[i],
                                            .dy = dy,
                                            .dx = i == scratch->first_dense ? NULL : dx};
        r.finite &= dense_backward(layer, weights, &pass, grad);
        float *swap = dy;
        dy = dx;
        dx = swap;
    }
    *result = r;
}

void nn_evaluate(struct nn_scratch *scratch, const float *weights, const struct nn_batch *batch,
                 struct nn_result *result)
{
    forward(scratch, weights, batch, result);
}
