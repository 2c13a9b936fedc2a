/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.c - see json_text.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/base/json_text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/utf8.h"

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* The JSON library's: the program ends if there is none (json_memory.h). */
static void *allocate(size_t bytes)
{
    json_malloc_t get;
    json_free_t drop;
    json_get_alloc_funcs(&get, &drop);
    return get(bytes);
}

static void release(void *bytes)
{
    json_malloc_t get;
    json_free_t drop;
    json_get_alloc_funcs(&get, &drop);
    drop(bytes);
}

/* The bytes at p that one replacement stands for: a byte, or the beginning of a character. */
static size_t bad_bytes(const char *p, size_t n)
{
    for (size_t k = n < 3 ? n : 3; k > 1; k--)
        if (utf8_is_cut(p, k))
            return k;
    return 1;
}

static size_t replace(char *out, const char *p, size_t n)
{
    size_t at = 0;
    for (size_t used; n > 0; p += used, n -= used) {
        uint32_t c;
        used = *p ? utf8_read(p, n, &c) : 0;
        memcpy(out + at, used ? p : REPLACEMENT, used ? used : strlen(REPLACEMENT));
        at += used ? used : strlen(REPLACEMENT);
        used = used ? used : bad_bytes(p, n);
    }
    return at;
}

json_t *json_text_n(const char *bytes, size_t n)
{
    if (utf8_valid(bytes, n) && !memchr(bytes, 0, n))
        return json_stringn_nocheck(bytes, n);
    char *out = allocate(n * strlen(REPLACEMENT));
    json_t *text = out ? json_stringn_nocheck(out, replace(out, bytes, n)) : NULL;
    release(out);
    return text;
}

/* UTF-8 text that a buffer was too small for; the last byte of "caf\xE9" (Latin-1) is another matter. */
static bool is_cut_utf8(const char *text, size_t n, size_t whole)
{
    bool beyond_ascii = false;
    for (size_t i = 0; i < whole; i++)
        beyond_ascii |= (unsigned char)text[i] >= 0x80;
    return whole < n && beyond_ascii && utf8_valid(text, whole);
}

json_t *json_text(const char *text)
{
    if (!text)
        return NULL;
    const size_t n = strlen(text), whole = utf8_whole(text, n);
    return json_text_n(text, is_cut_utf8(text, n, whole) ? whole : n);
}

json_t *json_text_f(const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *out = n < 0 ? NULL : allocate((size_t)n + 1);
    if (out)
        vsnprintf(out, (size_t)n + 1, fmt, again);
    va_end(again);
    json_t *text = json_text(out);
    release(out);
    return text;
}
