/* SPDX-License-Identifier: Apache-2.0 */
/* caption_style.c - see caption_style.h */
#include "engine/text/caption_style.h"

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "engine/base/err.h"
#include "engine/base/utf8.h"

enum { SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2, DOTTED_I = 0x130, DOT_ABOVE = 0x307 };

struct lower {
    const char *text;
    size_t      n;
    locale_t    locale;
    char       *out;
    size_t      len;
};

/* str.isspace() of Python */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* The character at a byte, or the one before it; 0: there is none. */
static uint32_t after(const struct lower *l, size_t at)
{
    uint32_t c = 0;
    return utf8_read(l->text + at, l->n - at, &c) ? c : 0;
}

static uint32_t before(const struct lower *l, size_t at)
{
    for (size_t back = 1; back <= 4 && back <= at; back++)
        if (((unsigned char)l->text[at - back] & 0xC0) != 0x80)
            return after(l, at - back);
    return 0;
}

static void put(struct lower *l, uint32_t c)
{
    l->len += utf8_write(l->out + l->len, c);
}

static void put_lower(struct lower *l, uint32_t c, size_t at, size_t size)
{
    if (c == SIGMA && iswalpha_l((wint_t)before(l, at), l->locale) &&
        !iswalpha_l((wint_t)after(l, at + size), l->locale)) {
        put(l, FINAL_SIGMA);
    } else if (c == DOTTED_I) {
        put(l, 'i');
        put(l, DOT_ABOVE);
    } else {
        put(l, (uint32_t)towlower_l((wint_t)c, l->locale));
    }
}

/* The text without spaces at both ends. */
static void strip(struct lower *l)
{
    uint32_t c;
    for (size_t size; l->n && (size = utf8_read(l->text, l->n, &c)) && is_space(c);) {
        l->text += size;
        l->n -= size;
    }
    while (l->n && is_space(before(l, l->n)))
        do
            l->n--;
        while (l->n && ((unsigned char)l->text[l->n] & 0xC0) == 0x80);
}

static void lower(struct lower *l)
{
    for (size_t at = 0, size; at < l->n; at += size) {
        uint32_t c;
        size = utf8_read(l->text + at, l->n - at, &c);
        if (size) {
            put_lower(l, c, at, size);
        } else {
            size = 1;
            l->out[l->len++] = l->text[at];
        }
    }
}

char *caption_style_diffusers(const char *caption, size_t n, size_t *bytes, struct err *err)
{
    struct lower l = {.text = caption, .n = n, .locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0)};
    if (l.locale)
        l.out = malloc(2 * n + 5); /* the lower form of a character has at most one byte more */
    if (!l.out) {
        err_set(err, ERR_MEMORY, "no memory for a caption of %zu bytes, or no locale C.UTF-8", n);
    } else {
        strip(&l);
        lower(&l);
        l.out[l.len] = '\0';
        *bytes = l.len;
    }
    if (l.locale)
        freelocale(l.locale);
    return l.out;
}
