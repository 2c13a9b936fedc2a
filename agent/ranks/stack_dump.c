/* SPDX-License-Identifier: Apache-2.0 */
/* stack_dump.c - see stack_dump.h */
#include "agent/ranks/stack_dump.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/process.h"
#include "agent/os/process_tree.h"
#include "agent/printed/python_stack.h"

enum { MEMBERS = 1024, PRINTING_MS = 40 };

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

/* Announces the stacks in the process's own output, if that is a pipe: the lines stay in order. */
static void print_head(int64_t pid)
{
    char path[64], rank[16];
    struct stat st;
    if (!process_variable(rank, sizeof(rank), pid, "RANK"))
        return;
    snprintf(path, sizeof(path), "/proc/%lld/fd/2", (long long)pid);
    const int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
        dprintf(fd, "\n" PYTHON_STACK_HEAD "%d, process %lld ---\n", atoi(rank), (long long)pid);
    if (fd >= 0)
        close(fd);
}

/* Until it has printed its stacks, or a moment has passed: those of the next one must not mix with them. */
static void await_end(int64_t pid)
{
    for (int i = 0; pid && i < PRINTING_MS; i++) {
        const char state = process_state(pid);
        if (!state || state == 'Z' || state == 'X')
            return;
        usleep(1000);
    }
}

static void give(int64_t pid, int signo)
{
    if (signo == SIGABRT) {
        print_head(pid);
        forbid_core(pid);
    }
    if (signo)
        kill((pid_t)pid, signo);
    kill((pid_t)pid, SIGCONT); /* a stopped process cannot react */
}

/* Parents come before their children; a launcher ends its workers, so it gets its SIGTERM after them. */
void stack_dump_end(int64_t root, bool last)
{
    static struct process_tree_member all[MEMBERS];
    static bool aborted[MEMBERS];
    static int signals[MEMBERS];
    const int n = process_tree_members(root, all, MEMBERS);
    int64_t before = 0;
    for (int i = 0; i < n; i++) {
        const bool under = is_under(all, i, aborted, all[i].parent);
        signals[i] = under ? 0 : signal_for(&all[i], process_caught(all[i].pid), last);
        aborted[i] = signals[i] == SIGABRT;
    }
    for (int i = 0; i < n; i++) {
        if (!aborted[i])
            continue;
        await_end(before);
        before = all[i].pid;
        give(before, SIGABRT);
    }
    await_end(n > 1 ? before : 0);
    for (int i = 0; i < n; i++)
        if (!aborted[i])
            give(all[i].pid, signals[i]);
}
