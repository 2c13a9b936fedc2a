/* SPDX-License-Identifier: Apache-2.0 */
/* stack_dump.c - see stack_dump.h */
#include "agent/ranks/stack_dump.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "agent/os/process.h"
#include "agent/os/process_tree.h"

enum { MEMBERS = 1024 };

static bool catches(uint64_t caught, int signo)
{
    return caught >> (signo - 1) & 1;
}

static int signal_for(const struct process_tree_member *m, uint64_t caught, bool last)
{
    if (!last && catches(caught, SIGTERM))
        return SIGTERM;
    if (catches(caught, SIGABRT))
        return SIGABRT;
    return last || m->children > 0 ? 0 : SIGTERM;
}

/* A limit of one byte also stops a program that the kernel pipes core files to. */
static void forbid_core(int64_t pid)
{
    const struct rlimit none = {1, 1};
    prlimit((pid_t)pid, RLIMIT_CORE, &none, NULL);
}

/* Was a parent, or one of its parents, aborted? */
static bool is_under(const struct process_tree_member *all, int n, const bool *aborted, int64_t parent)
{
    for (int i = 0; i < n; i++)
        if (all[i].pid == parent)
            return aborted[i] || is_under(all, i, aborted, all[i].parent);
    return false;
}

/* Parents come before their children. */
void stack_dump_end(int64_t root, bool last)
{
    static struct process_tree_member all[MEMBERS];
    static bool aborted[MEMBERS];
    const int n = process_tree_members(root, all, MEMBERS);
    for (int i = 0; i < n; i++) {
        const bool under = is_under(all, i, aborted, all[i].parent);
        const int signo = under ? 0 : signal_for(&all[i], process_caught(all[i].pid), last);
        aborted[i] = signo == SIGABRT;
        if (aborted[i])
            forbid_core(all[i].pid);
        if (signo)
            kill((pid_t)all[i].pid, signo);
        kill((pid_t)all[i].pid, SIGCONT); /* a stopped process cannot react */
    }
}
