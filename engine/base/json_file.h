/* SPDX-License-Identifier: Apache-2.0 */
/* json_file.h - writes JSON to a file completely, or fails
 *
 * json_dumpfd() and json_dump_file() miss errors of some of their many small writes: on a full disk, a lease or an
 * identity could lose a key and still count as written.
 */
#ifndef ENGINE_BASE_JSON_FILE_H
#define ENGINE_BASE_JSON_FILE_H

#include <jansson.h>
#include <stddef.h>

/* `flags` are those of json_dumps(); value NULL: an error. -1: errno says why. */
int json_file_put(const json_t *value, int fd, size_t flags);

/* The same into a file that is created or truncated; after an error it may be partly written. */
int json_file_save(const json_t *value, const char *path, size_t flags);

#endif
