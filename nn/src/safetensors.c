/* SPDX-License-Identifier: MIT */
/*
 * safetensors: u64 LE length of the header, the header (JSON, padded with spaces to 8 bytes), the
 * tensors.  Ours are f32 little-endian in the order of the model's table, so the data is the
 * model's vector as it lies in memory.
 */
#include "file.h"
#include "table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8,
    HEADER_MAX = 1 << 20, /* of foreign files; the format itself allows 100 MB */
    ENTRY_BYTES = 256,    /* more than the JSON of one tensor takes */
    ESCAPE_BYTES = 6      /* \u0000 */
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are written as they lie");
static_assert(sizeof(float) == 4, "F32");

struct text {
    char *bytes;
    size_t len;
    size_t cap;
};

static void put(struct text *text, const char *bytes, size_t len)
{
    assert(len <= text->cap - text->len);
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
}

static void put_string(struct text *text, const char *string)
{
    put(text, "\"", 1);
    for (const char *c = string; *c != '\0'; c++) {
        char escaped[ESCAPE_BYTES + 1];
        bool plain = (unsigned char)*c >= ' ' && *c != '"' && *c != '\\';

        snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(unsigned char)*c);
        put(text, plain ? c : escaped, plain ? 1 : ESCAPE_BYTES);
    }
    put(text, "\"", 1);
}

static void put_metadata(struct text *text, const char *const *metadata)
{
    put(text, "\"__metadata__\":{", 16);
    for (size_t i = 0; metadata[i]; i += 2) {
        assert(metadata[i + 1]);
        if (i > 0)
            put(text, ",", 1);
        put_string(text, metadata[i]);
        put(text, ":", 1);
        put_string(text, metadata[i + 1]);
    }
    put(text, "},", 2);
}

