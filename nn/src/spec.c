/* SPDX-License-Identifier: MIT */
/* The one door of nn to jansson. */
#include "spec.h"

#include "fail.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

enum { KEY_MAX = 64, PLACE_MAX = 32, INPUTS_MAX = 1 << 24, VALUE_MAX = 48 };

/* What the user wrote, short enough for one line. */
static const char *shown(const json_t *value, char out[VALUE_MAX])
{
    size_t len = json_dumpb(value, out, VALUE_MAX - 1, JSON_ENCODE_ANY | JSON_COMPACT);

    if (len >= VALUE_MAX)
        memcpy(out + VALUE_MAX - 4, "...", 4);
    else
        out[len] = '\0';
    return out;
}

/* Every key must be one of allowed, a list that ends with NULL. */
static int check_keys(json_t *object, const char *const *allowed, const char *place,
                      struct nn_error *error)
{
    char list[128] = "";
    size_t used = 0;
    const char *key;
    json_t *value;

    for (size_t i = 0; allowed[i] != NULL; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ",
                                 allowed[i]);
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (allowed[i] != NULL && strcmp(allowed[i], key) != 0)
            i++;
        if (allowed[i] == NULL) {
            char where[KEY_MAX];
            snprintf(where, sizeof where, "%s%s%.32s", place, place[0] == '\0' ? "" : ".", key);
            return nn_fail(error, NN_EINVAL, where, "unknown key \"%.32s\"; allowed are: %s", key,
                           list);
        }
    }
    return 0;
}

static int parse_whole(const json_t *value, const char *place, uint32_t max, uint32_t *out,
                       struct nn_error *error)
{
    char text[VALUE_MAX];

    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > (json_int_t)max)
        return nn_fail(error, NN_EINVAL, place, "must be a whole number from 1 to %u, is %s", max,
                       shown(value, text));
    *out = (uint32_t)json_integer_value(value);
    return 0;
}

static int parse_input(const json_t *root, struct spec *spec, struct nn_error *error)
{
    const json_t *input = json_object_get(root, "input");
    size_t rank = json_array_size(input);
    uint64_t product = 1;

    if (input == NULL)
        return nn_fail(error, NN_EINVAL, "input", "is missing; it is the shape of a sample: [784]");
    if (!json_is_array(input) || rank < 1 || rank > NN_RANK_MAX)
        return nn_fail(error, NN_EINVAL, "input", "must be a list of 1 to %d sizes, as in [784]",
                       NN_RANK_MAX);
    for (size_t i = 0; i < rank; i++) {
        char place[KEY_MAX];
        uint32_t size = 0;
        snprintf(place, sizeof place, "input[%zu]", i);
        int err = parse_whole(json_array_get(input, i), place, INPUTS_MAX, &size, error);
        if (err < 0)
            return err;
        product *= size;
        if (product > INPUTS_MAX)
            return nn_fail(error, NN_EINVAL, "input", "a sample may have up to %d values",
                           INPUTS_MAX);
    }
    spec->inputs = (size_t)product;
    return 0;
}

static int parse_activation(const json_t *value, const char *place, struct spec_layer *layer,
                            struct nn_error *error)
{
    static const char *const names[ACT_COUNT] = {
        [ACT_RELU] = "relu", [ACT_SIGMOID] = "sigmoid", [ACT_TANH] = "tanh"};
    char text[VALUE_MAX];

    for (int act = ACT_RELU; act < ACT_COUNT; act++) {
        if (strcmp(json_string_value(value), names[act]) == 0) {
            *layer =
                (struct spec_layer){.kind = LAYER_ACTIVATION, .activation = (enum activation)act};
            return 0;
        }
    }
    return nn_fail(error, NN_EINVAL, place,
                   "unknown layer %s; allowed are: \"relu\", \"sigmoid\", \"tanh\" and "
                   "{\"dense\": units}",
                   shown(value, text));
}

static int parse_init(const json_t *value, const char *place, enum layer_init *init,
                      struct nn_error *error)
{
    const char *name = json_string_value(value);
    char text[VALUE_MAX];

    if (name != NULL && strcmp(name, "kaiming") == 0)
        *init = INIT_KAIMING;
    else if (name != NULL && strcmp(name, "xavier") == 0)
        *init = INIT_XAVIER;
    else
        return nn_fail(error, NN_EINVAL, place, "must be \"kaiming\" or \"xavier\", is %s",
                       shown(value, text));
    return 0;
}

