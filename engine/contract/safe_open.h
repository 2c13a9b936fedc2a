/* SPDX-License-Identifier: Apache-2.0 */
/* safe_open.h - opens a file that somebody else can write: never waits, regular files only
 *
 * Ranks write where logs, identity, spool and mirror lie. A FIFO there would stop whoever opens it,
 * a link lead elsewhere, a device do anything. The last component is not followed if it is a link;
 * links before it are. Files that the user names may be links: safe_open_linked().
 */
#ifndef ENGINE_CONTRACT_SAFE_OPEN_H
#define ENGINE_CONTRACT_SAFE_OPEN_H

#include <jansson.h>
#include <stdio.h>

struct err;

/* As open(2), which gets O_NONBLOCK, O_NOFOLLOW and O_CLOEXEC as well; a new file has mode 0600. -1:
 * errno is that of open(2), or ELOOP for a link and EINVAL for anything else that is no regular
 * file; err (or NULL) says "cannot open PATH: it is a FIFO, not a regular file". */
int safe_open(const char *path, int flags, struct err *err);

/* The same for a file that the user names: a link is followed, to a regular file. */
int safe_open_linked(const char *path, int flags, struct err *err);

/* As safe_open(), for reading; NULL: as above. */
FILE *safe_open_stream(const char *path, struct err *err);

/* A new value, or NULL: as above, or it is no JSON. `flags` are those of json_loadf(). */
json_t *safe_open_json(const char *path, size_t flags, struct err *err);

#endif
