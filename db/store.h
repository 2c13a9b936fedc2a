/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the one file that the controller remembers with
 *
 * sqlite in WAL mode with synchronous=FULL: what store_commit() has returned
 * for survives a power cut.  One writer, one thread.  A store that was made by
 * a newer program is refused; an older one is copied beside itself and brought
 * up to date in one transaction.
 */
#ifndef DB_STORE_H
#define DB_STORE_H

struct err;
struct store;

/* Opens or makes `path` (mode 0600). The caller closes it. */
int store_open(struct store **out, const char *path, struct err *err);
void store_close(struct store *s);

/* A transaction; what is written outside of one is committed row by row.
 * A commit that fails is rolled back. */
int store_begin(struct store *s, struct err *err);
int store_commit(struct store *s, struct err *err);
void store_rollback(struct store *s);

#endif
