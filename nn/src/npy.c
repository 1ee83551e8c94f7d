/* SPDX-License-Identifier: MIT */
/*
 * .npy, numpy's file of one array (versions 1 to 3): magic, version, the length of the header, the
 * header - a Python dictionary - and the elements.
 */
#include "file.h"
#include "npyhead.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAGIC_BYTES = 8,       /* with the version */
    HEADER_MAX = 64 << 10, /* of two dimensions numpy writes 118 bytes */
    ALIGNMENT = 64,        /* of the first element in the file, as numpy does it */
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are read as they lie");

static const char magic[6] = "\x93NUMPY";

/* Reads everything up to the elements; *at is where those begin. */
static int read_header(struct npy *npy, struct file_in *file, uint64_t *at, struct nn_error *error)
{
    uint8_t start[MAGIC_BYTES];
    uint8_t digits[4] = {0};
    char *text;
    size_t len_bytes;
    uint32_t len;
    int err = file_read(file, start, sizeof start, "magic", error);

    if (err)
        return err;
    if (memcmp(start, magic, sizeof magic) != 0)
        return file_fail(error, NN_EFORMAT, file->path, "not a .npy file");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return file_fail(error, NN_EFORMAT, file->path,
                         "version %u.%u: only 1.0 to 3.0 are allowed", start[6], start[7]);
    len_bytes = start[6] == 1 ? 2 : 4;
    err = file_read(file, digits, len_bytes, "header's length", error);
    if (err)
        return err;
    len = (uint32_t)digits[0] | (uint32_t)digits[1] << 8 | (uint32_t)digits[2] << 16 |
          (uint32_t)digits[3] << 24;
    if (len > HEADER_MAX)
        return file_fail(error, NN_EFORMAT, file->path, "a header of %u bytes: %d are allowed", len,
                         HEADER_MAX);
    text = malloc(len + 1);
    if (!text)
        return file_fail(error, NN_ENOMEM, file->path, "no memory for the header");
    err = file_read(file, text, len, "header", error);
    text[len] = '\0';
    if (!err)
        err = npyhead_parse(npy, text, file->path, error);
    free(text);
    *at = MAGIC_BYTES + len_bytes + len;
    return err;
}

/* The file holds the elements and nothing else: this bounds what we allocate, too. */
static int check_len(const struct npy *npy, const struct file_in *file, uint64_t at,
                     struct nn_error *error)
{
    uint64_t have = file->len > at ? file->len - at : 0;
    bool fits = npy->rows <= have / npy->item / npy->cols;
    uint64_t need = fits ? (uint64_t)npy->rows * npy->cols * npy->item : 0;

    if (!fits)
        return file_fail(error, NN_EFORMAT, file->path,
                         "truncated: %zu x %zu elements of %zu bytes promised, %llu bytes there",
                         npy->rows, npy->cols, npy->item, (unsigned long long)have);
    if (need != have)
        return file_fail(error, NN_EFORMAT, file->path,
                         "%llu bytes too many after %zu x %zu elements",
                         (unsigned long long)(have - need), npy->rows, npy->cols);
    return NN_OK;
}

static double element(const struct npy *npy, const char *raw, size_t idx)
{
    double wide;
    float narrow;

    if (npy->item == sizeof wide) {
        memcpy(&wide, raw + idx * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, raw + idx * sizeof narrow, sizeof narrow);
    return (double)narrow;
}

/* Whatever is not already what we hold: Fortran order, f8. */
static int convert(const struct npy *npy, const char *raw, float *data, const char *path,
                   struct nn_error *error)
{
    for (size_t row = 0; row < npy->rows; row++) {
        for (size_t col = 0; col < npy->cols; col++) {
            size_t from = npy->fortran ? col * npy->rows + row : row * npy->cols + col;
            double value = element(npy, raw, from);
            float narrow = (float)value;

            if (isfinite(value) && !isfinite(narrow))
                return file_fail(error, NN_EFORMAT, path,
                                 "element (%zu, %zu) = %g is beyond 32-bit floats", row, col,
                                 value);
            data[row * npy->cols + col] = narrow;
        }
    }
    return NN_OK;
}

static int read_elements(const struct npy *npy, struct file_in *file, float *data,
                         struct nn_error *error)
{
    size_t bytes = npy->rows * npy->cols * npy->item;
    char *raw;
    int err;

    if (npy->item == sizeof(float) && !npy->fortran)
        return file_read(file, data, bytes, "elements", error);
    assert(bytes > 0);
    raw = malloc(bytes);
    if (!raw)
        return file_fail(error, NN_ENOMEM, file->path, "no memory for %zu bytes", bytes);
    err = file_read(file, raw, bytes, "elements", error);
    if (!err)
        err = convert(npy, raw, data, file->path, error);
    free(raw);
    return err;
}

static int read_file(struct nn_matrix *out, struct file_in *file, struct nn_error *error)
{
    struct npy npy = {0};
    uint64_t at = 0;
    float *data;
    int err = read_header(&npy, file, &at, error);

    if (err)
        return err;
    assert(npy.rows > 0);
    assert(npy.cols > 0);
    assert(npy.item > 0);
    err = check_len(&npy, file, at, error);
    if (err)
        return err;
    data = nn_floats(npy.rows * npy.cols);
    if (!data)
        return file_fail(error, NN_ENOMEM, file->path, "no memory for %zu x %zu floats", npy.rows,
                         npy.cols);
    err = read_elements(&npy, file, data, error);
    if (err) {
        nn_floats_free(data);
        return err;
    }
    *out = (struct nn_matrix){.rows = npy.rows, .cols = npy.cols, .data = data};
    return NN_OK;
}

int nn_npy_read(struct nn_matrix *out, const char *path, struct nn_error *error)
{
    struct file_in file;
    int err = file_open(&file, path, error);

    if (err)
        return err;
    err = read_file(out, &file, error);
    file_close(&file);
    return err;
}

int nn_npy_write(const char *path, const struct nn_matrix *matrix, struct nn_error *error)
{
    char header[4 * ALIGNMENT]; /* 2 * 20 digits and about 60 characters: fits in three */
    struct file_span spans[2];
    int used;
    size_t len;

    memset(header, ' ', sizeof header);
    memcpy(header, magic, sizeof magic);
    header[6] = 1;
    header[7] = 0;
    used = snprintf(header + 10, sizeof header - 10,
                    "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", matrix->rows,
                    matrix->cols);
    assert(used > 0);
    header[10 + used] = ' ';
    /* A newline ends the header, the elements begin at a multiple of the alignment. */
    len = (10 + (size_t)used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    assert(len <= sizeof header);
    header[len - 1] = '\n';
    header[8] = (char)((len - 10) & 0xff);
    header[9] = (char)((len - 10) >> 8);
    spans[0] = (struct file_span){header, len};
    spans[1] = (struct file_span){matrix->data, matrix->rows * matrix->cols * sizeof(float)};
    return file_replace(path, spans, 2, error);
}

void nn_matrix_free(struct nn_matrix *matrix)
{
    nn_floats_free(matrix->data);
    *matrix = (struct nn_matrix){0};
}
