/* SPDX-License-Identifier: MIT */
/*
 * IDX: the format of MNIST and its descendants.  Big-endian: two zero bytes, the element type, the
 * number of dimensions, the dimensions (u32), the elements.  Plain or gzip alike: zlib reads both.
 */
#include "dataset.h"
#include "file.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <zlib.h>

enum {
    IDX_U8 = 0x08,
    RANK_MAX = 4,                /* count, channels, rows, columns */
    SAMPLE_BYTES_MAX = 16 << 20, /* of one image */
    DEFLATE_RATIO_MAX = 1032,    /* no deflate stream expands more: bounds what a header claims */
    LABEL_BYTES = 4,
    GZIP_BUFFER = 128 << 10
};

struct idx {
    const char *path; /* borrowed */
    gzFile gz;
    uint64_t len; /* of the file as it lies on disk */
    uint64_t count;
    size_t sample_bytes; /* product of the dimensions after the first */
};

static int read_fail(struct idx *idx, int got, struct nn_error *error)
{
    int code;
    const char *text = gzerror(idx->gz, &code);

    if (code == Z_ERRNO)
        return file_fail(error, NN_EIO, idx->path, "%s", strerror(errno));
    if (code != Z_OK && code != Z_BUF_ERROR && got < 0)
        return file_fail(error, NN_EFORMAT, idx->path, "damaged gzip stream (%s)", text);
    return file_fail(error, NN_EFORMAT, idx->path, "truncated");
}

static int read_bytes(struct idx *idx, uint8_t *to, size_t len, struct nn_error *error)
{
    int got;

    assert(len <= SAMPLE_BYTES_MAX);
    got = gzread(idx->gz, to, (unsigned)len);
    return got == (int)len ? NN_OK : read_fail(idx, got, error);
}

