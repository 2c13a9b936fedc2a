/* SPDX-License-Identifier: Apache-2.0 */
/* spec_field.h - one key of a job spec as a row: its type, limits and default, and the check of a value against it
 *
 * Pure: no clock, no I/O.
 * Rows: train_spec.h for the `train:` block, controller/spec/spec_rows.h for all keys.
 */
#ifndef ENGINE_CONTRACT_SPEC_FIELD_H
#define ENGINE_CONTRACT_SPEC_FIELD_H

#include <jansson.h>
#include <stdbool.h>

struct err;

enum field_type {
    FIELD_MAP,         /* has rows of its own: "optimizer" before "optimizer.lr" */
    FIELD_BOOL,
    FIELD_INT,
    FIELD_NUMBER,
    FIELD_STRING,
    FIELD_ENUM,        /* one of `choices`, separated by | */
    FIELD_PATH,        /* string; the controller makes it absolute against workdir */
    FIELD_NUMBERS,     /* list of numbers, min..max entries given by `choices` as "2" or "2-3" */
    FIELD_STRINGS,
    FIELD_STRING_MAP,  /* env: any keys, scalar values */
    FIELD_DURATION,    /* "500 ms", "30s", "5m", "1h 30m", "24:00:00"; canonical: seconds */
    FIELD_RANGE,       /* "5s..5m"; canonical: [min_s, max_s] */
    FIELD_EVERY,       /* "500 steps" or a duration; canonical: {"steps":500} or {"seconds":300} */
    FIELD_ITEMS        /* list of maps; rows "name[].key" describe the keys of an item */
};

/* One key. The path is relative to the block: "optimizer.lr". */
struct spec_field {
    const char     *path;
    enum field_type type;
    const char     *choices;  /* FIELD_ENUM, FIELD_NUMBERS; FIELD_INT: a word that may stand for it; else NULL */
    bool            auto_ok;  /* "auto" is allowed and kept */
    bool            null_ok;  /* of a row without default: null is allowed and kept, and means none */
    double          min, max; /* FIELD_INT, FIELD_NUMBER, FIELD_NUMBERS, FIELD_DURATION (s); FIELD_STRING: bytes;
                                 FIELD_EVERY: min 1 = by steps only */
    const char     *def;      /* JSON text; NULL = absent unless given */
    const char     *help;     /* one line of help */
};

/* Does the canonical value fit the row? Null and FIELD_ITEMS do not. -1: *err is a sentence that begins with `path`. */
int spec_field_check(const struct spec_field *f, const char *path, const json_t *v, struct err *err);

/* The most bytes of a text; 0: no limit. */
size_t spec_field_text_most(const struct spec_field *f);

/* Is `word` one of "a|b|c"? */
bool spec_field_choice(const char *choices, const char *word);

#endif
