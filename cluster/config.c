/* SPDX-License-Identifier: MIT */

/* For realpath: a run must find its data again from another folder. */
#define _XOPEN_SOURCE 700

#include <cluster/body.h>
#include <cluster/config.h>
#include <cluster/config_fields.h>
#include <cluster/json_text.h>
#include <cluster/tree.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

static const char *const optimizer_names[] = {"sgd", "momentum", "adam"};

/* A file on its way to a config. */
struct reading {
    const char *path;
    char *text; /* without comments */
    size_t len;
    const char *const *sets;
    size_t sets_count;
    struct config *config;
    char *why;
};

/* ---------- errors ---------- */

static bool same_or_below(const char *key, size_t key_len, const char *other)
{
    size_t len = strlen(other);
    size_t shorter = len < key_len ? len : key_len;

    return memcmp(key, other, shorter) == 0 &&
           (len == key_len || (len > key_len ? other[key_len] : key[len]) == '.');
}

/* Did --set give this key, or something above or below it? */
static bool was_set(const struct reading *r, const char *key)
{
    for (size_t i = 0; i < r->sets_count; i++) {
        if (same_or_below(r->sets[i], strcspn(r->sets[i], "="), key))
            return true;
    }
    return false;
}

/* "FILE:LINE: key: " and what the caller has to say. */
__attribute__((format(printf, 3, 4))) static int fail(const struct reading *r, const char *key,
                                                      const char *format, ...)
{
    unsigned line = r->text ? json_text_line(r->text, r->len, key) : 0;
    va_list args;
    int at;

    if (was_set(r, key))
        at = snprintf(r->why, CONFIG_WHY_MAX, "--set: %s: ", key);
    else if (*key != '\0')
        at = snprintf(r->why, CONFIG_WHY_MAX, "%s:%u: %s: ", r->path, line ? line : 1, key);
    else
        at = snprintf(r->why, CONFIG_WHY_MAX, "%s:1: ", r->path);
    if (at < 0 || at >= CONFIG_WHY_MAX)
        return -1;
    va_start(args, format);
    vsnprintf(r->why + at, CONFIG_WHY_MAX - (size_t)at, format, args);
    va_end(args);
    return -1;
}

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

static int fail_value(const struct reading *r, const struct config_field *field,
                      const json_t *value)
{
    char allowed[CONFIG_KEY_MAX];
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    int err;

    config_field_allowed(field, allowed);
    if (text && strlen(text) <= 40)
        err = fail(r, field->key, "%s is not allowed (allowed: %s)", text, allowed);
    else
        err = fail(r, field->key, "is %s (allowed: %s)", kind_of(value), allowed);
    free(text);
    return err;
}

/* ---------- values ---------- */

static int take_number(const struct reading *r, const struct config_field *field,
                       const json_t *value, void *out)
{
    double number = json_number_value(value);
    bool whole = field->type == FIELD_U32 || field->type == FIELD_U64;

    if (!json_is_number(value) || (whole && !json_is_integer(value)) || !isfinite(number))
        return fail_value(r, field, value);
    if (number < field->low || number > field->high)
        return fail_value(r, field, value);
    if ((field->low_open && number <= field->low) || (field->high_open && number >= field->high))
        return fail_value(r, field, value);
    if (field->type == FIELD_U32)
        *(uint32_t *)out = (uint32_t)json_integer_value(value);
    else if (field->type == FIELD_U64)
        *(uint64_t *)out = (uint64_t)json_integer_value(value);
    else
        *(double *)out = number;
    return 0;
}

static int take_name(const struct reading *r, const struct config_field *field, const json_t *value,
                     char *out)
{
    const char *text = json_string_value(value);

    if (!text || strlen(text) != json_string_length(value))
        return fail_value(r, field, value);
    if (*text != '\0' && !body_name_ok(text))
        return fail_value(r, field, value);
    snprintf(out, CONFIG_NAME_MAX, "%s", text);
    return 0;
}

static int take_one(const struct reading *r, const struct config_field *field, const json_t *value,
                    void *out)
{
    const char *text = json_string_value(value);
    int idx = 0;

    for (const char *at = field->choices; text && *at; idx++) {
        size_t len = strcspn(at, " ");

        if (strlen(text) == len && memcmp(text, at, len) == 0) {
            if (field->offset == offsetof(struct config, train.optimizer))
                *(enum config_optimizer *)out = (enum config_optimizer)idx;
            else
                snprintf(out, CONFIG_NAME_MAX, "%s", text);
            return 0;
        }
        at += len + (at[len] == ' ');
    }
    return fail_value(r, field, value);
}

