/* SPDX-License-Identifier: Apache-2.0 */
/* redact.c - see redact.h */
#include "controller/base/redact.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/os/buf.h"

enum { SECRETS = 64, SECRET_LEAST = 6 };

struct redact {
    int   n;
    char *secrets[SECRETS];
};

static const char *const telling[] = {
    "token", "secret", "password", "passwd", "api_key", "apikey", "access_key", "private_key",
    "credential", "authorization", "nonce",
};

/* Prefixes of keys of well-known services, and the minimum number of characters that follow. */
static const struct {
    const char *prefix;
    size_t      least;
} shapes[] = {
    {"hf_", 20}, {"sk-", 20}, {"ghp_", 20}, {"github_pat_", 20}, {"glpat-", 16}, {"AKIA", 16},
    {"xoxb-", 16}, {"xoxp-", 16}, {"AIza", 30}, {"eyJhbGciOi", 20},
};

struct redact *redact_create(void)
{
    return calloc(1, sizeof(struct redact));
}

void redact_destroy(struct redact *r)
{
    for (int i = 0; r && i < r->n; i++)
        free(r->secrets[i]);
    free(r);
}

void redact_add(struct redact *r, const char *secret)
{
    if (secret && strlen(secret) >= SECRET_LEAST && r->n < SECRETS &&
        (r->secrets[r->n] = strdup(secret)))
        r->n++;
}

int redact_is_telling(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++) {
        size_t n = strlen(telling[i]);
        for (size_t at = 0; at + n <= len; at++)
            if (strncasecmp(name + at, telling[i], n) == 0)
                return 1;
    }
    return 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Length of a key at p, or 0. */
static size_t secret_at(const struct redact *r, const char *p, bool begins)
{
    for (int i = 0; i < r->n; i++) {
        size_t n = strlen(r->secrets[i]);
        if (strncmp(p, r->secrets[i], n) == 0)
            return n;
    }
    for (size_t i = 0; begins && i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        size_t n = strlen(shapes[i].prefix), more = 0;
        if (strncmp(p, shapes[i].prefix, n) != 0)
            continue;
        while (is_word(p[n + more]) || p[n + more] == '.')
            more++;
        if (more >= shapes[i].least)
            return n + more;
    }
    return 0;
}

/* `name` ends at p: the start of its value, or NULL. Forms: name=value, name: value,
 * "name": "value". */
static const char *value_of(const char *p)
{
    if (*p == '"' || *p == '\'')
        p++;
    p += strspn(p, " ");
    if (*p != '=' && *p != ':')
        return NULL;
    p++;
    p += strspn(p, " ");
    if (*p == '"' || *p == '\'')
        p++;
    if (strncasecmp(p, "bearer ", 7) == 0)
        p += 7;
    return p;
}

char *redact_text(const struct redact *r, const char *text, size_t *size)
{
    struct buf out;
    buf_init(&out);
    bool begins = true, failed = false;
    for (const char *p = text; *p && !failed;) {
        size_t secret = secret_at(r, p, begins), len = 0;
        if (secret) {
            failed = buf_append(&out, REDACTED, strlen(REDACTED)) < 0;
            p += secret;
            continue;
        }
        while (begins && is_word(p[len]))
            len++;
        const char *value = len && redact_is_telling(p, len) ? value_of(p + len) : NULL;
        size_t value_len = value ? strcspn(value, " \t\r\n\"',;}") : 0;
        if (value_len) {
            failed = buf_append(&out, p, (size_t)(value - p)) < 0 ||
                     buf_append(&out, REDACTED, strlen(REDACTED)) < 0;
            p = value + value_len;
            begins = true;
            continue;
        }
        begins = !is_word(*p);
        failed = buf_append(&out, p++, 1) < 0;
    }
    if (failed || buf_append(&out, "", 1) < 0) {
        buf_fini(&out);
        return NULL;
    }
    *size = out.size - 1;
    return out.data; /* owned by the caller */
}
