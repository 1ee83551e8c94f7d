/* SPDX-License-Identifier: MIT */
#ifndef CLUSTER_CONFIG_FIELDS_H
#define CLUSTER_CONFIG_FIELDS_H

/*
 * One table says which keys a config has, of what type and range, and where each lands in struct
 * config.  Reading, the texts of errors and printing all go by it: a new key is one row.
 */

#include <cluster/config.h>

enum { CONFIG_KEY_MAX = 128, CONFIG_PROBLEM_MAX = 768, CONFIG_FIELDS = 29 };

#define CONFIG_OPTIMIZERS "sgd momentum adam" /* in the order of enum config_optimizer */

enum field_type { FIELD_U32, FIELD_U64, FIELD_BOOL, FIELD_REAL, FIELD_NAME, FIELD_PATH, FIELD_ONE };

struct config_field {
    const char *key;
    enum field_type type;
    size_t offset; /* in struct config */
    double low, high;
    bool low_open, high_open; /* the bound itself is not allowed */
    const char *choices;      /* FIELD_ONE: "a b c" */
    const char *used_by;      /* the optimiser that reads it; NULL: all */
};

extern const struct config_field config_fields[CONFIG_FIELDS];

/* The row of a key, or NULL; then *section: keys begin with it. */
const struct config_field *config_field_find(const char *key, bool *section);

/* What a field may be, in words. */
void config_field_allowed(const struct config_field *field, char out[CONFIG_KEY_MAX]);

/* No such `name` in the section `prefix` ("train.", "" for the top): the nearest that is, and what
 * can be written there. */
void config_field_unknown(const char *prefix, const char *name, char out[CONFIG_PROBLEM_MAX]);

#endif
