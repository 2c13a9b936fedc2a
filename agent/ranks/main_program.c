/* SPDX-License-Identifier: Apache-2.0 */
/* main_program.c - see main_program.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/ranks/main_program.h"

#include <stddef.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static bool is_one_of(const char *name, const char *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, all[i]) == 0)
            return true;
    return false;
}

static bool is_shell(const char *name)
{
    static const char *const shells[] = {"sh",  "bash", "dash", "ash",  "zsh",  "ksh",
                                         "mksh", "fish", "csh",  "tcsh", "busybox"};
    return is_one_of(name, shells, ARRAY_LEN(shells));
}

static bool is_filter(const char *name)
{
    static const char *const filters[] = {"tee", "ts",   "grep", "sed",  "awk",    "gawk", "mawk", "cat",  "tr",
                                          "cut", "head", "tail", "less", "logger", "pv",   "gzip", "zstd", "xz"};
    return is_one_of(name, filters, ARRAY_LEN(filters));
}

/* Do only shells stand above all[i]? A process whose parent is not listed has none above it. */
static bool under_shells(const struct process_tree_member *all, const char *const *names, int i)
{
    for (int k = 0; k < i; k++)
        if (all[k].pid == all[i].parent)
            return is_shell(names[k]) && under_shells(all, names, k);
    return true;
}

static int list(const struct process_tree_member *all, const char *const *names, int n, bool filters, int64_t *out,
                int most)
{
    int found = 0;
    for (int i = 0; i < n && found < most; i++)
        if (!is_shell(names[i]) && is_filter(names[i]) == filters && under_shells(all, names, i))
            out[found++] = all[i].pid;
    return found;
}

int main_program_list(const struct process_tree_member *all, const char *const *names, int n, int64_t *out, int most)
{
    const int found = list(all, names, n, false, out, most);
    return found ? found : list(all, names, n, true, out, most);
}

int main_program_shells(const struct process_tree_member *all, const char *const *names, int n, int64_t *out, int most)
{
    int found = 0;
    for (int i = 0; i < n && found < most; i++)
        if (is_shell(names[i]) && under_shells(all, names, i))
            out[found++] = all[i].pid;
    return found;
}