static void put_tensor(struct text *text, const struct nn_tensor *tensor)
{
    char entry[ENTRY_BYTES];
    size_t used = (size_t)snprintf(entry, sizeof entry, ":{\"dtype\":\"F32\",\"shape\":[");
    for (uint32_t i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(entry + used, sizeof entry - used, "%s%" PRIu32, i > 0 ? "," : "",
                                 tensor->shape[i]);
    used += (size_t)snprintf(entry + used, sizeof entry - used, "],\"data_offsets\":[%zu,%zu]},",
                             tensor->offset * sizeof(float),
                             (tensor->offset + tensor->count) * sizeof(float));
    assert(used < sizeof entry);
    put_string(text, tensor->name);
    put(text, entry, used);
}

/* An upper bound of the header's bytes. */
static size_t header_bound(const struct nn_model *model, const char *const *metadata)
{
    size_t bound =
        64 + (size_t)nn_model_tensors(model) * (ENTRY_BYTES + NN_NAME_MAX * ESCAPE_BYTES);

    for (size_t i = 0; metadata && metadata[i]; i++)
        bound += strlen(metadata[i]) * ESCAPE_BYTES + 8;
    return bound;
}

static int write_header(struct text *text, const struct nn_model *model,
                        const char *const *metadata)
{
    uint64_t len;

    assert(nn_model_tensors(model) > 0);
    text->cap = header_bound(model, metadata);
    text->bytes = malloc(text->cap);
    if (!text->bytes)
        return NN_ENOMEM;
    text->len = LENGTH_BYTES;
    put(text, "{", 1);
    if (metadata && metadata[0])
        put_metadata(text, metadata);
    for (uint32_t i = 0; i < nn_model_tensors(model); i++) {
        struct nn_tensor tensor = nn_model_tensor(model, i);

        put_tensor(text, &tensor);
    }
    text->len--; /* the comma after the last */
    put(text, "}", 1);
    while (text->len % 8 != 0)
        put(text, " ", 1);
    len = text->len - LENGTH_BYTES;
    memcpy(text->bytes, &len, LENGTH_BYTES);
    return NN_OK;
}

int nn_safetensors_write(const char *path, const struct nn_model *model, const float *vector,
                         const char *const *metadata, struct nn_error *error)
{
    struct text text = {0};
    struct file_span spans[2];
    int err = write_header(&text, model, metadata);

    if (err)
        return file_fail(error, err, path, "no memory for the header");
    spans[0] = (struct file_span){text.bytes, text.len};
    spans[1] = (struct file_span){vector, nn_model_parameters(model) * sizeof(float)};
    err = file_replace(path, spans, 2, error);
    free(text.bytes);
    return err;
}

/* Reads length and header: the file then stands at the data. */
static int read_table(struct table *table, struct file_in *file, struct nn_error *error)
{
    uint64_t len;
    char *json;
    int err = file_read(file, &len, LENGTH_BYTES, "header's length", error);

    if (err)
        return err;
    if (len > HEADER_MAX)
        return file_fail(error, NN_EFORMAT, file->path,
                         "a header of %" PRIu64 " bytes: not safetensors, or above the %d allowed",
                         len, HEADER_MAX);
    if (file->len < LENGTH_BYTES || len > file->len - LENGTH_BYTES)
        return file_fail(error, NN_EFORMAT, file->path, "truncated: ends within the header");
    json = malloc((size_t)len + 1); /* one more: of no bytes malloc may give NULL */
    if (!json)
        return file_fail(error, NN_ENOMEM, file->path, "no memory for the header");
    err = file_read(file, json, (size_t)len, "header", error);
    if (!err)
        err = table_parse(table, json, (size_t)len, file->len - LENGTH_BYTES - len, file->path,
                          error);
    free(json);
    return err;
}

static int read_all(struct nn_safetensors *out, struct file_in *file, struct nn_error *error)
{
    struct table table = {0};
    float *vector;
    int err = read_table(&table, file, error);

    if (err)
        return err;
    vector = nn_floats(table.floats);
    if (!vector) {
        err = file_fail(error, NN_ENOMEM, file->path, "no memory for %zu floats", table.floats);
        goto out;
    }
    err = file_read(file, vector, table.floats * sizeof(float), "data", error);
    if (err)
        goto out;
    out->tensors = table.count;
    out->table = table.tensors;
    out->vector = vector;
    out->count = table.floats;
    return NN_OK;
out:
    nn_floats_free(vector);
    table_fini(&table);
    return err;
}

int nn_safetensors_open(struct nn_safetensors *out, const char *path, struct nn_error *error)
{
    struct file_in file;
    int err = file_open(&file, path, error);

    if (err)
        return err;
    err = read_all(out, &file, error);
    file_close(&file);
    return err;
}

void nn_safetensors_close(struct nn_safetensors *file)
{
    free(file->table);
    nn_floats_free(file->vector);
    *file = (struct nn_safetensors){0};
}

/* Is the file's table the model's, in whatever order? */
static int match_model(const struct table *table, const struct nn_model *model, const char *path,
                       struct nn_error *error)
{
    for (uint32_t i = 0; i < nn_model_tensors(model); i++) {
        struct nn_tensor want = nn_model_tensor(model, i);
        const struct nn_tensor *have = table_find(table, want.name);

        if (!have)
            return file_fail(error, NN_EFORMAT, path, "tensor %s of the model is missing",
                             want.name);
        if (have->rank != want.rank ||
            memcmp(have->shape, want.shape, want.rank * sizeof want.shape[0]) != 0)
            return file_fail(error, NN_EFORMAT, path,
                             "tensor %s has another shape than in the model", want.name);
    }
    if (table->count != nn_model_tensors(model))
        return file_fail(error, NN_EFORMAT, path, "%" PRIu32 " tensors, the model has %" PRIu32,
                         table->count, nn_model_tensors(model));
    return NN_OK;
}

int nn_safetensors_read(const char *path, const struct nn_model *model, float *vector,
                        struct nn_error *error)
{
    struct nn_safetensors file = {0};
    int err = nn_safetensors_open(&file, path, error);

    if (err)
        return err;
    const struct table table = {.tensors = file.table, .count = file.tensors};
    err = match_model(&table, model, path, error);
    for (uint32_t i = 0; !err && i < nn_model_tensors(model); i++) {
        struct nn_tensor tensor = nn_model_tensor(model, i);
        const struct nn_tensor *from = table_find(&table, tensor.name);

        assert(from);
        assert(file.vector);
        memcpy(vector + tensor.offset, file.vector + from->offset, tensor.count * sizeof(float));
    }
    nn_safetensors_close(&file);
    return err;
}
