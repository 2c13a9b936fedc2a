/* SPDX-License-Identifier: Apache-2.0 */
/* json_file.h - JSON into a file, whole or with an error
 *
 * json_dumpfd() and json_dump_file() miss the errors of some of their many small writes: on a full disk a lease or
 * an identity could lose a key and count as written.
 */
#ifndef ENGINE_BASE_JSON_FILE_H
#define ENGINE_BASE_JSON_FILE_H

#include <jansson.h>
#include <stddef.h>

/* `flags` are those of json_dumps(); value NULL: an error. -1: errno says why. */
int json_file_put(const json_t *value, int fd, size_t flags);

/* The same into a file that is made or emptied; a part of it may be left after an error. */
int json_file_save(const json_t *value, const char *path, size_t flags);

#endif
