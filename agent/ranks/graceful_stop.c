/* SPDX-License-Identifier: Apache-2.0 */
/* graceful_stop.c - see graceful_stop.h */
#include "agent/ranks/graceful_stop.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/os/process.h"
#include "agent/os/process_tree.h"
#include "agent/ranks/command_programs.h"

enum { MEMBERS = 1024, REST_MS = 500 };

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
    const int n = command_programs_list(s->root, shells, found, GRACEFUL_STOP_PROGRAMS);
    bool told = false;
    for (int i = 0; i < n; i++)
        told = tell(s, found[i]) || told;
    return told;
}

/* A script that traps the signal wants it: sent first, or `bash -e` would end with the program and never look. */
static bool tell_trapping(struct graceful_stop *s)
{
    int64_t shells[GRACEFUL_STOP_PROGRAMS];
    const int n = command_programs_list(s->root, true, shells, GRACEFUL_STOP_PROGRAMS);
    bool told = false;
    for (int i = 0; i < n; i++)
        if (process_caught(shells[i]) >> (s->signo - 1) & 1)
            told = tell(s, shells[i]) || told;
    return told;
}

void graceful_stop_begin(struct graceful_stop *s, pid_t root, int signo, bool everybody)
{
    graceful_stop_end(s);
    *s = (struct graceful_stop){.root = root, .signo = signo, .everybody = everybody};
    const bool trapped = !everybody && tell_trapping(s);
    if (everybody || (!tell_all(s, false) && !trapped))
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

/* Shells, which would continue with their next line, and what the programs have left: a trainer below a launcher. */
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
    const int n = command_programs_list(root, false, programs, GRACEFUL_STOP_PROGRAMS);
    for (int i = 0; i < n; i++)
        kill((pid_t)programs[i], signo);
    return n;
}
