/* SPDX-License-Identifier: MIT */
/*
 * Reads the one shape of JSON that a safetensors header has:
 *   {"__metadata__": {"key": "text", ...}, "name": {"dtype": "F32", "shape": [2, 3],
 *    "data_offsets": [0, 24]}, ...}
 *
 * DESIGN: recursive descent without recursion, since the depth is fixed; one pass, no tree.  Every
 * step returns false and leaves a reason behind.  The data must be covered without gap or overlap:
 * then the sorted offsets are running sums, and one comparison a tensor proves it.
 */
#include "table.h"
#include "file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    TENSORS_MAX = 4096,
    KEY_BYTES = 16, /* more than the longest key there is: "data_offsets" */
    SHOWN = 40      /* of a name in an error */
};

struct parser {
    const char *at;
    const char *end;
    const char *begin;
    const char *path;
    struct nn_error *error;
    uint32_t capacity;
};

static bool refuse(struct parser *p, const char *reason)
{
    file_fail(p->error, NN_EFORMAT, p->path, "header, byte %zu: %s", (size_t)(p->at - p->begin),
              reason);
    return false;
}

static void skip_space(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        p->at++;
}

static bool next_is(struct parser *p, char expected)
{
    skip_space(p);
    if (p->at == p->end || *p->at != expected)
        return false;
    p->at++;
    return true;
}

static bool expect(struct parser *p, char expected)
{
    char reason[] = "'?' expected";

    if (next_is(p, expected))
        return true;
    reason[1] = expected;
    return refuse(p, reason);
}

/* A string's bytes as they stand between the quotes, escapes included. */
static bool take_string(struct parser *p, const char **text, size_t *len)
{
    if (!expect(p, '"'))
        return false;
    *text = p->at;
    while (p->at < p->end && *p->at != '"') {
        if ((unsigned char)*p->at < ' ')
            return refuse(p, "control character in a string");
        if (*p->at == '\\' && p->end - p->at >= 2)
            p->at++;
        p->at++;
    }
    if (p->at == p->end)
        return refuse(p, "a string does not end");
    *len = (size_t)(p->at - *text);
    p->at++;
    return true;
}

/* A string without escapes that fits into cap bytes with its NUL. */
static bool take_name(struct parser *p, char *name, size_t cap)
{
    const char *text;
    size_t len;

    if (!take_string(p, &text, &len))
        return false;
    if (len >= cap)
        return refuse(p, "the name before this place is too long");
    if (memchr(text, '\\', len))
        return refuse(p, "escapes in names are not allowed");
    memcpy(name, text, len);
    name[len] = '\0';
    return true;
}

static bool take_number(struct parser *p, uint64_t *out)
{
    const char *first;
    uint64_t value = 0;

    skip_space(p);
    first = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        uint64_t digit = (uint64_t)(*p->at - '0');

        if (value > (UINT64_MAX - digit) / 10)
            return refuse(p, "number too large");
        value = value * 10 + digit;
        p->at++;
    }
    if (p->at == first)
        return refuse(p, "a whole number, not negative, expected");
    *out = value;
    return true;
}

static bool take_numbers(struct parser *p, uint64_t *out, uint32_t max, uint32_t *count)
{
    *count = 0;
    if (!expect(p, '['))
        return false;
    if (next_is(p, ']'))
        return true;
    do {
        if (*count == max)
            return refuse(p, "too many numbers");
        if (!take_number(p, &out[*count]))
            return false;
        (*count)++;
    } while (next_is(p, ','));
    return expect(p, ']');
}

static bool skip_metadata(struct parser *p)
{
    const char *text;
    size_t len;

    if (!expect(p, '{'))
        return false;
    if (next_is(p, '}'))
        return true;
    do {
        if (!take_string(p, &text, &len) || !expect(p, ':') || !take_string(p, &text, &len))
            return false;
    } while (next_is(p, ','));
    return expect(p, '}');
}

static bool take_dtype(struct parser *p)
{
    char dtype[KEY_BYTES];

    if (!take_name(p, dtype, sizeof dtype))
        return false;
    return strcmp(dtype, "F32") == 0 || refuse(p, "dtype: only F32 is allowed");
}

static bool take_shape(struct parser *p, struct nn_tensor *tensor)
{
    uint64_t shape[NN_RANK_MAX];

    if (!take_numbers(p, shape, NN_RANK_MAX, &tensor->rank))
        return false;
    tensor->count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (shape[i] > UINT32_MAX ||
            (shape[i] > 0 && tensor->count > SIZE_MAX / sizeof(float) / shape[i]))
            return refuse(p, "shape too large");
        tensor->shape[i] = (uint32_t)shape[i];
        tensor->count *= (size_t)shape[i];
    }
    return true;
}

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

