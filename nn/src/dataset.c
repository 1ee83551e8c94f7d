/* SPDX-License-Identifier: MIT */
/*
 * Samples as they stand in their file: bytes, and a label.
 *
 * DESIGN: one block holds them all, so that the digest is one hash and a sample travels as it is.
 * The block begins with the dimensions, because they belong to the content.  A bitmap says which
 * samples are here: a node holds only those of the leaves it was given.  Its words are atomic, so
 * one thread may put new samples while another gathers from those that are present already.
 */
#include "dataset.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABEL_BYTES = 4,
    HEAD_BYTES = 16, /* count and sample_bytes, u64 LE each */
    WORD_BITS = 64,
    BYTE_VALUES = 256
};

struct nn_dataset {
    uint64_t count;
    size_t sample_bytes;
    uint8_t *block; /* HEAD_BYTES, then (count, sample_bytes) */
    _Atomic uint64_t *present;
};

static void put_u64(uint8_t *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

int nn_dataset_open(struct nn_dataset **out, uint64_t count, size_t sample_bytes)
{
    struct nn_dataset *data;
    size_t words;

    if (count == 0 || sample_bytes <= LABEL_BYTES)
        return NN_EINVAL;
    if (count > (SIZE_MAX / 2 - HEAD_BYTES) / sample_bytes)
        return NN_ENOMEM;
    data = malloc(sizeof *data);
    if (!data)
        return NN_ENOMEM;
    words = (size_t)((count - 1) / WORD_BITS + 1);
    data->count = count;
    data->sample_bytes = sample_bytes;
    data->block = calloc(1, HEAD_BYTES + (size_t)count * sample_bytes);
    data->present = calloc(words, sizeof *data->present);
    if (!data->block || !data->present) {
        nn_dataset_free(data);
        return NN_ENOMEM;
    }
    put_u64(data->block, count);
    put_u64(data->block + 8, sample_bytes);
    *out = data;
    return NN_OK;
}

void nn_dataset_free(struct nn_dataset *data)
{
    if (!data)
        return;
    free(data->block);
    free(data->present);
    free(data);
}

uint64_t nn_dataset_count(const struct nn_dataset *data)
{
    return data->count;
}

size_t nn_dataset_sample_bytes(const struct nn_dataset *data)
{
    return data->sample_bytes;
}

struct nn_digest nn_dataset_digest(const struct nn_dataset *data)
{
    for (uint64_t id = 0; id < data->count; id++)
        assert(nn_dataset_has(data, id));
    return nn_hash128(data->block, HEAD_BYTES + (size_t)data->count * data->sample_bytes);
}

static uint8_t *sample_at(const struct nn_dataset *data, uint64_t id)
{
    assert(id < data->count);
    return data->block + HEAD_BYTES + (size_t)id * data->sample_bytes;
}

bool nn_dataset_has(const struct nn_dataset *data, uint64_t id)
{
    return id < data->count && (data->present[id / WORD_BITS] >> (id % WORD_BITS) & 1) != 0;
}

const uint8_t *nn_dataset_get(const struct nn_dataset *data, uint64_t id)
{
    return nn_dataset_has(data, id) ? sample_at(data, id) : NULL;
}

uint8_t *dataset_place(struct nn_dataset *data, uint64_t id)
{
    uint8_t *at = sample_at(data, id);

    data->present[id / WORD_BITS] |= UINT64_C(1) << (id % WORD_BITS);
    return at;
}

void nn_dataset_put(struct nn_dataset *data, uint64_t id, const uint8_t *sample)
{
    /* What is held may be being read. */
    if (nn_dataset_has(data, id))
        return;
    memcpy(sample_at(data, id), sample, data->sample_bytes);
    data->present[id / WORD_BITS] |= UINT64_C(1) << (id % WORD_BITS);
}

static bool fill_table(float table[BYTE_VALUES], const struct nn_normalize *normalize)
{
    double deviation = normalize->deviation;

    for (int byte = 0; byte < BYTE_VALUES; byte++) {
        table[byte] = (float)((byte * normalize->scale - normalize->mean) / deviation);
        if (!isfinite(table[byte]))
            return false;
    }
    return true;
}

bool nn_normalize_ok(const struct nn_normalize *normalize)
{
    float table[BYTE_VALUES];

    return fill_table(table, normalize);
}

int nn_dataset_gather(const struct nn_dataset *data, const struct nn_normalize *normalize,
                      const uint64_t *ids, size_t count, float *x, uint32_t *labels)
{
    float table[BYTE_VALUES];
    size_t inputs = data->sample_bytes - LABEL_BYTES;

    if (!fill_table(table, normalize))
        return NN_EINVAL;
    for (size_t i = 0; i < count; i++) {
        if (!nn_dataset_has(data, ids[i]))
            return NN_EMISSING;
    }
    for (size_t i = 0; i < count; i++) {
        const uint8_t *sample = sample_at(data, ids[i]);
        float *row = x + i * inputs; /* (inputs) of (count, inputs) */

        for (size_t j = 0; j < inputs; j++)
            row[j] = table[sample[j]];
        labels[i] = get_u32(sample + inputs);
    }
    return NN_OK;
}
