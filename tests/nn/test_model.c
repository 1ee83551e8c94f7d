/* SPDX-License-Identifier: MIT */
#include "nn/nn.h"

#include "suite.h"

#include <stdio.h>
#include <string.h>

static struct nn_model *open_ok(const char *json)
{
    struct nn_model *model = NULL;
    struct nn_error error = {.text = ""};

    ck_assert_msg(nn_model_open(&model, json, strlen(json), &error) == 0, "%s: %s", error.key,
                  error.text);
    return model;
}

START_TEST(model__table_of_tensors)
{
    struct nn_model *model =
        open_ok("{\"input\": [28, 28], \"layers\": [{\"dense\": 30}, \"relu\", {\"dense\": 20, "
                "\"bias\": false}, \"tanh\", {\"dense\": 10}], \"loss\": \"cross_entropy\"}");
    static const struct nn_tensor expected[] = {
        {.name = "0.weight", .offset = 0, .count = 23520, .rank = 2, .shape = {30, 784}},
        {.name = "0.bias", .offset = 23520, .count = 30, .rank = 1, .shape = {30}},
        {.name = "2.weight", .offset = 23550, .count = 600, .rank = 2, .shape = {20, 30}},
        {.name = "4.weight", .offset = 24150, .count = 200, .rank = 2, .shape = {10, 20}},
        {.name = "4.bias", .offset = 24350, .count = 10, .rank = 1, .shape = {10}},
    };

    ck_assert_uint_eq(nn_model_inputs(model), 784);
    ck_assert_uint_eq(nn_model_outputs(model), 10);
    ck_assert_uint_eq(nn_model_parameters(model), 24360);
    ck_assert_uint_eq(nn_model_tensors(model), 5);
    for (uint32_t i = 0; i < 5; i++) {
        struct nn_tensor tensor = nn_model_tensor(model, i);
        ck_assert_str_eq(tensor.name, expected[i].name);
        ck_assert_uint_eq(tensor.offset, expected[i].offset);
        ck_assert_uint_eq(tensor.count, expected[i].count);
        ck_assert_uint_eq(tensor.rank, expected[i].rank);
        for (int j = 0; j < NN_RANK_MAX; j++)
            ck_assert_uint_eq(tensor.shape[j], expected[i].shape[j]);
    }
    /* Twice the products forward, twice for the weights, twice for the inputs of all but one. */
    ck_assert_double_eq(nn_model_flops(model), 4.0 * 23520 + 6.0 * 600 + 6.0 * 200);
    nn_model_free(model);
}
END_TEST

START_TEST(model__activations_anywhere)
{
    struct nn_model *model =
        open_ok("{\"input\":[3],\"layers\":[\"tanh\",\"relu\",{\"dense\":4},\"relu\",\"sigmoid\","
                "{\"dense\":2,\"init\":\"xavier\"},\"tanh\"],\"loss\":\"mse\"}");

    ck_assert_uint_eq(nn_model_tensors(model), 4);
    ck_assert_str_eq(nn_model_tensor(model, 0).name, "2.weight");
    ck_assert_str_eq(nn_model_tensor(model, 3).name, "5.bias");
    ck_assert_uint_eq(nn_model_parameters(model), 3 * 4 + 4 + 4 * 2 + 2);
    nn_model_free(model);
}
END_TEST