static uint32_t get_be32(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static int read_dimensions(struct idx *idx, unsigned rank, struct nn_error *error)
{
    uint64_t product = 1;
    uint8_t bytes[4];
    int err;

    for (unsigned i = 0; i < rank; i++) {
        uint32_t dimension;

        err = read_bytes(idx, bytes, sizeof bytes, error);
        if (err)
            return err;
        dimension = get_be32(bytes);
        if (dimension == 0)
            return file_fail(error, NN_EFORMAT, idx->path, "dimension %u is 0", i);
        if (i == 0)
            idx->count = dimension;
        else
            product *= dimension;
        if (product > SAMPLE_BYTES_MAX) {
            return file_fail(error, NN_EFORMAT, idx->path,
                             "a sample is larger than %d bytes, which are allowed",
                             SAMPLE_BYTES_MAX);
        }
    }
    idx->sample_bytes = (size_t)product;
    if (idx->count * product / DEFLATE_RATIO_MAX > idx->len) {
        return file_fail(error, NN_EFORMAT, idx->path,
                         "truncated: %llu samples of %zu bytes do not fit in a file of %llu",
                         (unsigned long long)idx->count, idx->sample_bytes,
                         (unsigned long long)idx->len);
    }
    return NN_OK;
}

static int read_header(struct idx *idx, unsigned rank_min, unsigned rank_max,
                       struct nn_error *error)
{
    uint8_t magic[4];
    int err = read_bytes(idx, magic, sizeof magic, error);

    if (err)
        return err;
    if (magic[0] != 0 || magic[1] != 0)
        return file_fail(error, NN_EFORMAT, idx->path,
                         "not an IDX file: begins with %02x %02x, not with 00 00", magic[0],
                         magic[1]);
    if (magic[2] != IDX_U8)
        return file_fail(error, NN_EFORMAT, idx->path,
                         "elements of type 0x%02x: only bytes (0x08) are allowed", magic[2]);
    if (magic[3] < rank_min || magic[3] > rank_max)
        return file_fail(error, NN_EFORMAT, idx->path,
                         "%u dimensions, but %s: were images and labels swapped?", magic[3],
                         rank_max == 1 ? "labels have 1" : "images have 2 to 4");
    return read_dimensions(idx, magic[3], error);
}

static int idx_open(struct idx *idx, const char *path, unsigned rank_min, unsigned rank_max,
                    struct nn_error *error)
{
    struct file_in file;
    int err = file_open(&file, path, error);

    if (err)
        return err;
    *idx = (struct idx){.path = path, .len = file.len};
    idx->gz = gzdopen(file.fd, "rb");
    if (!idx->gz) {
        file_close(&file);
        return NN_ENOMEM;
    }
    gzbuffer(idx->gz, GZIP_BUFFER);
    err = read_header(idx, rank_min, rank_max, error);
    if (err)
        gzclose(idx->gz);
    return err;
}

static int read_samples(struct nn_dataset *data, struct idx *images, struct idx *labels,
                        uint32_t classes, struct nn_error *error)
{
    uint64_t count = nn_dataset_count(data);

    assert(classes > 0);
    for (uint64_t id = 0; id < count; id++) {
        uint8_t *sample = dataset_place(data, id);
        uint8_t *label = sample + images->sample_bytes;
        int err = read_bytes(images, sample, images->sample_bytes, error);

        if (!err)
            err = read_bytes(labels, label, 1, error);
        if (err)
            return err;
        if (label[0] >= classes) {
            return file_fail(error, NN_EFORMAT, labels->path,
                             "label %u of sample %llu: only 0 to %u are allowed, the model has %u "
                             "outputs",
                             label[0], (unsigned long long)id, classes - 1, classes);
        }
        /* The place was zeroed: the label is a u32 LE now. */
    }
    return NN_OK;
}

/* After the last sample nothing may follow; for gzip this also checks the sum at the end. */
static int expect_end(struct idx *idx, struct nn_error *error)
{
    uint8_t byte;
    int got = gzread(idx->gz, &byte, 1);
    int code;

    /* A stream that ends within its checksum gives no bytes either, but leaves an error. */
    gzerror(idx->gz, &code);
    if (got < 0 || code != Z_OK)
        return read_fail(idx, got, error);
    if (got > 0)
        return file_fail(error, NN_EFORMAT, idx->path,
                         "bytes follow after the last of %llu samples",
                         (unsigned long long)idx->count);
    return NN_OK;
}

static int read_pair(struct nn_dataset **out, struct idx *images, struct idx *labels,
                     uint64_t limit, uint32_t classes, struct nn_error *error)
{
    struct nn_dataset *data;
    uint64_t count = limit > 0 && limit < images->count ? limit : images->count;
    int err;

    if (images->count != labels->count)
        return file_fail(error, NN_EFORMAT, images->path, "%llu samples, but %llu labels in %s",
                         (unsigned long long)images->count, (unsigned long long)labels->count,
                         labels->path);
    err = nn_dataset_open(&data, count, images->sample_bytes + LABEL_BYTES);
    if (err)
        return file_fail(error, err, images->path, "no memory for %llu samples",
                         (unsigned long long)count);
    err = read_samples(data, images, labels, classes, error);
    /* Who asks for the first few does not pay for reading the rest. */
    if (!err && count == images->count)
        err = expect_end(images, error);
    if (!err && count == images->count)
        err = expect_end(labels, error);
    if (err) {
        nn_dataset_free(data);
        return err;
    }
    *out = data;
    return NN_OK;
}

int nn_dataset_read_idx(struct nn_dataset **out, const char *images, const char *labels,
                        uint64_t limit, uint32_t classes, struct nn_error *error)
{
    struct idx image_file;
    struct idx label_file;
    int err = idx_open(&image_file, images, 2, RANK_MAX, error);

    if (err)
        return err;
    err = idx_open(&label_file, labels, 1, 1, error);
    if (!err) {
        err = read_pair(out, &image_file, &label_file, limit, classes, error);
        gzclose(label_file.gz);
    }
    gzclose(image_file.gz);
    return err;
}
