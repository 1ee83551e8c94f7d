/* SPDX-License-Identifier: MIT */
#include <node/data.h>

#include <cluster/text.h>

#include <string.h>

static bool same(const struct nn_digest *digest, const struct body_set *want)
{
    return memcmp(digest->bytes, want->digest, sizeof digest->bytes) == 0;
}

static bool complete(const struct nn_dataset *data)
{
    for (uint64_t id = 0; id < nn_dataset_count(data); id++)
        if (!nn_dataset_has(data, id))
            return false;
    return true;
}

/* The set in these files, if its contents are the wanted ones. */
static struct nn_dataset *read_set(const struct body_set *want, const char *images,
                                   const char *labels, uint32_t classes)
{
    struct nn_dataset *data;
    struct nn_digest digest;
    struct nn_error error;

    if (nn_dataset_read_idx(&data, images, labels, want->count, classes, &error) < 0)
        return NULL;
    digest = nn_dataset_digest(data);
    if (same(&digest, want) && nn_dataset_sample_bytes(data) == want->sample_bytes)
        return data;
    nn_dataset_free(data);
    return NULL;
}

static struct nn_dataset *read_from(const struct body_set *want, const char *dir, uint32_t classes)
{
    const char *images = strrchr(want->images, '/');
    const char *labels = strrchr(want->labels, '/');
    char path[2][2 * BODY_PATH_MAX];

    text_format(path[0], sizeof path[0], "%s/%s", dir, images ? images + 1 : want->images);
    text_format(path[1], sizeof path[1], "%s/%s", dir, labels ? labels + 1 : want->labels);
    return read_set(want, path[0], path[1], classes);
}

static void keep(struct data_store *store, struct nn_dataset *data, const struct body_set *want)
{
    uint32_t slot = store->oldest;

    store->oldest = (slot + 1) % DATA_STORE_MAX;
    nn_dataset_free(store->sets[slot]);
    store->sets[slot] = data;
    memcpy(store->digests[slot].bytes, want->digest, sizeof want->digest);
}

int data_find(struct data_store *store, const struct body_set *want, const char *dir,
              uint32_t classes, struct nn_dataset **out, bool *has_all)
{
    struct nn_dataset *data = NULL;
    int err;

    for (size_t i = 0; i < DATA_STORE_MAX; i++) {
        if (!store->sets[i] || !same(&store->digests[i], want))
            continue;
        *out = store->sets[i];
        *has_all = complete(*out);
        return 0;
    }
    if (dir && dir[0])
        data = read_from(want, dir, classes);
    if (!data)
        data = read_set(want, want->images, want->labels, classes);
    *has_all = data != NULL;
    if (!data) {
        err = nn_dataset_open(&data, want->count, want->sample_bytes);
        if (err < 0)
            return err;
    }
    keep(store, data, want);
    *out = data;
    return 0;
}

void data_store_close(struct data_store *store)
{
    for (size_t i = 0; i < DATA_STORE_MAX; i++)
        nn_dataset_free(store->sets[i]);
    memset(store, 0, sizeof *store);
}