/* What is wrong, where the error must point, and a part of what it must say. */
static const struct {
    const char *json, *key, *text;
} faults[] = {
    {"", "", "line 1"},
    {"{", "", "line 1"},
    {"[]", "", "a model is an object"},
    {"{\"input\":[2],\"input\":[2]}", "", "duplicate"},
    {"{\"inputs\":[2]}", "inputs", "allowed are: input, layers, loss"},
    {"{\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}", "input", "is missing"},
    {"{\"input\":784,\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}", "input", "list of 1 to 4"},
    {"{\"input\":[],\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}", "input", "list of 1 to 4"},
    {"{\"input\":[1,1,1,1,1],\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}", "input", "1 to 4"},
    {"{\"input\":[0],\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}", "input[0]", "is 0"},
    {"{\"input\":[2,-3],\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}", "input[1]", "is -3"},
    {"{\"input\":[1e3],\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}", "input[0]", "whole number"},
    {"{\"input\":[5000,5000],\"layers\":[{\"dense\":2}],\"loss\":\"mse\"}", "input", "16777216"},
    {"{\"input\":[2],\"loss\":\"mse\"}", "layers", "is missing"},
    {"{\"input\":[2],\"layers\":[],\"loss\":\"mse\"}", "layers", "1 to 64"},
    {"{\"input\":[2],\"layers\":{},\"loss\":\"mse\"}", "layers", "1 to 64"},
    {"{\"input\":[2],\"layers\":[\"relu\"],\"loss\":\"mse\"}", "layers", "nothing to train"},
    {"{\"input\":[2],\"layers\":[\"gelu\"],\"loss\":\"mse\"}", "layers[0]", "\"sigmoid\""},
    {"{\"input\":[2],\"layers\":[3],\"loss\":\"mse\"}", "layers[0]", "a name or an object"},
    {"{\"input\":[2],\"layers\":[{}],\"loss\":\"mse\"}", "layers[0].dense", "is missing"},
    {"{\"input\":[2],\"layers\":[{\"dense\":0}],\"loss\":\"mse\"}", "layers[0].dense", "is 0"},
    {"{\"input\":[2],\"layers\":[{\"dense\":65537}],\"loss\":\"mse\"}", "layers[0].dense", "65536"},
    {"{\"input\":[2],\"layers\":[{\"dense\":2.5}],\"loss\":\"mse\"}", "layers[0].dense", "is 2.5"},
    {"{\"input\":[2],\"layers\":[{\"dense\":\"10\"}],\"loss\":\"mse\"}", "layers[0].dense",
     "is \"10\""},
    {"{\"input\":[2],\"layers\":[{\"dense\":2},{\"dense\":2,\"unit\":1}],\"loss\":\"mse\"}",
     "layers[1].unit", "allowed are: dense, init, bias"},
    {"{\"input\":[2],\"layers\":[{\"dense\":2,\"init\":\"he\"}],\"loss\":\"mse\"}",
     "layers[0].init", "\"kaiming\" or \"xavier\""},
    {"{\"input\":[2],\"layers\":[{\"dense\":2,\"init\":1}],\"loss\":\"mse\"}", "layers[0].init",
     "is 1"},
    {"{\"input\":[2],\"layers\":[{\"dense\":2,\"bias\":1}],\"loss\":\"mse\"}", "layers[0].bias",
     "true or false"},
    {"{\"input\":[2],\"layers\":[{\"dense\":2}]}", "loss", "is missing"},
    {"{\"input\":[2],\"layers\":[{\"dense\":2}],\"loss\":\"l1\"}", "loss", "is \"l1\""},
    {"{\"input\":[2],\"layers\":[{\"dense\":2}],\"loss\":null}", "loss", "is null"},
    {"{\"input\":[65536],\"layers\":[{\"dense\":30000},{\"dense\":30000}],\"loss\":\"mse\"}",
     "layers[1].dense", "2^31"},
};

START_TEST(model__faults_name_place_and_remedy)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        static char anything;
        struct nn_model *untouched = (void *)&anything;
        struct nn_model *model = untouched;
        struct nn_error error = {.text = ""};
        ck_assert_int_eq(nn_model_open(&model, faults[i].json, strlen(faults[i].json), &error),
                         NN_EINVAL);
        ck_assert_ptr_eq(model, untouched);
        ck_assert_msg(strcmp(error.key, faults[i].key) == 0, "%s: key \"%s\", not \"%s\"",
                      faults[i].json, error.key, faults[i].key);
        ck_assert_msg(strstr(error.text, faults[i].text) != NULL, "%s: \"%s\" lacks \"%s\"",
                      faults[i].json, error.text, faults[i].text);
        ck_assert_ptr_null(strchr(error.text, '\n'));
    }
}
END_TEST

START_TEST(model__at_most_64_layers)
{
    for (int count = 64; count <= 65; count++) {
        char json[1024];
        size_t used = (size_t)snprintf(json, sizeof json,
                                       "{\"input\":[2],\"loss\":\"mse\",\"layers\":[{\"dense\":1}");
        for (int i = 1; i < count; i++)
            used += (size_t)snprintf(json + used, sizeof json - used, ",\"relu\"");
        snprintf(json + used, sizeof json - used, "]}");
        struct nn_model *model = NULL;
        int err = nn_model_open(&model, json, strlen(json), NULL);
        ck_assert_int_eq(err, count == 64 ? 0 : NN_EINVAL);
        nn_model_free(model);
    }
}
END_TEST

/* A description cut anywhere is refused and never read beyond its end. */
START_TEST(model__truncated_anywhere)
{
    const char *json = "{\"input\":[2],\"layers\":[{\"dense\":2,\"init\":\"xavier\"},\"tanh\"],"
                       "\"loss\":\"mse\"}";

    for (size_t len = 0; len < strlen(json); len++) {
        struct nn_model *model = NULL;
        char *copy = malloc(len + 1);
        memcpy(copy, json, len);
        ck_assert_int_eq(nn_model_open(&model, copy, len, NULL), NN_EINVAL);
        free(copy);
    }
    nn_model_free(open_ok(json));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        model__table_of_tensors,  model__activations_anywhere, model__faults_name_place_and_remedy,
        model__at_most_64_layers, model__truncated_anywhere,
    };

    return RUN_SUITE("model", tests);
}
