/* SPDX-License-Identifier: Apache-2.0 */
/* safe_open.h - opens a file that another user can write: never waits, regular files only
 *
 * Ranks can write to the directories of logs, identity, spool and mirror. In place of such a file, a FIFO would block
 * the opening process, a link would lead elsewhere, and a device could have any effect. A link is not followed in the
 * last component, but is in earlier ones. Files that the user names may be links: safe_open_linked().
 */
#ifndef ENGINE_BASE_SAFE_OPEN_H
#define ENGINE_BASE_SAFE_OPEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct err;

/* As open(2) with O_NONBLOCK, O_NOFOLLOW and O_CLOEXEC added; a new file has mode 0600. -1: errno is open(2)'s, or
 * ELOOP for a link and EINVAL for anything else that is not a regular file; err (or NULL) says "cannot open PATH: it is
 * a FIFO, not a regular file". */
int safe_open(const char *path, int flags, struct err *err);

/* The same for a file named by the user: follows a link to a regular file. */
int safe_open_linked(const char *path, int flags, struct err *err);

/* The directory `name` of the directory `base`, as a descriptor to name files by (O_PATH). It is neither a link nor on
 * another file system, so a file in it is no slower to reach than `base`. -1: ELOOP, EXDEV or ENOTDIR,
 * or as open(2). */
int safe_open_dir(const char *base, const char *name, struct err *err);

/* As safe_open(), for the file `name` in such a directory. */
int safe_open_in(int dir, const char *name, int flags, struct err *err);

/* As safe_open(), for reading; NULL: as above. */
FILE *safe_open_stream(const char *path, struct err *err);

/* A new value, or NULL: as above, or it is not JSON. `flags` are those of json_loadf(). */
json_t *safe_open_json(const char *path, size_t flags, struct err *err);

/* Is `path` a regular file, not a link, with exactly these bytes? False if it cannot be read. */
bool safe_open_has(const char *path, const char *text);

#endif
