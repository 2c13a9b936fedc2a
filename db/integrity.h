/* SPDX-License-Identifier: Apache-2.0 */
/* integrity.h - checks a store for damage; the error explains the repair
 *
 * quick: every page, the order of rows and the constraints; misses an index that differs from its table.  It
 * reads the file once, so a daemon can wait for it.  full: the indexes as well, several times slower.
 * Neither detects a changed byte within a text.
 */
#ifndef DB_INTEGRITY_H
#define DB_INTEGRITY_H

#include <sqlite3.h>

struct err;

enum integrity { INTEGRITY_UNCHECKED, INTEGRITY_QUICK, INTEGRITY_FULL };

/* -1: damaged, or not readable. */
int integrity_check(sqlite3 *db, enum integrity depth, struct err *err);

/* Does this sqlite result code mean that the file is damaged? */
int integrity_is_damage(int code);

/* Sets *err to the damaged-store message, with errnum EUCLEAN, and calls the hook.
 * Returns -1. */
int integrity_failed(sqlite3 *db, const char *what, struct err *err);

/* Called each time this thread finds damage. NULL: none. */
void integrity_hook(void (*fn)(void *arg, const char *text), void *arg);

/* Reports damage found by another thread. */
void integrity_tell(const char *text);

#endif