static int parse_dense(json_t *value, const char *place, struct spec_layer *layer,
                       struct nn_error *error)
{
    static const char *const allowed[] = {"dense", "init", "bias", NULL};
    struct spec_layer dense = {.kind = LAYER_DENSE, .init = INIT_DEFAULT, .bias = true};
    const json_t *units = json_object_get(value, "dense");
    const json_t *init = json_object_get(value, "init");
    const json_t *bias = json_object_get(value, "bias");
    char where[KEY_MAX];
    char text[VALUE_MAX];

    int err = check_keys(value, allowed, place, error);
    if (err < 0)
        return err;
    snprintf(where, sizeof where, "%s.dense", place);
    if (units == NULL)
        return nn_fail(error, NN_EINVAL, where, "is missing; a layer is {\"dense\": units}");
    err = parse_whole(units, where, MODEL_UNITS_MAX, &dense.units, error);
    if (err < 0)
        return err;
    snprintf(where, sizeof where, "%s.init", place);
    if (init != NULL && (err = parse_init(init, where, &dense.init, error)) < 0)
        return err;
    snprintf(where, sizeof where, "%s.bias", place);
    if (bias != NULL && !json_is_boolean(bias))
        return nn_fail(error, NN_EINVAL, where, "must be true or false, is %s", shown(bias, text));
    if (bias != NULL)
        dense.bias = json_is_true(bias);
    *layer = dense;
    return 0;
}

static int parse_layers(const json_t *root, struct spec *spec, struct nn_error *error)
{
    const json_t *layers = json_object_get(root, "layers");
    size_t count = json_array_size(layers);
    bool any_dense = false;

    if (!json_is_array(layers) || count < 1 || count > MODEL_LAYERS_MAX)
        return nn_fail(error, NN_EINVAL, "layers", "must be a list of 1 to %d layers, %s",
                       MODEL_LAYERS_MAX, layers == NULL ? "is missing" : "is not");
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_array_get(layers, i);
        char place[PLACE_MAX];
        int err;
        snprintf(place, sizeof place, "layers[%zu]", i);
        if (json_is_string(value))
            err = parse_activation(value, place, &spec->layers[i], error);
        else if (json_is_object(value))
            err = parse_dense(value, place, &spec->layers[i], error);
        else
            err = nn_fail(error, NN_EINVAL, place,
                          "must be a name or an object: \"relu\" or {\"dense\": units}");
        if (err < 0)
            return err;
        any_dense |= spec->layers[i].kind == LAYER_DENSE;
    }
    if (!any_dense)
        return nn_fail(error, NN_EINVAL, "layers",
                       "nothing to train: at least one layer must be {\"dense\": units}");
    spec->count = (uint32_t)count;
    return 0;
}

static int parse_loss(const json_t *root, struct spec *spec, struct nn_error *error)
{
    const json_t *loss = json_object_get(root, "loss");
    const char *name = json_string_value(loss);
    char text[VALUE_MAX];

    if (loss == NULL)
        return nn_fail(error, NN_EINVAL, "loss",
                       "is missing; allowed are \"cross_entropy\" and \"mse\"");
    if (name != NULL && strcmp(name, "cross_entropy") == 0)
        spec->loss = LOSS_CROSS_ENTROPY;
    else if (name != NULL && strcmp(name, "mse") == 0)
        spec->loss = LOSS_MSE;
    else
        return nn_fail(error, NN_EINVAL, "loss", "must be \"cross_entropy\" or \"mse\", is %s",
                       shown(loss, text));
    return 0;
}

int spec_parse(struct spec *out, const char *json, size_t len, struct nn_error *error)
{
    static const char *const allowed[] = {"input", "layers", "loss", NULL};
    json_error_t syntax;
    struct spec spec = {.inputs = 0};
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &syntax);
    int err;

    if (root == NULL)
        return nn_fail(error, NN_EINVAL, NULL, "line %d column %d: %s", syntax.line, syntax.column,
                       syntax.text);
    if (!json_is_object(root))
        err = nn_fail(error, NN_EINVAL, NULL, "a model is an object with input, layers and loss");
    else
        err = check_keys(root, allowed, "", error);
    if (err == 0)
        err = parse_input(root, &spec, error);
    if (err == 0)
        err = parse_layers(root, &spec, error);
    if (err == 0)
        err = parse_loss(root, &spec, error);
    if (err == 0)
        *out = spec;
    json_decref(root);
    return err;
}
