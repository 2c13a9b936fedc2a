/* SPDX-License-Identifier: Apache-2.0 */
/* redact.c - see redact.h
 *
 * Text is read twice: known values first, then shapes (redact_shapes.h).
 */
#include "agent/core/redact.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/redact_shapes.h"
#include "engine/base/buf.h"

enum { KNOWN_LEAST = 6 };

struct redact {
    size_t n, room;
    char **known;
};

/* Keys of event bodies whose values the program reads back, so they stay as they are. */
static const char *const references[] = {
    "path", "dir", "digest", "nonce", "boot_id", "node", "name", "version", "kind", "cause", "gpu",
    "result", "hostname", "address", "uuid", NULL,
};

/* ---- known values ---- */

static int hex_of(const char *p)
{
    const char digits[3] = {p[0], p[0] ? p[1] : '\0', '\0'};
    return isxdigit((unsigned char)digits[0]) && isxdigit((unsigned char)digits[1])
               ? (int)strtol(digits, NULL, 16) : -1;
}

/* Length of an escape sequence at p that means c, or 0: \n, \x0a, \u000a. */
static size_t escape_of(const char *p, char c)
{
    static const char letters[] = "n\nt\tr\rb\bf\f";
    for (const char *l = letters; *l; l += 2)
        if (p[1] == l[0] && c == l[1])
            return 2;
    if (p[1] == 'x' && hex_of(p + 2) == (unsigned char)c)
        return 4;
    if (strncmp(p + 1, "u00", 3) == 0 && hex_of(p + 4) == (unsigned char)c)
        return 6;
    return 0;
}

/* Length of the text at p that stands for c, or 0. literal: a backslash stands for itself, if it can. */
static size_t unit_of(const char *p, char c, bool literal)
{
    const size_t escape = *p == '\\' ? escape_of(p, c) : 0;
    if (escape && !literal)
        return escape;
    if (tolower((unsigned char)*p) == tolower((unsigned char)c) || (*p == '+' && c == ' ') ||
        (*p == '-' && c == '+') || (*p == '_' && c == '/'))
        return 1;
    if (*p == '%' && hex_of(p + 1) == (unsigned char)c)
        return 3;
    return escape;
}

/* Quotes and backslashes between two characters of the value are skipped. */
static size_t match_as(const char *text, const char *value, bool literal)
{
    const char *p = text;
    for (int skipped = 0; *value;) {
        size_t n = unit_of(p, *value, literal);
        if (n) {
            p += n;
            value++;
            skipped = 0;
        } else if (p > text && *p && strchr("\\\"'`", *p) && skipped++ < 8) {
            p++;
        } else {
            return 0;
        }
    }
    return (size_t)(p - text);
}

/* "\x5c" may be a backslash, or be the value's own four characters. */
static size_t match_of(const char *text, const char *value)
{
    const size_t n = match_as(text, value, false);
    return n || !strchr(value, '\\') ? n : match_as(text, value, true);
}

static struct redact_span known_at(const struct redact *r, const char *text, const char *p)
{
    (void)text;
    struct redact_span best = {0, 0};
    for (size_t i = 0; r && i < r->n; i++) {
        size_t n = match_of(p, r->known[i]);
        if (n > best.len)
            best.len = n;
    }
    return best;
}

static int add_known(struct redact *r, const char *value, size_t len)
{
    if (len < KNOWN_LEAST)
        return 0;
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 8;
        char **known = realloc(r->known, room * sizeof(*known));
        if (!known)
            return -1;
        r->known = known;
        r->room = room;
    }
    r->known[r->n] = strndup(value, len);
    return r->known[r->n] ? (r->n++, 0) : -1;
}

/* The part of base64 that is the same whatever stands around the value, for each alignment. */
static int add_base64(struct redact *r, const char *secret, size_t len)
{
    unsigned char *in = calloc(1, len + 3), *out = malloc(4 * (len + 5) / 3 + 8);
    int rc = in && out ? 0 : -1;
    for (size_t shift = 0; rc == 0 && shift < 3; shift++) {
        const size_t first = shift ? shift + 1 : 0, end = (shift + len) * 8 / 6;
        memcpy(in + shift, secret, len);
        EVP_EncodeBlock(out, in, (int)(shift + len));
        rc = add_known(r, (char *)out + first, end - first);
        memset(in, 0, shift + 1);
    }
    free(in);
    free(out);
    return rc;
}

static int add_hex(struct redact *r, const char *secret, size_t len)
{
    char *hex = malloc(2 * len + 1);
    for (size_t i = 0; hex && i < len; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)secret[i]);
    int rc = hex ? add_known(r, hex, 2 * len) : -1;
    free(hex);
    return rc;
}

/* With \uXXXX for what is not ASCII. */
static int add_ascii(struct redact *r, const char *secret)
{
    json_t *value = json_string(secret);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    int rc = text && strstr(text, "\\u") ? add_known(r, text + 1, strlen(text) - 2) : 0;
    free(text);
    json_decref(value);
    return rc;
}

