/* SPDX-License-Identifier: Apache-2.0 */
/* csv_record.c - see csv_record.h */
#include "engine/files/csv_record.h"

#include <string.h>

#include "engine/base/err.h"

bool csv_record_is_whole(const char *text, size_t bytes)
{
    bool even = true;
    for (size_t i = 0; i < bytes; i++)
        even ^= text[i] == '"';
    return even;
}

/* A quoted field at *from, the quote included; its end, or NULL where it does not end. */
static char *unquote(char *from)
{
    char *to = from++;
    while (*from && (*from != '"' || from[1] == '"')) {
        from += *from == '"';
        *to++ = *from++;
    }
    if (!*from)
        return NULL;
    *to = '\0';
    return from + 1;
}

static bool is_end(const char *at)
{
    return *at == '\0' || *at == ',' || strcmp(at, "\n") == 0 || strcmp(at, "\r\n") == 0;
}

int csv_record_split(char *field[CSV_FIELDS], char *text, struct err *err)
{
    int n = 0;
    for (char *at = text, more = ','; more == ','; at++) {
        if (n == CSV_FIELDS)
            return err_set(err, ERR_DATA, "the line has more than %d columns", CSV_FIELDS);
        field[n++] = at;
        char *end = *at == '"' ? unquote(at) : at + strcspn(at, ",\r\n");
        if (!end || !is_end(end))
            return err_set(err, ERR_DATA, "column %d: a quoted text must end with a quote before the comma, and a quote in "
                           "it is written twice", n);
        more = *end;
        *end = '\0';
        at = end;
    }
    return n;
}
