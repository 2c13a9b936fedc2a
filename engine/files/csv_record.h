/* SPDX-License-Identifier: Apache-2.0 */
/* csv_record.h - records of a CSV file (RFC 4180): fields between commas, in quotes if they hold commas or line ends
 *
 * In a quoted field "" is one quote.  A blank beside a comma belongs to the field.
 */
#ifndef ENGINE_FILES_CSV_RECORD_H
#define ENGINE_FILES_CSV_RECORD_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum { CSV_FIELDS = 256 };

/* True if the record ends with these bytes, not in the middle of a quoted field. */
bool csv_record_is_whole(const char *text, size_t bytes);

/* Cuts a whole record, with or without its line end, into fields, in place. Returns how many; -1: ERR_DATA */
int csv_record_split(char *field[CSV_FIELDS], char *text, struct err *err);

#endif