/* One `"key": value` of a tensor; sets its bit in seen. */
static bool take_field(struct parser *p, struct nn_tensor *tensor, uint64_t offsets[2],
                       unsigned *seen)
{
    char key[KEY_BYTES];
    uint32_t count = 0;
    unsigned bit = 0;
    bool good = false;

    if (!take_name(p, key, sizeof key) || !expect(p, ':'))
        return false;
    if (strcmp(key, "dtype") == 0) {
        bit = HAS_DTYPE;
        good = take_dtype(p);
    } else if (strcmp(key, "shape") == 0) {
        bit = HAS_SHAPE;
        good = take_shape(p, tensor);
    } else if (strcmp(key, "data_offsets") == 0) {
        bit = HAS_OFFSETS;
        good = take_numbers(p, offsets, 2, &count) &&
               (count == 2 || refuse(p, "data_offsets: two numbers expected"));
    } else {
        return refuse(p, "only dtype, shape and data_offsets are allowed");
    }
    if (good && (*seen & bit))
        return refuse(p, "a key stands here twice");
    *seen |= bit;
    return good;
}

static bool take_tensor(struct parser *p, struct nn_tensor *tensor)
{
    uint64_t offsets[2] = {0};
    unsigned seen = 0;

    if (!expect(p, '{'))
        return false;
    do {
        if (!take_field(p, tensor, offsets, &seen))
            return false;
    } while (next_is(p, ','));
    if (!expect(p, '}'))
        return false;
    if (seen != HAS_ALL)
        return refuse(p, "dtype, shape and data_offsets are all needed");
    if (offsets[1] < offsets[0] || offsets[1] - offsets[0] != tensor->count * sizeof(float))
        return refuse(p, "data_offsets do not span the bytes of the shape");
    if (offsets[0] % sizeof(float) != 0)
        return refuse(p, "data_offsets are not at a float");
    tensor->offset = (size_t)(offsets[0] / sizeof(float));
    return true;
}

static bool append(struct parser *p, struct table *table, const struct nn_tensor *tensor)
{
    if (table_find(table, tensor->name))
        return refuse(p, "two tensors of the same name");
    if (table->count == TENSORS_MAX)
        return refuse(p, "too many tensors");
    if (table->count == p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : 16;
        struct nn_tensor *grown = realloc(table->tensors, capacity * sizeof *grown);

        if (!grown)
            return refuse(p, "out of memory");
        table->tensors = grown;
        p->capacity = capacity;
    }
    assert(table->tensors);
    table->tensors[table->count++] = *tensor;
    return true;
}

static bool take_entry(struct parser *p, struct table *table)
{
    struct nn_tensor tensor = {0};

    if (!take_name(p, tensor.name, sizeof tensor.name) || !expect(p, ':'))
        return false;
    if (strcmp(tensor.name, "__metadata__") == 0)
        return skip_metadata(p);
    return take_tensor(p, &tensor) && append(p, table, &tensor);
}

static bool take_all(struct parser *p, struct table *table)
{
    if (!expect(p, '{'))
        return false;
    if (!next_is(p, '}')) {
        do {
            if (!take_entry(p, table))
                return false;
        } while (next_is(p, ','));
        if (!expect(p, '}'))
            return false;
    }
    skip_space(p);
    return p->at == p->end || refuse(p, "bytes after the end of the JSON");
}

static int by_offset(const void *left, const void *right)
{
    const struct nn_tensor *a = left;
    const struct nn_tensor *b = right;

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    /* Empty tensors stand before the one that begins at the same place. */
    return (a->count > b->count) - (a->count < b->count);
}

static bool is_covering(struct parser *p, struct table *table, uint64_t data_len)
{
    if (table->count > 0)
        qsort(table->tensors, table->count, sizeof *table->tensors, by_offset);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct nn_tensor *tensor = &table->tensors[i];

        if (tensor->offset != table->floats) {
            file_fail(p->error, NN_EFORMAT, p->path, "tensor %.*s %s", SHOWN, tensor->name,
                      tensor->offset < table->floats ? "overlaps the one before it"
                                                     : "leaves a gap before it");
            return false;
        }
        table->floats += tensor->count;
    }
    if (table->floats == data_len / sizeof(float) && data_len % sizeof(float) == 0)
        return true;
    file_fail(p->error, NN_EFORMAT, p->path,
              "the header describes %llu bytes of data, the file holds %llu",
              (unsigned long long)table->floats * sizeof(float), (unsigned long long)data_len);
    return false;
}

int table_parse(struct table *out, const char *json, size_t len, uint64_t data_len,
                const char *path, struct nn_error *error)
{
    struct parser p = {.at = json, .end = json + len, .begin = json, .path = path, .error = error};
    struct table table = {0};

    if (!take_all(&p, &table) || !is_covering(&p, &table, data_len)) {
        table_fini(&table);
        return NN_EFORMAT;
    }
    *out = table;
    return NN_OK;
}

void table_fini(struct table *table)
{
    free(table->tensors);
    *table = (struct table){0};
}

const struct nn_tensor *table_find(const struct table *table, const char *name)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (strcmp(table->tensors[i].name, name) == 0)
            return &table->tensors[i];
    }
    return NULL;
}
