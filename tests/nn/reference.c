/* SPDX-License-Identifier: MIT */
#include "reference.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double activation(char kind, double x)
{
    switch (kind) {
    case 'r':
        return x > 0.0 ? x : 0.0;
    case 's':
        return 1.0 / (1.0 + exp(-x));
    default:
        assert(kind == 't');
        return tanh(x);
    }
}

static double end(char kind, const double *y, size_t count, uint32_t label)
{
    double sum = 0.0;

    for (size_t j = 0; j < count; j++) {
        double distance = y[j] - (j == label ? 1.0 : 0.0);
        sum += kind == 'c' ? exp(y[j]) : distance * distance / (double)count;
    }
    return kind == 'c' ? log(sum) - y[label] : sum;
}

double ref_loss(const struct ref_net *net, const double *weights, const float *x, uint32_t label)
{
    double a[REF_WIDTH_MAX], b[REF_WIDTH_MAX];
    size_t width = net->inputs;

    for (size_t j = 0; j < width; j++)
        a[j] = (double)x[j];
    for (size_t i = 0; i < net->count; i++) {
        const struct ref_layer *layer = &net->layers[i];
        if (layer->kind != 'd' && layer->kind != 'n') {
            for (size_t j = 0; j < width; j++)
                a[j] = activation(layer->kind, a[j]);
            continue;
        }
        const double *bias = weights + layer->units * width;
        for (size_t j = 0; j < layer->units; j++) {
            b[j] = layer->kind == 'd' ? bias[j] : 0.0;
            for (size_t l = 0; l < width; l++)
                b[j] += weights[j * width + l] * a[l];
        }
        weights = bias + (layer->kind == 'd' ? layer->units : 0);
        width = layer->units;
        memcpy(a, b, width * sizeof *a);
    }
    return end(net->loss, a, width, label);
}

size_t ref_parameters(const struct ref_net *net)
{
    size_t width = net->inputs;
    size_t count = 0;

    for (size_t i = 0; i < net->count; i++) {
        const struct ref_layer *layer = &net->layers[i];
        if (layer->kind != 'd' && layer->kind != 'n')
            continue;
        count += layer->units * (width + (layer->kind == 'd' ? 1 : 0));
        width = layer->units;
    }
    return count;
}

size_t ref_outputs(const struct ref_net *net)
{
    size_t width = net->inputs;

    for (size_t i = 0; i < net->count; i++) {
        if (net->layers[i].kind == 'd' || net->layers[i].kind == 'n')
            width = net->layers[i].units;
    }
    return width;
}

void ref_json(const struct ref_net *net, char *out, size_t cap)
{
    size_t used = (size_t)snprintf(out, cap, "{\"input\":[%zu],\"loss\":\"%s\",\"layers\":[",
                                   net->inputs, net->loss == 'c' ? "cross_entropy" : "mse");

    for (size_t i = 0; i < net->count; i++) {
        const struct ref_layer *layer = &net->layers[i];
        const char *comma = i == 0 ? "" : ",";
        if (layer->kind == 'd' || layer->kind == 'n') {
            used += (size_t)snprintf(out + used, cap - used, "%s{\"dense\":%zu,\"bias\":%s}", comma,
                                     layer->units, layer->kind == 'd' ? "true" : "false");
        } else {
            used += (size_t)snprintf(out + used, cap - used, "%s\"%s\"", comma,
                                     layer->kind == 'r'   ? "relu"
                                     : layer->kind == 's' ? "sigmoid"
                                                          : "tanh");
        }
        assert(used < cap);
    }
    snprintf(out + used, cap - used, "]}");
}
