/* SPDX-License-Identifier: Apache-2.0 */
/* config_reader.h - reads an object of a configuration in the authors' format, key by key
 *
 * A missing or null key leaves its value alone. The first invalid value sets `failed`, with a
 * sentence that names section and key.
 */
#ifndef ENGINE_MODEL_CONFIG_READER_H
#define ENGINE_MODEL_CONFIG_READER_H

#include <jansson.h>
#include <stdbool.h>

struct err;

struct config_reader {
    const char   *name;
    const json_t *json; /* NULL: the object is missing */
    struct err   *err;
    bool          failed;
};

struct config_reader config_reader_open(const json_t *config, const char *name, struct err *err);
const json_t *config_reader_get(const struct config_reader *s, const char *key); /* or null */
void config_reader_int(struct config_reader *s, const char *key, int *value); /* 0 to 2^24 */
void config_reader_number(struct config_reader *s, const char *key, double *value);
void config_reader_bool(struct config_reader *s, const char *key, bool *value);
/* A choice of which only some values are supported; `built` lists these, separated by '|'. */
void config_reader_must_be(struct config_reader *s, const char *key, const char *built);
/* Refuses every other key (`keys` is separated by spaces): a key that is not read may change the model. */
void config_reader_only(struct config_reader *s, const char *keys);

#endif
