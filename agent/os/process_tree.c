/* SPDX-License-Identifier: Apache-2.0 */
/* process_tree.c - see process_tree.h */
#include "agent/os/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/process.h"

enum { KTHREADD = 2, NONE = -1 };

struct table {
    struct process_tree_entry *entries;
    size_t n, room;
};

/* Fields 3 and on of /proc/PID/stat; threads of the kernel belong to no tree. */
static bool read_entry(struct process_tree_entry *e, int64_t pid)
{
    char text[1024];
    long long parent, session;
    unsigned long long t[4];
    const char *after = strrchr(process_text(text, sizeof(text), pid, "stat"), ')');
    if (!after || sscanf(after + 1, " %*c %lld %*d %lld %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
                         &parent, &session, &t[0], &t[1], &t[2], &t[3]) != 6)
        return false;
    *e = (struct process_tree_entry){pid, parent, session, t[0] + t[1], t[2] + t[3], NONE};
    return parent != KTHREADD && pid != KTHREADD;
}

static bool add(struct table *t, const struct process_tree_entry *e)
{
    if (t->n == t->room) {
        const size_t room = t->room ? 2 * t->room : 256;
        struct process_tree_entry *more = realloc(t->entries, room * sizeof(*more));
        if (!more)
            return false;
        t->entries = more;
        t->room = room;
    }
    t->entries[t->n++] = *e;
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const struct process_tree_entry *x = a, *y = b;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void read_all(struct table *t)
{
    DIR *d = opendir("/proc");
    struct process_tree_entry one;
    for (struct dirent *e; d && (e = readdir(d));)
        if (isdigit((unsigned char)e->d_name[0]) && read_entry(&one, atoll(e->d_name)) &&
            !add(t, &one))
            break;
    if (d)
        closedir(d);
    if (t->n)
        qsort(t->entries, t->n, sizeof(*t->entries), by_pid);
}

static int tree_of(const struct process_tree_entry *e, const int64_t *roots, int n)
{
    for (int i = 0; i < n; i++)
        if (roots[i] > 0 && (e->pid == roots[i] || e->session == roots[i]))
            return i;
    return NONE;
}

/* Its tree is that of its parent, unless it is known: returns whether that is news. */
static bool inherit(const struct table *t, struct process_tree_entry *e)
{
    const struct process_tree_entry key = {.pid = e->parent};
    const struct process_tree_entry *parent = e->tree == NONE ? bsearch(&key, t->entries, t->n, sizeof(key), by_pid) : NULL;
    if (parent)
        e->tree = parent->tree;
    return parent && parent->tree != NONE;
}

static void assign(struct table *t, const int64_t *roots, int n)
{
    bool more = true;
    for (size_t i = 0; i < t->n; i++)
        t->entries[i].tree = tree_of(&t->entries[i], roots, n);
    while (more) {
        more = false;
        for (size_t i = 0; i < t->n; i++)
            more = inherit(t, &t->entries[i]) || more;
    }
}

static int children_of(const struct table *t, int64_t pid)
{
    int n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->entries[i].parent == pid && t->entries[i].tree != NONE;
    return n;
}

/* Appends those of the tree whose parent is this one. */
static int list_children(const struct table *t, int64_t parent, struct process_tree_member *out, int n, int most)
{
    for (size_t i = 0; i < t->n && n < most; i++)
        if (t->entries[i].tree != NONE && t->entries[i].parent == parent)
            out[n++] = (struct process_tree_member){t->entries[i].pid, parent,
                                                    children_of(t, t->entries[i].pid)};
    return n;
}

/* Orphans of the session, whose parent is not in the tree. */
static int list_orphans(const struct table *t, int64_t root, struct process_tree_member *out, int n, int most)
{
    for (size_t i = 0; i < t->n && n < most; i++) {
        const struct process_tree_entry *e = &t->entries[i], key = {.pid = e->parent};
        const struct process_tree_entry *parent = bsearch(&key, t->entries, t->n, sizeof(key), by_pid);
        if (e->tree != NONE && e->pid != root && (!parent || parent->tree == NONE))
            out[n++] = (struct process_tree_member){e->pid, e->parent, children_of(t, e->pid)};
    }
    return n;
}

int process_tree_members(int64_t root, struct process_tree_member *out, int most)
{
    struct table t = {NULL, 0, 0};
    int n = 0;
    read_all(&t);
    assign(&t, &root, 1);
    const struct process_tree_entry key = {.pid = root};
    if (most > 0 && t.n && bsearch(&key, t.entries, t.n, sizeof(key), by_pid))
        out[n++] = (struct process_tree_member){root, 0, children_of(&t, root)};
    n = list_orphans(&t, root, out, n, most);
    for (int i = 0; i < n; i++)
        n = list_children(&t, out[i].pid, out, n, most);
    free(t.entries);
    return n;
}

struct process_tree_entry *process_tree_find(const int64_t *roots, int n, size_t *count)
{
    struct table t = {NULL, 0, 0};
    size_t kept = 0;
    read_all(&t);
    assign(&t, roots, n);
    for (size_t i = 0; i < t.n; i++)
        if (t.entries[i].tree != NONE)
            t.entries[kept++] = t.entries[i];
    *count = kept;
    if (kept)
        return t.entries;
    free(t.entries);
    return NULL;
}
