/* SPDX-License-Identifier: Apache-2.0 */
/* err.c - see err.h */
#include "engine/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/utf8.h"

/* Bytes of the character at p; 0: none, or not printable. What "%.60s" cut off is none. */
static size_t printable(const char *p)
{
    uint32_t c;
    const size_t n = utf8_read(p, strnlen(p, 4), &c);
    return n > 0 && c >= 0x20 && (c < 0x7F || c >= 0xA0) ? n : 0;
}

void err_make_printable(char *text)
{
    for (char *p = text; *p;) {
        const size_t n = printable(p);
        if (n == 0)
            *p = '?';
        p += n ? n : 1;
    }
}

/* Ends a truncated sentence in "...", without splitting a UTF-8 character. */
static void mark_cut(char *text, size_t size)
{
    size_t end = size - sizeof("...");
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    memcpy(text + end, "...", sizeof("..."));
}

__attribute__((format(printf, 3, 0))) static void set(struct err *err, enum err_code code, const char *fmt, va_list ap)
{
    if (vsnprintf(err->text, sizeof(err->text), fmt, ap) >= (int)sizeof(err->text))
        mark_cut(err->text, sizeof(err->text));
    err_make_printable(err->text);
    err->code = code;
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    if (!err || err->code != ERR_NONE)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    err->errnum = 0;
    set(err, code, fmt, ap);
    va_end(ap);
    return -1;
}

int err_set_errno(struct err *err, int errnum, const char *fmt, ...)
{
    if (!err || err->code != ERR_NONE)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    set(err, ERR_SYSTEM, fmt, ap);
    va_end(ap);
    err->errnum = errnum;
    const size_t n = strlen(err->text);
    if (snprintf(err->text + n, sizeof(err->text) - n, ": %s", strerror(errnum)) >= (int)(sizeof(err->text) - n))
        mark_cut(err->text, sizeof(err->text));
    return -1;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    char was[sizeof(err->text)];
    memcpy(was, err->text, sizeof(was));
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    if (n < 0)
        n = 0;
    size_t at = (size_t)n < sizeof(err->text) ? (size_t)n : sizeof(err->text) - 1;
    int m = snprintf(err->text + at, sizeof(err->text) - at, "%s", was);
    if (at + (size_t)(m < 0 ? 0 : m) >= sizeof(err->text))
        mark_cut(err->text, sizeof(err->text));
    err_make_printable(err->text);
    return -1;
}

int err_exit_code(enum err_code code)
{
    switch (code) {
    case ERR_NONE:
        return 0;
    case ERR_USAGE:
    case ERR_DATA:
        return 2;
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
        return 3;
    case ERR_SYSTEM:
    case ERR_MEMORY:
    case ERR_NO_DEVICE:
    case ERR_DEVICE_MEMORY:
    case ERR_DEVICE:
    case ERR_CUDA:
        return 4;
    case ERR_BUG:
        break;
    }
    return 70;
}
