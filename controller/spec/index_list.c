/* SPDX-License-Identifier: Apache-2.0 */
/* index_list.c - see index_list.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/spec/index_list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

enum { RANGE_TEXT = 24 };

static int unexpected(const char *text, struct err *err)
{
    return err_set(err, ERR_USAGE, "expected indices such as 0-99, 0-15:4 or 1,3,7, and %%8 after them for at most 8 "
                   "at once, not \"%.60s\"", text);
}

/* A whole number; *p moves behind it. -1: there is none, -2: it is too large. */
static long number(const char **p)
{
    char *end;
    if (!isdigit((unsigned char)**p))
        return -1;
    const long n = strtol(*p, &end, 10);
    if (end - *p > 9)
        return -2;
    *p = end;
    return n;
}

static int add_range(struct index_list *list, long low, long high, long step, struct err *err)
{
    if (high < low)
        return err_set(err, ERR_USAGE, "the range %ld-%ld runs backwards; write %ld-%ld", low, high, high, low);
    for (long i = low; i <= high; i += step)
        if (!index_list_add(list, (int)i))
            return err_set(err, ERR_USAGE, "index %ld is given twice", i);
    if (list->count > INDEX_COUNT_MAX)
        return err_set(err, ERR_USAGE, "%d or more indices, but an array has at most %d; split it",
                       list->count, INDEX_COUNT_MAX);
    return 0;
}

/* "7", "3-5" or "0-15:4"; *p moves behind it. */
static int read_range(struct index_list *list, const char **p, const char *text, struct err *err)
{
    const long low = number(p);
    long high = low, step = 1;
    if (**p == '-' && low >= 0) {
        ++*p;
        high = number(p);
        if (**p == ':' && high >= 0) {
            ++*p;
            step = number(p);
        }
    }
    if (low > INDEX_MAX || high > INDEX_MAX || low == -2 || high == -2)
        return err_set(err, ERR_USAGE, "an index is from 0 to %d, not as in \"%.60s\"", INDEX_MAX, text);
    if (low < 0 || high < 0 || step == -1)
        return unexpected(text, err);
    if (step < 1)
        return err_set(err, ERR_USAGE, "the step of \"%.60s\" must be a whole number from 1", text);
    return add_range(list, low, high, step, err);
}

int index_list_parse(struct index_list *list, const char *text, struct err *err)
{
    const char *p = text;
    *list = (struct index_list){.count = 0};
    for (;; p++) {
        if (read_range(list, &p, text, err) < 0)
            return -1;
        if (*p != ',')
            break;
    }
    if (*p == '%') {
        p++;
        const long at_once = number(&p);
        if (at_once < 1)
            return at_once == 0 ? err_set(err, ERR_USAGE, "%%0 would let no member start; write %%1 or more")
                                : unexpected(text, err);
        list->at_once = at_once < INDEX_COUNT_MAX ? (int)at_once : INDEX_COUNT_MAX;
    }
    return *p ? unexpected(text, err) : 0;
}

bool index_list_has(const struct index_list *list, int index)
{
    return index >= 0 && index <= INDEX_MAX && (list->bits[index / 64] >> (index % 64) & 1);
}

bool index_list_add(struct index_list *list, int index)
{
    if (index_list_has(list, index))
        return false;
    list->bits[index / 64] |= UINT64_C(1) << (index % 64);
    list->count++;
    return true;
}

int index_list_next(const struct index_list *list, int after)
{
    for (int i = after + 1; i <= INDEX_MAX; i++) {
        if (i % 64 == 0 && !list->bits[i / 64])
            i += 63;
        else if (index_list_has(list, i))
            return i;
    }
    return -1;
}

/* The last index of the run that begins with `from`. */
static int run_end(const struct index_list *list, int from)
{
    while (index_list_has(list, from + 1))
        from++;
    return from;
}

char *index_list_text(const struct index_list *list)
{
    const size_t room = (size_t)list->count * RANGE_TEXT + 1;
    char *out = malloc(room);
    size_t at = 0;
    if (!out)
        return NULL;
    out[0] = '\0';
    for (int i = index_list_next(list, -1), last; i >= 0; i = index_list_next(list, last)) {
        last = run_end(list, i);
        at += (size_t)snprintf(out + at, room - at, "%s%d", at ? "," : "", i);
        if (last > i)
            at += (size_t)snprintf(out + at, room - at, "%s%d", last == i + 1 ? "," : "-", last);
    }
    return out;
}
