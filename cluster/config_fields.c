/* SPDX-License-Identifier: MIT */
#include <cluster/config_fields.h>
#include <cluster/json_text.h>

#include <stdio.h>
#include <string.h>

#define FIELD(name, kind, member)                                                                  \
    .key = (name), .type = (kind), .offset = offsetof(struct config, member)
#define SEED_MAX 9223372036854775807.0 /* JSON's whole numbers are signed */

const struct config_field config_fields[CONFIG_FIELDS] = {
    {FIELD("data.train.images", FIELD_PATH, data.train.images)},
    {FIELD("data.train.labels", FIELD_PATH, data.train.labels)},
    {FIELD("data.test.images", FIELD_PATH, data.test.images)},
    {FIELD("data.test.labels", FIELD_PATH, data.test.labels)},
    {FIELD("data.train_limit", FIELD_U64, data.train_limit), .high = 1e15},
    {FIELD("data.test_limit", FIELD_U64, data.test_limit), .high = 1e15},
    {FIELD("data.normalize.scale", FIELD_REAL, data.scale), .high = 1e9, .low_open = true},
    {FIELD("data.normalize.mean", FIELD_REAL, data.mean), .low = -1e9, .high = 1e9},
    {FIELD("data.normalize.deviation", FIELD_REAL, data.deviation), .high = 1e9, .low_open = true},
    {FIELD("train.strategy", FIELD_ONE, train.strategy), .choices = "sync"},
    {FIELD("train.reduce", FIELD_ONE, train.reduce), .choices = "star"},
    {FIELD("train.epochs", FIELD_U32, train.epochs), .low = 1, .high = 1e6},
    {FIELD("train.batch", FIELD_U32, train.batch), .low = 1, .high = 1048576},
    {FIELD("train.leaf", FIELD_U32, train.leaf), .high = 65536},
    {FIELD("train.seed", FIELD_U64, train.seed), .high = SEED_MAX},
    {FIELD("train.drop_last", FIELD_BOOL, train.drop_last)},
    {FIELD("train.optimizer.name", FIELD_ONE, train.optimizer), .choices = CONFIG_OPTIMIZERS},
    {FIELD("train.optimizer.lr", FIELD_REAL, train.lr), .high = 1000, .low_open = true},
    {FIELD("train.optimizer.momentum", FIELD_REAL, train.momentum), .high = 1, .high_open = true,
     .used_by = "momentum"},
    {FIELD("train.optimizer.beta1", FIELD_REAL, train.beta1), .high = 1, .high_open = true,
     .used_by = "adam"},
    {FIELD("train.optimizer.beta2", FIELD_REAL, train.beta2), .high = 1, .high_open = true,
     .used_by = "adam"},
    {FIELD("train.optimizer.epsilon", FIELD_REAL, train.epsilon), .high = 1, .low_open = true,
     .used_by = "adam"},
    {FIELD("train.optimizer.weight_decay", FIELD_REAL, train.weight_decay), .high = 1},
    {FIELD("train.optimizer.schedule", FIELD_ONE, train.schedule), .choices = "constant linear"},
    {FIELD("cluster.nodes", FIELD_U32, cluster.nodes), .low = 1, .high = 64},
    {FIELD("cluster.min_nodes", FIELD_U32, cluster.min_nodes), .low = 1, .high = 64},
    {FIELD("cluster.wait_s", FIELD_U32, cluster.wait_s), .low = 1, .high = 86400},
    {FIELD("cluster.dead_ms", FIELD_U32, cluster.dead_ms), .low = 100, .high = 600000},
    {FIELD("cluster.kernel", FIELD_NAME, cluster.kernel)},
};

const struct config_field *config_field_find(const char *key, bool *section)
{
    size_t len = strlen(key);

    *section = false;
    for (size_t i = 0; i < CONFIG_FIELDS; i++) {
        if (strcmp(config_fields[i].key, key) == 0)
            return &config_fields[i];
        if (strncmp(config_fields[i].key, key, len) == 0 && config_fields[i].key[len] == '.')
            *section = true;
    }
    return NULL;
}

void config_field_allowed(const struct config_field *field, char out[CONFIG_KEY_MAX])
{
    switch (field->type) {
    case FIELD_U32:
    case FIELD_U64:
        snprintf(out, CONFIG_KEY_MAX, "a whole number from %.0f to %.0f", field->low, field->high);
        return;
    case FIELD_REAL:
        snprintf(out, CONFIG_KEY_MAX, "a number %s %g and %s %g",
                 field->low_open ? "above" : "from", field->low,
                 field->high_open ? "below" : "at most", field->high);
        return;
    case FIELD_BOOL:
        snprintf(out, CONFIG_KEY_MAX, "true or false");
        return;
    case FIELD_NAME:
        snprintf(out, CONFIG_KEY_MAX, "a text of up to %d letters, digits, dots and dashes",
                 CONFIG_NAME_MAX - 1);
        return;
    case FIELD_PATH:
        snprintf(out, CONFIG_KEY_MAX, "the path of a file, at most %d bytes", CONFIG_PATH_MAX - 1);
        return;
    case FIELD_ONE:
        snprintf(out, CONFIG_KEY_MAX, "%s%s", strchr(field->choices, ' ') ? "one of " : "",
                 field->choices);
        return;
    }
}

/* The component of a table key that follows `prefix` ("train."), or NULL when it is elsewhere. */
static const char *component(const char *key, const char *prefix, char out[CONFIG_KEY_MAX])
{
    size_t len = strlen(prefix);

    if (strncmp(key, prefix, len) != 0)
        return NULL;
    snprintf(out, CONFIG_KEY_MAX, "%.*s", (int)strcspn(key + len, "."), key + len);
    return out;
}

void config_field_unknown(const char *prefix, const char *name, char out[CONFIG_PROBLEM_MAX])
{
    char allowed[512] = "";
    char nearest[CONFIG_KEY_MAX] = "";
    char last[CONFIG_KEY_MAX] = "";
    unsigned best = UINT32_MAX;

    if (*prefix == '\0')
        snprintf(allowed, sizeof allowed, "model");
    for (size_t i = 0; i < CONFIG_FIELDS; i++) {
        char part[CONFIG_KEY_MAX];
        const char *leaf = strrchr(config_fields[i].key, '.') + 1;
        bool here = component(config_fields[i].key, prefix, part) != NULL;
        unsigned distance = here ? json_text_distance(name, part) : UINT32_MAX;

        if (distance < best) {
            best = distance;
            snprintf(nearest, sizeof nearest, "%s%s", prefix, part);
        }
        /* The same name elsewhere is what was meant. */
        if (best > 0 && strcmp(name, leaf) == 0) {
            best = 0;
            snprintf(nearest, sizeof nearest, "%s", config_fields[i].key);
        }
        if (here && strcmp(part, last) != 0) {
            size_t at = strlen(allowed);

            snprintf(allowed + at, sizeof allowed - at, "%s%s", at ? ", " : "", part);
            snprintf(last, sizeof last, "%s", part);
        }
    }
    if (*prefix == '\0' && json_text_distance(name, "model") < best)
        snprintf(nearest, sizeof nearest, "model");
    snprintf(out, CONFIG_PROBLEM_MAX, "unknown key, the nearest is %s (allowed: %s)", nearest,
             allowed);
}