/* Is it a file with something in it?  NULL, or why not. */
static const char *unreadable(const char *path)
{
    FILE *file = fopen(path, "rb");
    const char *why = NULL;

    if (!file)
        return strerror(errno);
    errno = 0;
    if (fgetc(file) == EOF)
        why = errno ? strerror(errno) : "the file is empty";
    fclose(file);
    return why;
}

static int take_path(const struct reading *r, const struct config_field *field, const json_t *value,
                     char *out)
{
    const char *text = json_string_value(value);
    const char *slash = strrchr(r->path, '/');
    char joined[2 * CONFIG_PATH_MAX];
    const char *why;
    char *real;
    int err = 0;

    if (!text || *text == '\0' || strlen(text) != json_string_length(value) ||
        strlen(text) >= CONFIG_PATH_MAX)
        return fail_value(r, field, value);
    if (*text == '/' || !slash)
        snprintf(joined, sizeof joined, "%s", text);
    else
        snprintf(joined, sizeof joined, "%.*s/%s", (int)(slash - r->path), r->path, text);
    why = unreadable(joined);
    if (why)
        return fail(r, field->key, "cannot read %s: %s (allowed: the path of a file)", joined, why);
    real = realpath(joined, NULL);
    if (!real)
        return fail(r, field->key, "cannot read %s: %s", joined, strerror(errno));
    if (strlen(real) >= CONFIG_PATH_MAX)
        err = fail_value(r, field, value);
    else
        snprintf(out, CONFIG_PATH_MAX, "%s", real);
    free(real);
    return err;
}

static int take(const struct reading *r, const struct config_field *field, const json_t *value)
{
    void *out = (char *)r->config + field->offset;

    switch (field->type) {
    case FIELD_U32:
    case FIELD_U64:
    case FIELD_REAL:
        return take_number(r, field, value, out);
    case FIELD_BOOL:
        if (!json_is_boolean(value))
            return fail_value(r, field, value);
        *(bool *)out = json_is_true(value);
        return 0;
    case FIELD_NAME:
        return take_name(r, field, value, out);
    case FIELD_PATH:
        return take_path(r, field, value, out);
    case FIELD_ONE:
        return take_one(r, field, value, out);
    }
    return -1;
}

static int take_model(const struct reading *r, const json_t *model)
{
    if (!json_is_object(model))
        return fail(r, "model", "is %s (allowed: an object with input, layers and loss)",
                    kind_of(model));
    r->config->model = json_dumps(model, JSON_COMPACT);
    if (!r->config->model)
        return fail(r, "model", "out of memory");
    r->config->model_len = strlen(r->config->model);
    if (r->config->model_len > BODY_MODEL_MAX)
        return fail(r, "model", "takes %zu bytes (allowed: at most %d)", r->config->model_len,
                    BODY_MODEL_MAX);
    return 0;
}

/* An object of sections and fields; nested at most as deep as the table. */
static int take_section(const struct reading *r, const char *prefix, json_t *object)
{
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const char *name = json_object_iter_key(it);
        json_t *value = json_object_iter_value(it);
        char path[CONFIG_KEY_MAX];
        char below[CONFIG_KEY_MAX + 1];
        char problem[CONFIG_PROBLEM_MAX];
        const struct config_field *field;
        bool section;
        int err;

        snprintf(path, sizeof path, "%s%s", prefix, name);
        field = config_field_find(path, &section);
        if (strcmp(path, "model") == 0) {
            err = take_model(r, value);
        } else if ((!field && !section) || strchr(name, '.') || *name == '\0') {
            config_field_unknown(prefix, name, problem);
            err = fail(r, path, "%s", problem);
        } else if (field) {
            err = take(r, field, value);
        } else if (!json_is_object(value)) {
            err = fail(r, path, "is %s (allowed: an object)", kind_of(value));
        } else {
            snprintf(below, sizeof below, "%s.", path);
            err = take_section(r, below, value);
        }
        if (err)
            return err;
    }
    return 0;
}

/* ---------- the whole ---------- */

static void set_defaults(struct config *config)
{
    *config = (struct config){
        .data = {.scale = 1.0 / 255, .deviation = 1},
        .train = {.strategy = "sync",
                  .reduce = "star",
                  .schedule = "constant",
                  .epochs = 1,
                  .batch = 64,
                  .seed = 1,
                  .momentum = 0.9,
                  .beta1 = 0.9,
                  .beta2 = 0.999,
                  .epsilon = 1e-8},
        .cluster = {.nodes = 1, .min_nodes = 1, .wait_s = 60, .dead_ms = 2500},
    };
}

