/* SPDX-License-Identifier: Apache-2.0 */
/* store_copy.h - a checked copy of a whole store */
#ifndef DB_STORE_COPY_H
#define DB_STORE_COPY_H

struct err;

/* Copies the store `from` (all of it is read and checked, indexes included) to the new file `to`, without slack and
 * without a log, mode 0600. -1: `from` is damaged or absent, or `to` cannot be written and is not there. */
int store_copy(const char *from, const char *to, struct err *err);

#endif
