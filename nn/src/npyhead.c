/* SPDX-License-Identifier: MIT */
/*
 * The header of .npy: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, a Python
 * dictionary of three keys in any order.
 */
#include "npyhead.h"
#include "file.h"

#include <string.h>

enum { DTYPE_BYTES = 8 };

struct cursor {
    const char *at; /* ends with NUL */
    const char *path;
    struct nn_error *error;
};

static int refuse(const struct cursor *c, const char *what)
{
    return file_fail(c->error, NN_EFORMAT, c->path, "header: %s", what);
}

/* Takes the word and the spaces before it, when it stands next. */
static bool take(struct cursor *c, const char *word)
{
    const char *at = c->at + strspn(c->at, " \n");

    if (strncmp(at, word, strlen(word)) != 0)
        return false;
    c->at = at + strlen(word);
    return true;
}

static int take_dtype(struct cursor *c, struct npy *npy)
{
    char dtype[DTYPE_BYTES];
    char quote = take(c, "'") ? '\'' : '"';
    const char *end;

    if (quote == '"' && !take(c, "\""))
        return refuse(c, "dtype: only '<f4' and '<f8' are allowed");
    end = strchr(c->at, quote);
    if (!end || end - c->at >= DTYPE_BYTES)
        return refuse(c, "dtype: only '<f4' and '<f8' are allowed");
    memcpy(dtype, c->at, (size_t)(end - c->at));
    dtype[end - c->at] = '\0';
    c->at = end + 1;
    if (strcmp(dtype, "<f4") != 0 && strcmp(dtype, "<f8") != 0)
        return file_fail(c->error, NN_EFORMAT, c->path,
                         "dtype '%s': only '<f4' and '<f8' are allowed", dtype);
    npy->item = dtype[2] == '4' ? 4 : 8;
    return NN_OK;
}

static int take_extent(struct cursor *c, size_t *out)
{
    size_t value = 0;
    const char *first;

    take(c, "");
    first = c->at += strspn(c->at, " ");
    for (; *c->at >= '0' && *c->at <= '9'; c->at++) {
        size_t digit = (size_t)(*c->at - '0');

        if (value > (SIZE_MAX - digit) / 10)
            return refuse(c, "shape: number too large");
        value = value * 10 + digit;
    }
    if (c->at == first)
        return refuse(c, "shape: one or two dimensions are allowed");
    if (value == 0)
        return refuse(c, "shape: an array without elements is not allowed");
    *out = value;
    return NN_OK;
}

/* (cols,) or (rows, cols), a comma at the end or not. */
static int take_shape(struct cursor *c, struct npy *npy)
{
    int err;

    if (!take(c, "("))
        return refuse(c, "shape: a tuple expected");
    npy->rows = 1;
    err = take_extent(c, &npy->cols);
    if (err)
        return err;
    if (!take(c, ","))
        return refuse(c, "shape: a tuple expected");
    if (take(c, ")"))
        return NN_OK;
    npy->rows = npy->cols;
    err = take_extent(c, &npy->cols);
    if (err)
        return err;
    take(c, ",");
    return take(c, ")") ? NN_OK : refuse(c, "shape: one or two dimensions are allowed");
}

enum { HAS_DTYPE = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

static int take_entry(struct cursor *c, struct npy *npy, unsigned *seen)
{
    unsigned bit = 0;
    int err = NN_OK;

    if (take(c, "'descr':") || take(c, "\"descr\":")) {
        bit = HAS_DTYPE;
        err = take_dtype(c, npy);
    } else if (take(c, "'fortran_order':") || take(c, "\"fortran_order\":")) {
        bit = HAS_ORDER;
        npy->fortran = take(c, "True");
        if (!npy->fortran && !take(c, "False"))
            err = refuse(c, "fortran_order: only True and False are allowed");
    } else if (take(c, "'shape':") || take(c, "\"shape\":")) {
        bit = HAS_SHAPE;
        err = take_shape(c, npy);
    } else {
        return refuse(c, "only descr, fortran_order and shape are allowed");
    }
    if (!err && (*seen & bit))
        return refuse(c, "a key stands here twice");
    *seen |= bit;
    return err;
}

static int take_all(struct cursor *c, struct npy *npy)
{
    unsigned seen = 0;

    if (!take(c, "{"))
        return refuse(c, "a dictionary expected");
    while (!take(c, "}")) {
        int err = take_entry(c, npy, &seen);

        if (err)
            return err;
        if (!take(c, ",") && c->at[strspn(c->at, " \n")] != '}')
            return refuse(c, "a comma expected");
    }
    if (c->at[strspn(c->at, " \n")] != '\0')
        return refuse(c, "bytes after its end");
    return seen == HAS_ALL ? NN_OK : refuse(c, "descr, fortran_order and shape are all needed");
}

int npyhead_parse(struct npy *out, const char *text, const char *path, struct nn_error *error)
{
    struct cursor c = {.at = text, .path = path, .error = error};
    struct npy npy = {0};
    int err = take_all(&c, &npy);

    if (!err)
        *out = npy;
    return err;
}
