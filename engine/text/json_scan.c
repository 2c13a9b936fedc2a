/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.c - see json_scan.h */
#include "engine/text/json_scan.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/utf8.h"

enum { DEPTH_MAX = 64 };

void json_scan_begin(struct json_scan *s, const char *text, size_t size, struct err *err)
{
    *s = (struct json_scan){.text = text, .size = size, .first = true, .err = err};
}

int json_scan_end(struct json_scan *s)
{
    free(s->unescaped);
    s->unescaped = NULL;
    return s->err->code == ERR_NONE ? 0 : -1;
}

int json_scan_fail(struct json_scan *s, const char *what)
{
    size_t line = 1;
    if (s->err->code != ERR_NONE)
        return -1;
    for (size_t i = 0; i < s->at && i < s->size; i++)
        line += s->text[i] == '\n';
    return err_set(s->err, ERR_DATA, "line %zu: %s", line, what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

char json_scan_peek(struct json_scan *s)
{
    if (s->err->code != ERR_NONE)
        return '\0';
    while (s->at < s->size && is_blank(s->text[s->at]))
        s->at++;
    return s->at < s->size ? s->text[s->at] : '\0';
}

static int take(struct json_scan *s, char c, const char *what)
{
    if (json_scan_peek(s) != c)
        return json_scan_fail(s, what);
    s->at++;
    return 0;
}

int json_scan_enter(struct json_scan *s, char open)
{
    s->first = true;
    return take(s, open, open == '{' ? "expected an object, {" : "expected a list, [");
}

bool json_scan_more(struct json_scan *s, char close)
{
    const char c = json_scan_peek(s);
    if (c == close) {
        s->at++;
        s->first = false; /* what has been left was a member */
        return false;
    }
    if (!s->first && take(s, ',', close == '}' ? "expected , or }" : "expected , or ]") < 0)
        return false;
    s->first = false;
    return s->err->code == ERR_NONE;
}

/* --- strings ----------------------------------------------------------------------------- */

/* Four hexadecimal digits. */
static int hex4(struct json_scan *s, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        const char *digits = "0123456789abcdefABCDEF", *at = NULL;
        if (s->at < s->size && s->text[s->at])
            at = strchr(digits, s->text[s->at]);
        if (!at)
            return json_scan_fail(s, "expected four hexadecimal digits after \\u");
        const uint32_t d = (uint32_t)(at - digits);
        *out = *out << 4 | (d < 16 ? d : d - 6);
    }
    return 0;
}

/* After "\u"; a character above U+FFFF is two of these (RFC 8259, 7). */
static size_t unicode(struct json_scan *s, char *out)
{
    uint32_t high, low;
    if (hex4(s, &high) < 0)
        return 0;
    if (high >= 0xD800 && high < 0xDC00 && s->size - s->at >= 6 && s->text[s->at] == '\\' &&
        s->text[s->at + 1] == 'u') {
        s->at += 2;
        if (hex4(s, &low) < 0)
            return 0;
        if (low >= 0xDC00 && low < 0xE000)
            return utf8_write(out, 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
    }
    if (high >= 0xD800 && high < 0xE000) {
        json_scan_fail(s, "half of a surrogate pair is not a character");
        return 0;
    }
    return utf8_write(out, high);
}

/* At a backslash: the bytes that it stands for, 0 for an error. */
static size_t escape(struct json_scan *s, char *out)
{
    static const char name[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char c = ++s->at < s->size ? s->text[s->at] : '\0';
    const char *at = c ? strchr(name, c) : NULL;
    s->at++;
    if (c == 'u')
        return unicode(s, out);
    if (!at) {
        json_scan_fail(s, "expected one of \" \\ / b f n r t u after a backslash");
        return 0;
    }
    *out = means[at - name];
    return 1;
}

static int room_for(struct json_scan *s, size_t n)
{
    if (n <= s->room)
        return 0;
    char *more = realloc(s->unescaped, 2 * n);
    if (!more)
        return err_set(s->err, ERR_MEMORY, "no memory for a string of %zu bytes", n);
    s->unescaped = more;
    s->room = 2 * n;
    return 0;
}

/* The bytes before a quote, a backslash or a control character. */
static size_t plain(const struct json_scan *s)
{
    size_t i = s->at;
    while (i < s->size && s->text[i] != '"' && s->text[i] != '\\' && (unsigned char)s->text[i] >= 0x20)
        i++;
    return i - s->at;
}

/* Copies plain pieces and escapes until the quote. */
static int unescape(struct json_scan *s, struct json_slice *out)
{
    size_t n = 0, k;
    for (;;) {
        k = plain(s);
        if (room_for(s, n + k + 4) < 0)
            return -1;
        memcpy(s->unescaped + n, s->text + s->at, k);
        s->at += k;
        n += k;
        if (s->at >= s->size || (unsigned char)s->text[s->at] < 0x20)
            return json_scan_fail(s, "a string does not end on its line");
        if (s->text[s->at] == '"')
            break;
        if ((k = escape(s, s->unescaped + n)) == 0)
            return -1;
        n += k;
    }
    s->at++;
    *out = (struct json_slice){s->unescaped, n};
    return 0;
}

int json_scan_string(struct json_scan *s, struct json_slice *out)
{
    *out = (struct json_slice){"", 0};
    if (take(s, '"', "expected a string") < 0)
        return -1;
    const size_t n = plain(s);
    if (s->at + n >= s->size || s->text[s->at + n] != '"')
        return unescape(s, out);
    *out = (struct json_slice){s->text + s->at, n};
    s->at += n + 1;
    return 0;
}

int json_scan_key(struct json_scan *s, struct json_slice *out)
{
    return json_scan_string(s, out) < 0 ? -1 : take(s, ':', "expected a colon");
}

/* --- numbers and the rest ---------------------------------------------------------------- */

int json_scan_int(struct json_scan *s, int64_t *out)
{
    const bool minus = json_scan_peek(s) == '-';
    const size_t from = s->at += minus;
    *out = 0;
    for (; s->at < s->size && s->text[s->at] >= '0' && s->text[s->at] <= '9' && s->at - from < 18; s->at++)
        *out = 10 * *out + (s->text[s->at] - '0');
    if (s->at == from || (s->at < s->size && strchr("0123456789.eE", s->text[s->at]) && s->text[s->at]))
        return json_scan_fail(s, "expected an integer of at most 18 digits");
    if (minus)
        *out = -*out;
    return s->err->code == ERR_NONE ? 0 : -1;
}

/* A number, true, false or null: all that may stand in one, without looking closer. */
static int skip_word(struct json_scan *s)
{
    const size_t from = s->at;
    while (s->at < s->size && s->text[s->at] && strchr("+-.0123456789aeflnrstuE", s->text[s->at]))
        s->at++;
    return s->at > from ? 0 : json_scan_fail(s, "expected a value");
}

/* Over a string, its backslashes not decoded. */
static int skip_string(struct json_scan *s)
{
    for (s->at++;; s->at += 2) {
        s->at += plain(s);
        if (s->at >= s->size || (unsigned char)s->text[s->at] < 0x20)
            return json_scan_fail(s, "a string does not end on its line");
        if (s->text[s->at] == '"')
            break;
    }
    s->at++;
    return 0;
}

/* Brackets are counted, not matched: whoever reads the value afterwards finds what is wrong. */
int json_scan_skip(struct json_scan *s, struct json_slice *out)
{
    int depth = 0;
    json_scan_peek(s);
    const size_t from = s->at;
    do {
        const char c = json_scan_peek(s);
        if (c == '{' || c == '[') {
            if (++depth > DEPTH_MAX)
                return json_scan_fail(s, "more than 64 brackets inside each other");
            s->at++;
        } else if (c == '}' || c == ']') {
            depth--;
            s->at++;
        } else if (depth > 0 && (c == ',' || c == ':')) {
            s->at++;
        } else if (c == '"' ? skip_string(s) < 0 : skip_word(s) < 0) {
            return -1;
        }
        if (s->err->code != ERR_NONE)
            return -1;
    } while (depth > 0);
    if (out)
        *out = (struct json_slice){s->text + from, s->at - from};
    return depth < 0 ? json_scan_fail(s, "a closing bracket has no opening one") : 0;
}

bool json_scan_is(const struct json_slice *t, const char *word)
{
    return t->n == strlen(word) && memcmp(t->at, word, t->n) == 0;
}
