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

static bool match_name(const char *pattern, size_t np, const char *name, size_t nn)
{
    char p[PATH_BYTES], s[PATH_BYTES];
    if (np >= sizeof(p) || nn >= sizeof(s))
        return false;
    snprintf(p, sizeof(p), "%.*s", (int)np, pattern);
    snprintf(s, sizeof(s), "%.*s", (int)nn, name);
    return fnmatch(p, s, 0) == 0;
}

/* Part by part; ** stands for any number of them. */
static bool match_path(const char *pattern, const char *path)
{
    const size_t np = strcspn(pattern, "/"), ns = strcspn(path, "/");
    if (np == 2 && strncmp(pattern, "**", 2) == 0) {
        if (!pattern[2])
            return path[0] != '\0';
        for (const char *rest = path; rest; rest = strchr(rest, '/') ? strchr(rest, '/') + 1 : NULL)
            if (match_path(pattern + 3, rest))
                return true;
        return false;
    }
    if (!match_name(pattern, np, path, ns))
        return false;
    if (!pattern[np] || !path[ns])
        return !pattern[np] && !path[ns];
    return match_path(pattern + np + 1, path + ns + 1);
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

bool ignore_has(const struct ignore *g, const char *path, bool directory)
{
    for (size_t i = g->count; i-- > 0;)
        if (matches(&g->rules[i], path, directory))
            return !g->rules[i].back;
    return false;
}

bool ignore_has_below(const struct ignore *g, const char *path)
{
    char part[PATH_BYTES];
    for (const char *p = path; (p = strchr(p, '/')); p++) {
        if ((size_t)snprintf(part, sizeof(part), "%.*s", (int)(p - path), path) < sizeof(part) &&
            ignore_has(g, part, true))
            return true;
    }
    return ignore_has(g, path, false);
}
