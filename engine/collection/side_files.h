/* SPDX-License-Identifier: Apache-2.0 */
/* side_files.h - JSON files beside pictures and shards, {KEY: {KIND: value}}; the last ones used stay parsed
 *
 * A shard's file has an entry for each of its samples, so without this cache, reading samples in order would parse a
 * file again for each sample. Safe for any number of threads.
 */
#ifndef ENGINE_COLLECTION_SIDE_FILES_H
#define ENGINE_COLLECTION_SIDE_FILES_H

#include <jansson.h>

struct err;
struct side_files;

enum { SIDE_FILES_KEPT = 16 };

int side_files_create(struct side_files **out, struct err *err);
void side_files_destroy(struct side_files *s);

/* The file's value of `key`, as a new reference, or NULL with err->code ERR_NONE if there is no such file or no
 * such key. ERR_DATA names the file and the line. */
json_t *side_files_find(struct side_files *s, const char *path, const char *key, struct err *err);

#endif
