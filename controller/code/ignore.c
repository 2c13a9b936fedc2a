/* SPDX-License-Identifier: Apache-2.0 */
/* ignore.c - see ignore.h */
#include "controller/code/ignore.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

struct rule {
    char *dir, *pattern;
    bool  back, directory, anchored;
};

struct ignore {
    struct rule *rules;
    size_t       count, room;
};

struct ignore *ignore_create(void)
{
    return calloc(1, sizeof(struct ignore));
}

void ignore_destroy(struct ignore *g)
{
    for (size_t i = 0; g && i < g->count; i++) {
        free(g->rules[i].dir);
        free(g->rules[i].pattern);
    }
    if (g)
        free(g->rules);
    free(g);
}

/* ---- reading ---- */

/* Without the spaces at its end that no backslash keeps. */
static size_t trimmed(const char *line, size_t n)
{
    while (n > 0 && (line[n - 1] == '\r' || (line[n - 1] == ' ' && !(n > 1 && line[n - 2] == '\\'))))
        n--;
    return n;
}

static int append(struct ignore *g, const struct rule *rule)
{
    if (g->count == g->room) {
        const size_t room = g->room ? 2 * g->room : 16;
        struct rule *more = realloc(g->rules, room * sizeof(*more));
        if (!more)
            return -1;
        g->rules = more;
        g->room = room;
    }
    g->rules[g->count++] = *rule;
    return 0;
}

static int add_line(struct ignore *g, const char *dir, const char *line, size_t n)
{
    struct rule r = {.back = n > 0 && line[0] == '!'};
    line += r.back;
    n = trimmed(line, n - r.back);
    if (n == 0 || (line[0] == '#' && !r.back))
        return 0;
    r.directory = line[n - 1] == '/';
    n -= r.directory;
    r.anchored = memchr(line, '/', n) != NULL;
    if (n > 0 && line[0] == '/') {
        line++;
        n--;
    }
    if (n == 0)
        return 0;
    r.dir = strdup(dir);
    r.pattern = strndup(line, n);
    if (r.dir && r.pattern && append(g, &r) == 0)
        return 0;
    free(r.dir);
    free(r.pattern);
    return -1;
}

int ignore_add(struct ignore *g, const char *dir, const char *text)
{
    for (const char *line = text; *line; line += *line == '\n') {
        const size_t n = strcspn(line, "\n");
        if (n > 0 && add_line(g, dir, line, n) < 0)
            return -1;
        line += n;
    }
    return 0;
}

/* ---- matching ---- */

/* The length of a set such as [a-z] or [!]x] at p; 0: it has no end, and matches nothing. */
static size_t set_length(const char *p, const char *end)
{
    const char *q = p + 1;
    q += q < end && (*q == '!' || *q == '^');
    q += q < end && *q == ']';
    for (; q < end && *q != ']'; q++) {
        q += *q == '\\' && q + 1 < end;
        if (*q == '[' && q + 1 < end && q[1] == ':') {
            const char *close = memmem(q + 2, (size_t)(end - q - 2), ":]", 2);
            q = close ? close + 1 : q;
        }
    }
    return q < end ? (size_t)(q - p) + 1 : 0;
}

/* One character, not a star: the bytes of the pattern that match c, or 0. */
static size_t match_one(const char *p, const char *end, char c)
{
    char set[128], text[2] = {c, '\0'};
    if (*p == '?')
        return 1;
    if (*p == '\\' && p + 1 < end)
        return p[1] == c ? 2 : 0;
    const size_t n = *p == '[' ? set_length(p, end) : 0;
    if (*p != '[')
        return *p == c;
    if (n == 0 || n >= sizeof(set))
        return 0;
    snprintf(set, sizeof(set), "%.*s", (int)n, p);
    return fnmatch(set, text, 0) == 0 ? n : 0;
}

/* Within a name. Only the last star needs another try, so the time is bounded. */
static bool match_name(const char *p, size_t np, const char *s, size_t ns)
{
    const char *const p_end = p + np, *const s_end = s + ns, *star = NULL, *from = NULL;
    while (s < s_end) {
        const size_t n = p < p_end && *p != '*' ? match_one(p, p_end, *s) : 0;
        if (p < p_end && *p == '*') {
            star = ++p;
            from = s;
        } else if (n > 0) {
            p += n;
            s++;
        } else if (star) {
            p = star;
            s = ++from;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}

/* The next part after a "/"; NULL: there is none. */
static const char *next_part(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash ? slash + 1 : NULL;
}

static bool is_stars(const char *part)
{
    const size_t n = strspn(part, "*");
    return n >= 2 && (part[n] == '/' || !part[n]);
}

/* Part by part; ** stands for any number of them, the last for one at least. */
static bool match_path(const char *pattern, const char *path)
{
    const char *stars = NULL, *from = NULL;
    while (path) {
        if (pattern && is_stars(pattern)) {
            if (!(stars = pattern = next_part(pattern)))
                return true;
            from = path;
        } else if (pattern && match_name(pattern, strcspn(pattern, "/"), path, strcspn(path, "/"))) {
            pattern = next_part(pattern);
            path = next_part(path);
        } else if (stars) {
            pattern = stars;
            path = from = from ? next_part(from) : NULL;
            if (!path)
                return false;
        } else {
            return false;
        }
    }
    return !pattern;
}

/* The path as seen from the rule's directory; NULL: it is not below. */
static const char *seen_from(const char *dir, const char *path)
{
    const size_t n = strlen(dir);
    if (n == 0)
        return path;
    return strncmp(path, dir, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

static bool matches(const struct rule *r, const char *path, bool directory)
{
    const char *rest = seen_from(r->dir, path);
    if (!rest || (r->directory && !directory))
        return false;
    const char *name = strrchr(rest, '/') ? strrchr(rest, '/') + 1 : rest;
    return match_path(r->pattern, r->anchored ? rest : name);
}

static const struct rule *last_match(const struct ignore *g, const char *path, bool directory)
{
    for (size_t i = g->count; i-- > 0;)
        if (matches(&g->rules[i], path, directory))
            return &g->rules[i];
    return NULL;
}

bool ignore_has(const struct ignore *g, const char *path, bool directory)
{
    const struct rule *r = last_match(g, path, directory);
    return r && !r->back;
}

bool ignore_keeps(const struct ignore *g, const char *path)
{
    const struct rule *r = last_match(g, path, false);
    return r && r->back;
}
