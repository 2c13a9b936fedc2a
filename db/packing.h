/* SPDX-License-Identifier: Apache-2.0 */
/* packing.h - compressed text in rows: two SQL functions
 *
 *   text_pack(text)                blob: zlib, with packing.dict as preset dictionary
 *   text_unpack(blob, what, key)   the text; a damaged blob is the error "the WHAT of job KEY in the store are
 *                                  damaged (cause): run `jobctl doctor --repair`", with the code PACKING_DAMAGED
 *
 * zlib finds most damage while it inflates, the rest by the checksum (Adler-32) at the end.  packing.dict never
 * changes: each blob names its dictionary by checksum, and a better one would be a second one.
 */
#ifndef DB_PACKING_H
#define DB_PACKING_H

#include <sqlite3.h>

struct err;

enum { PACKING_DAMAGED = SQLITE_FORMAT };   /* a result code that sqlite itself does not use */

int packing_register(sqlite3 *db, struct err *err);

#endif
