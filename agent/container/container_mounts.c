/* SPDX-License-Identifier: Apache-2.0 */
/* container_mounts.c - see container_mounts.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_mounts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

/* Runtimes separate paths by these. */
static int check(const char *path, const char *what, bool is_target, struct err *err)
{
    if (path[0] != '/')
        return err_set(err, ERR_USAGE, "the %s \"%.100s\" is not an absolute path", what, path);
    if (is_target && path[strspn(path, "/.")] == '\0')
        return err_set(err, ERR_USAGE, "%.100s cannot be mounted over the root of the image", path);
    if (strpbrk(path, ",:\n\""))
        return err_set(err, ERR_USAGE, "%.200s cannot be mounted: its path contains ',', ':' or '\"'", path);
    return 0;
}

static int add(struct container_mounts *m, const char *from, const char *to, bool read_only, struct err *err)
{
    struct container_mount one = {strdup(from), strdup(to), read_only};
    if (m->n < CONTAINER_MOUNTS && one.from && one.to) {
        m->all[m->n++] = one;
        return 0;
    }
    free((char *)(uintptr_t)one.from);
    free((char *)(uintptr_t)one.to);
    return err_set(err, ERR_USAGE, "more than %d mounts", CONTAINER_MOUNTS);
}

int container_mounts_add(struct container_mounts *m, const char *path, bool read_only, struct err *err)
{
    if (!path || !path[0])
        return 0;
    if (check(path, "path", true, err) < 0)
        return -1;
    return add(m, path, path, read_only, err);
}

int container_mounts_parse(struct container_mounts *m, const char *text, struct err *err)
{
    char from[1100], to[1100];
    const char *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;
    const bool read_only = second && strcmp(second, ":ro") == 0;
    const size_t n = first ? (size_t)(first - text) : strlen(text);
    const size_t k = second ? (size_t)(second - first - 1) : first ? strlen(first + 1) : 0;
    if ((second && !read_only && strcmp(second, ":rw") != 0) || n >= sizeof(from) || k >= sizeof(to) || (first && !k))
        return err_set(err, ERR_USAGE, "expected SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro, not \"%.100s\"", text);
    memcpy(from, text, n);
    from[n] = '\0';
    memcpy(to, first ? first + 1 : text, first ? k : n);
    to[first ? k : n] = '\0';
    if (check(from, "source", false, err) < 0 || check(to, "target", true, err) < 0)
        return -1;
    return add(m, from, to, read_only, err);
}

/* Is `path` the directory, or below it? */
static bool is_below(const char *path, const char *dir)
{
    const size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_needless(const struct container_mounts *m, int i)
{
    const struct container_mount *one = &m->all[i];
    for (int k = 0; k < m->n; k++) {
        const struct container_mount *other = &m->all[k];
        const bool same = strcmp(other->from, one->from) == 0 && strcmp(other->to, one->to) == 0;
        if (k == i || strcmp(other->from, other->to) != 0 || strcmp(one->from, one->to) != 0 ||
            (other->read_only && !one->read_only) || !is_below(one->from, other->from))
            continue;
        if (!same || other->read_only != one->read_only || k < i)
            return true;
    }
    return false;
}

static void drop(struct container_mounts *m, int i)
{
    free((char *)(uintptr_t)m->all[i].from);
    free((char *)(uintptr_t)m->all[i].to);
    memmove(&m->all[i], &m->all[i + 1], (size_t)(m->n - i - 1) * sizeof(m->all[0]));
    m->n--;
}

static int by_target(const void *a, const void *b)
{
    return strcmp(((const struct container_mount *)a)->to, ((const struct container_mount *)b)->to);
}

void container_mounts_settle(struct container_mounts *m)
{
    for (int i = m->n - 1; i >= 0; i--)
        if (is_needless(m, i))
            drop(m, i);
    qsort(m->all, (size_t)m->n, sizeof(m->all[0]), by_target);
}

bool container_mounts_cover(const struct container_mounts *m, const char *path)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->all[i].from, m->all[i].to) == 0 && is_below(path, m->all[i].from))
            return true;
    return false;
}

void container_mounts_fini(struct container_mounts *m)
{
    while (m->n > 0)
        drop(m, m->n - 1);
}