/* With %25 for %, which unit_of() cannot tell from a % of the value itself. */
static int add_percent(struct redact *r, const char *secret, size_t len)
{
    size_t n = 0;
    char *text = strchr(secret, '%') ? malloc(3 * len + 1) : NULL;
    for (const char *p = secret; text && *p; p++)
        n += *p == '%' ? (size_t)snprintf(text + n, 4, "%%25") : (size_t)snprintf(text + n, 2, "%c", *p);
    int rc = text ? add_known(r, text, n) : 0;
    free(text);
    return rc;
}

struct redact *redact_create(void)
{
    return calloc(1, sizeof(struct redact));
}

void redact_destroy(struct redact *r)
{
    for (size_t i = 0; r && i < r->n; i++)
        free(r->known[i]);
    if (r)
        free(r->known);
    free(r);
}

int redact_add(struct redact *r, const char *secret)
{
    const size_t len = secret ? strlen(secret) : 0;
    if (len < KNOWN_LEAST)
        return 0;
    return add_known(r, secret, len) < 0 || add_base64(r, secret, len) < 0 ||
                   add_hex(r, secret, len) < 0 || add_ascii(r, secret) < 0 ||
                   add_percent(r, secret, len) < 0 ? -1 : 0;
}

int redact_add_all(struct redact *r, const json_t *values)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)values, name, value)
        if (redact_add(r, json_string_value(value)) < 0)
            return -1;
    return 0;
}

/* ---- text ---- */

static struct redact_span shape_at(const struct redact *r, const char *text, const char *p)
{
    (void)r;
    return redact_shape_at(text, p);
}

/* Copies text, without the secrets that `find` finds. NULL: out of memory. */
static char *remove_secrets(const struct redact *r, const char *text,
                            struct redact_span (*find)(const struct redact *, const char *, const char *))
{
    struct buf out = {0};
    const char *copied = text;
    int rc = 0;
    for (const char *p = text; *p && rc == 0;) {
        const struct redact_span s = find(r, text, p);
        if (s.len == 0) {
            p++;
            continue;
        }
        rc = buf_append(&out, copied, (size_t)(p - copied) + s.lead) < 0 ||
             buf_append(&out, REDACTED, strlen(REDACTED)) < 0 ? -1 : 0;
        copied = p += s.lead + s.len;
    }
    if (rc < 0 || buf_append(&out, copied, strlen(copied)) < 0) {
        buf_fini(&out);
        return NULL;
    }
    return buf_take(&out);
}

char *redact_text(const struct redact *r, const char *text, size_t *size)
{
    char *first = remove_secrets(r, text, known_at);
    char *clean = first ? remove_secrets(NULL, first, shape_at) : NULL;
    free(first);
    if (clean && size)
        *size = strlen(clean);
    return clean;
}

char *redact_line(const void *known, const char *text)
{
    return redact_text(known, text, NULL);
}

/* ---- trees ---- */

struct tree {
    const struct redact *known;
    const char *const   *keep;
};

static json_t *clean_value(const struct tree *t, const char *key, json_t *value);

static bool is_kept(const struct tree *t, const char *key)
{
    for (const char *const *k = t->keep; k && *k; k++)
        if (strcmp(*k, key) == 0)
            return true;
    return false;
}

static json_t *clean_text(const struct tree *t, const char *key, const char *text)
{
    if (key && redact_shape_is_value(key, text))
        return json_string(REDACTED);
    char *clean = redact_text(t->known, text, NULL);
    json_t *out = clean ? json_string(clean) : NULL;
    free(clean);
    return out;
}

/* {"name": "HF_TOKEN", "value": X}: the name is the key of the value. */
static json_t *clean_object(const struct tree *t, json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name")), *key;
    json_t *value, *out = json_object();
    json_object_foreach (object, key, value) {
        const char *as = name && strcmp(key, "value") == 0 ? name : key;
        json_t *clean = is_kept(t, key) ? json_incref(value) : clean_value(t, as, value);
        if (!clean || json_object_set_new(out, key, clean) < 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* The option that an argument belongs to: the one before it, if it has no value yet. */
static const char *option_before(const json_t *array, size_t i)
{
    const char *before = i ? json_string_value(json_array_get(array, i - 1)) : NULL;
    return before && redact_shape_is_option(before) ? before : NULL;
}

/* The elements may be lines of output: a private key then continues in the next one. */
static json_t *clean_array(const struct tree *t, const char *key, json_t *array)
{
    size_t i;
    json_t *value, *out = json_array();
    bool inside = false;
    json_array_foreach (array, i, value) {
        const char *option = option_before(array, i), *text = json_string_value(value);
        inside = inside && text && !strstr(text, "-----END");
        json_t *clean = inside ? json_string(REDACTED) : clean_value(t, option ? option : key, value);
        inside = inside || (text && redact_shape_opens(text));
        if (!clean || json_array_append_new(out, clean) < 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *clean_value(const struct tree *t, const char *key, json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return clean_text(t, key, json_string_value(value));
    case JSON_OBJECT:
        return clean_object(t, value);
    case JSON_ARRAY:
        return clean_array(t, key, value);
    default:
        return json_incref(value);
    }
}

json_t *redact_tree(const struct redact *r, const json_t *value, const char *const keep[])
{
    const struct tree t = {r, keep};
    return value ? clean_value(&t, NULL, (json_t *)(uintptr_t)value) : NULL;
}

json_t *redact_event(const struct redact *r, const json_t *body)
{
    return redact_tree(r, body, references);
}
