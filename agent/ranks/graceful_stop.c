/* SPDX-License-Identifier: Apache-2.0 */
/* graceful_stop.c - see graceful_stop.h */
#include "agent/ranks/graceful_stop.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/os/process.h"
#include "agent/os/process_tree.h"
#include "agent/ranks/main_program.h"

enum { MEMBERS = 1024, NAME = 64, REST_MS = 500 };

static void program_name(char name[NAME], int64_t pid)
{
    char path[64], exe[4096];
    snprintf(path, sizeof(path), "/proc/%lld/exe", (long long)pid);
    const ssize_t n = readlink(path, exe, sizeof(exe) - 1);
    exe[n > 0 ? n : 0] = '\0';
    const char *base = strrchr(exe, '/');
    snprintf(name, NAME, "%.*s", NAME - 1, base ? base + 1 : exe);
    char *deleted = strstr(name, " (deleted)");
    if (deleted)
        *deleted = '\0';
}

/* The main programs of the tree, at most GRACEFUL_STOP_PROGRAMS; or the shells above them. */
static int find(pid_t root, bool shells, int64_t *out)
{
    static struct process_tree_member all[MEMBERS];
    static char names[MEMBERS][NAME];
    static const char *rows[MEMBERS];
    const int n = process_tree_members(root, all, MEMBERS);
    for (int i = 0; i < n; i++) {
        program_name(names[i], all[i].pid);
        rows[i] = names[i];
    }
    return shells ? main_program_shells(all, rows, n, out, GRACEFUL_STOP_PROGRAMS)
                  : main_program_list(all, rows, n, out, GRACEFUL_STOP_PROGRAMS);
}

static void signal_group(const struct graceful_stop *s)
{
    kill(-s->root, s->signo);
    kill(-s->root, SIGCONT); /* a stopped process cannot react */
}

/* By pidfd, so that never another process of the same number is meant. */
static bool tell(struct graceful_stop *s, int64_t pid)
{
    const int fd = s->n < GRACEFUL_STOP_PROGRAMS ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
    if (fd < 0)
        return false;
    s->programs[s->n++] = fd;
    kill((pid_t)pid, SIGCONT);
    return syscall(SYS_pidfd_send_signal, fd, s->signo, NULL, 0) == 0;
}

static bool tell_all(struct graceful_stop *s, bool shells)
{
    int64_t found[GRACEFUL_STOP_PROGRAMS];
    const int n = find(s->root, shells, found);
    bool told = false;
    for (int i = 0; i < n; i++)
        told = tell(s, found[i]) || told;
    return told;
}

void graceful_stop_begin(struct graceful_stop *s, pid_t root, int signo, bool everybody)
{
    graceful_stop_end(s);
    *s = (struct graceful_stop){.root = root, .signo = signo, .everybody = everybody};
    if (everybody || !tell_all(s, false))
        signal_group(s);
}

static bool has_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static bool programs_ended(const struct graceful_stop *s)
{
    for (int i = 0; i < s->n; i++)
        if (!has_ended(s->programs[i]))
            return false;
    return true;
}

/* Whether a process of the session lives. */
static bool any_left(pid_t root)
{
    static struct process_tree_member all[MEMBERS];
    const int n = process_tree_members(root, all, MEMBERS);
    for (int i = 0; i < n; i++) {
        const char state = process_state(all[i].pid);
        if (state && state != 'Z' && state != 'X')
            return true;
    }
    return false;
}

/* Shells that go on with their next line, and what the programs have left: a trainer below a launcher. */
static void tell_rest(struct graceful_stop *s)
{
    const pid_t root = s->root;
    const int signo = s->signo;
    graceful_stop_end(s);
    *s = (struct graceful_stop){.root = root, .signo = signo};
    const bool shells = tell_all(s, true);
    if (!tell_all(s, false) && !shells)
        signal_group(s);
}

bool graceful_stop_look(struct graceful_stop *s, int64_t now_ms)
{
    if (!any_left(s->root))
        return false;
    if (!s->everybody && programs_ended(s)) {
        s->ended_ms = s->ended_ms ? s->ended_ms : now_ms;
        if (now_ms - s->ended_ms >= REST_MS)
            tell_rest(s);
    }
    return true;
}

void graceful_stop_end(struct graceful_stop *s)
{
    for (int i = 0; i < s->n; i++)
        close(s->programs[i]);
    *s = (struct graceful_stop){0};
}

int graceful_stop_signal_programs(pid_t root, int signo)
{
    int64_t programs[GRACEFUL_STOP_PROGRAMS];
    const int n = find(root, false, programs);
    for (int i = 0; i < n; i++)
        kill((pid_t)programs[i], signo);
    return n;
}
