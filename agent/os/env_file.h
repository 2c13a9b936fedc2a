/* SPDX-License-Identifier: Apache-2.0 */
/* env_file.h - an environment in a file: entries NAME=value, each ended by a NUL, as in /proc/PID/environ
 *
 * An entry without '=' is a name whose value is elsewhere.  Such files lie in the directory of a job, jobs/<id>/:
 *
 *   env           the environment taken from the job's submitter, and the names of its secrets
 *   secrets.env   the values of its secrets; deleted at the job's end
 */
#ifndef AGENT_OS_ENV_FILE_H
#define AGENT_OS_ENV_FILE_H

#include <jansson.h>
#include <stddef.h>

#include "engine/base/buf.h"

struct err;

#define ENV_FILE         "env"
#define ENV_FILE_SECRETS "secrets.env"

/* Appends an entry; value NULL: the name alone. -1: no memory. */
int env_file_put(struct buf *entries, const char *name, const char *value);

/* Replaces DIR/NAME, mode 0600, whole or not at all. */
int env_file_write(const char *dir, const char *name, const struct buf *entries, struct err *err);

/* Appends the entries of DIR/NAME. ERR_NOT_FOUND: there is no such file; ERR_DATA: it does not end with an entry. */
int env_file_read(struct buf *entries, const char *dir, const char *name, struct err *err);

/* The entry after `at`, NULL for the first; NULL: there is none. */
const char *env_file_next(const struct buf *entries, const char *at);

/* Entries with a value as {NAME: value}, without those that are not UTF-8; NULL: no memory. */
json_t *env_file_values(const struct buf *entries);

#endif