static const json_t *lookup(const json_t *root, const char *key)
{
    while (root && *key != '\0') {
        char part[CONFIG_KEY_MAX];
        size_t len = strcspn(key, ".");

        snprintf(part, sizeof part, "%.*s", (int)len, key);
        root = json_object_get(root, part);
        key += len + (key[len] == '.');
    }
    return root;
}

static int check_missing(const struct reading *r, const json_t *root)
{
    static const char *const required[] = {"model", "data", "data.train", "data.train.images",
                                           "data.train.labels"};
    static const char *const test[] = {"data.test.images", "data.test.labels"};

    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        if (!lookup(root, required[i]))
            return fail(r, required[i], "is missing (allowed: it must be given)");
    }
    for (size_t i = 0; i < 2 && lookup(root, "data.test"); i++) {
        if (!lookup(root, test[i]))
            return fail(r, test[i], "is missing (allowed: images and labels, or no data.test)");
    }
    return 0;
}

/* What one key says of another. */
static int check_together(const struct reading *r, const json_t *root)
{
    struct config_train *train = &r->config->train;
    const char *optimizer = optimizer_names[train->optimizer];
    uint64_t leaves;

    for (size_t i = 0; i < CONFIG_FIELDS; i++) {
        const struct config_field *field = &config_fields[i];

        if (field->used_by && strcmp(field->used_by, optimizer) != 0 && lookup(root, field->key))
            return fail(r, field->key, "has no meaning for %s (allowed: with %s)", optimizer,
                        field->used_by);
    }
    if (!lookup(root, "train.optimizer.lr"))
        train->lr = train->optimizer == OPTIMIZER_ADAM ? 0.001 : 0.1;
    if (train->leaf == 0)
        train->leaf = train->batch < 256 ? 32 : 64;
    leaves = ((uint64_t)train->batch + train->leaf - 1) / train->leaf;
    if (leaves > TREE_LEAVES_MAX) {
        return fail(r, lookup(root, "train.leaf") ? "train.leaf" : "train.batch",
                    "a batch of %" PRIu32 " in leaves of %" PRIu32 " makes %" PRIu64
                    " leaves (allowed: at most %d)",
                    train->batch, train->leaf, leaves, TREE_LEAVES_MAX);
    }
    if (r->config->cluster.min_nodes > r->config->cluster.nodes)
        return fail(r, "cluster.min_nodes",
                    "is more than cluster.nodes (allowed: at most %" PRIu32 ")",
                    r->config->cluster.nodes);
    return 0;
}

/* Reads the file into r->text, comments gone. */
static int load_text(struct reading *r)
{
    FILE *file = fopen(r->path, "rb");
    unsigned line;
    bool failed;

    if (!file)
        return fail(r, "", "cannot read it: %s (allowed: a JSON file)", strerror(errno));
    r->text = malloc(FILE_MAX + 1);
    if (!r->text) {
        fclose(file);
        return fail(r, "", "out of memory");
    }
    r->len = fread(r->text, 1, FILE_MAX + 1, file);
    failed = ferror(file) != 0;
    if (failed)
        fail(r, "", "cannot read it: %s (allowed: a JSON file)", strerror(errno));
    fclose(file);
    if (failed)
        return -1;
    if (r->len > FILE_MAX)
        return fail(r, "", "is too large (allowed: at most %d bytes)", FILE_MAX);
    line = json_text_strip(r->text, r->len);
    if (line > 0) {
        snprintf(r->why, CONFIG_WHY_MAX, "%s:%u: a comment begins and never ends (allowed: */)",
                 r->path, line);
        return -1;
    }
    if (strspn(r->text, " \t\r\n") >= r->len && memchr(r->text, '\0', r->len) == NULL)
        return fail(r, "", "is empty (allowed: an object with model, data, train, cluster)");
    return 0;
}

static json_t *parse(const struct reading *r)
{
    json_error_t error;
    json_t *root = json_loadb(r->text, r->len, JSON_REJECT_DUPLICATES, &error);

    if (!root) {
        snprintf(r->why, CONFIG_WHY_MAX, "%s:%d: not JSON at column %d: %s (allowed: RFC 8259)",
                 r->path, error.line > 0 ? error.line : 1, error.column, error.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        fail(r, "", "is %s (allowed: an object with model, data, train, cluster)", kind_of(root));
        json_decref(root);
        return NULL;
    }
    return root;
}

/* One "a.b=v" of --set.  v is JSON, or else a text. */
static int apply_set(const struct reading *r, json_t *root, const char *set)
{
    size_t key_len = strcspn(set, "=");
    const char *key = set;
    json_t *value;

    if (set[key_len] != '=' || key_len == 0 || key_len >= CONFIG_KEY_MAX) {
        snprintf(r->why, CONFIG_WHY_MAX,
                 "--set: %.100s: not a setting (allowed: section.key=value)", set);
        return -1;
    }
    value = json_loads(set + key_len + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!value)
        value = json_string(set + key_len + 1);
    while (value) {
        char part[CONFIG_KEY_MAX];
        size_t len = strcspn(key, ".=");
        json_t *next;

        snprintf(part, sizeof part, "%.*s", (int)len, key);
        key += len + 1;
        if (key[-1] == '=')
            return json_object_set_new(root, part, value) ? fail(r, part, "out of memory") : 0;
        next = json_object_get(root, part);
        if (!json_is_object(next)) {
            next = json_object();
            if (json_object_set_new(root, part, next))
                break;
        }
        root = next;
    }
    json_decref(value);
    snprintf(r->why, CONFIG_WHY_MAX, "--set: %.100s: not a setting (allowed: section.key=value)",
             set);
    return -1;
}

/* Keys and values of a stranger's file end up in the line. */
static void make_one_line(char *why)
{
    for (; *why != '\0'; why++) {
        if ((unsigned char)*why < ' ' || *why == 0x7f)
            *why = '?';
    }
}

int config_read(struct config *out, const char *path, const char *const *sets, size_t sets_count,
                char why[CONFIG_WHY_MAX])
{
    struct config config;
    struct reading r = {.path = path, .sets = sets, .config = &config, .why = why};
    json_t *root = NULL;
    int err;

    set_defaults(&config);
    err = load_text(&r);
    if (!err) {
        root = parse(&r);
        err = root ? 0 : -1;
    }
    for (size_t i = 0; !err && i < sets_count; i++) {
        r.sets_count = i + 1;
        err = apply_set(&r, root, sets[i]);
    }
    if (!err)
        err = take_section(&r, "", root);
    if (!err)
        err = check_missing(&r, root);
    if (!err)
        err = check_together(&r, root);
    json_decref(root);
    free(r.text);
    if (err) {
        make_one_line(why);
        config_free(&config);
    } else {
        *out = config;
    }
    return err;
}

void config_free(struct config *config)
{
    free(config->model);
    config->model = NULL;
}

unsigned config_line(const char *path, const char *key)
{
    char why[CONFIG_WHY_MAX];
    struct reading r = {.path = path, .why = why};
    unsigned line = load_text(&r) ? 0 : json_text_line(r.text, r.len, key);

    free(r.text);
    return line;
}

/* ---------- printing ---------- */

static json_t *value_of(const struct config_field *field, const struct config *config)
{
    const void *at = (const char *)config + field->offset;

    switch (field->type) {
    case FIELD_U32:
        return json_integer((json_int_t) * (const uint32_t *)at);
    case FIELD_U64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case FIELD_REAL:
        return json_real(*(const double *)at);
    case FIELD_NAME:
    case FIELD_PATH:
        return json_string(at);
    case FIELD_ONE:
        if (field->offset == offsetof(struct config, train.optimizer))
            return json_string(optimizer_names[config->train.optimizer]);
        return json_string(at);
    }
    return NULL;
}

/* Is this field part of what must be read back? */
static bool is_printed(const struct config_field *field, const struct config *config)
{
    if (field->type == FIELD_PATH && *((const char *)config + field->offset) == '\0')
        return false;
    return !field->used_by || strcmp(field->used_by, optimizer_names[config->train.optimizer]) == 0;
}

static int put(json_t *object, const char *key, json_t *value)
{
    size_t len = strcspn(key, ".");
    char part[CONFIG_KEY_MAX];
    json_t *below;

    snprintf(part, sizeof part, "%.*s", (int)len, key);
    if (key[len] == '\0')
        return json_object_set_new(object, part, value);
    below = json_object_get(object, part);
    if (!below) {
        below = json_object();
        if (json_object_set_new(object, part, below)) {
            json_decref(value);
            return -1;
        }
    }
    return put(below, key + len + 1, value);
}

char *config_print(const struct config *config)
{
    json_t *root = json_object();
    char *text = NULL;
    int err;

    err = json_object_set_new(root, "model", json_loadb(config->model, config->model_len, 0, NULL));
    for (size_t i = 0; i < CONFIG_FIELDS && !err; i++) {
        if (is_printed(&config_fields[i], config))
            err = put(root, config_fields[i].key, value_of(&config_fields[i], config));
    }
    if (!err)
        text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return text;
}
