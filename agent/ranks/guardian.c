/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.c - see guardian.h */
#include "agent/ranks/guardian.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/container/container_sweep.h"
#include "agent/os/descriptors.h"
#include "agent/os/log.h"
#include "agent/ranks/cleanup_pass.h"
#include "agent/ranks/control_group.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

enum {
    GRACE_MS = 5000, /* as for the controller: ranks of a dead agent write a checkpoint and exit */
    STUCK_MS = 10 * 1000, /* a process alive so long after SIGKILL is stuck in the kernel */
    LOOK_MS = 20
};

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP};

static void watched_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        sigaddset(set, passed_on[i]);
}

/* Reaps the agent and the orphans; true once the agent is among them. */
static bool reap(pid_t agent, int *status)
{
    bool ended = false;
    int one;
    for (pid_t pid; (pid = waitpid(-1, &one, WNOHANG)) > 0;)
        if (pid == agent) {
            *status = one;
            ended = true;
        }
    return ended;
}

/* Until the agent is dead; its pid cannot be reused before it is reaped here. */
static int await_agent(pid_t agent, const sigset_t *set)
{
    int status = 0;
    while (!reap(agent, &status)) {
        const int signo = sigwaitinfo(set, NULL);
        if (signo > 0 && signo != SIGCHLD)
            kill(agent, signo);
    }
    return status;
}

static void remove_containers(const struct guardian_options *o)
{
    struct err err = {0};
    if (container_sweep(o->run_dir, o->nonce, false, &err) < 0)
        log_warn(o->tag, "%s", err.text);
}

/* One pass after the other, until nothing is left: each may expose processes that hid behind those that ended. */
static void end_processes(const struct guardian_options *o, const sigset_t *set)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    const int64_t patient_until = clock_ms() + GRACE_MS;
    char left[400] = "", ended[400] = "", group[CONTROL_GROUP_PATH];
    control_group_find(group, o->run_dir);
    struct cleanup_pass s = {.nonce = o->nonce, .run_dir = o->run_dir, .group = group, .adopted = true,
                             .unmarked = true, .signo = SIGTERM};
    /* The ranks got theirs from the kernel when the agent died. */
    cleanup_pass_run(&s, NULL, 0);
    s.unmarked = false;
    s.signo = 0;
    for (int status; cleanup_pass_run(&s, left, sizeof(left)) > 0;) {
        const int64_t late = clock_ms() - patient_until;
        if (s.signo && !ended[0])
            snprintf(ended, sizeof(ended), "%s", left);
        if (late > STUCK_MS)
            break;
        s.signo = late > 0 ? SIGKILL : 0;
        sigtimedwait(set, NULL, &pause);
        reap(0, &status);
    }
    control_group_remove(o->run_dir);
    remove_containers(o);
    if (ended[0])
        log_warn(o->tag, "the agent died; its guardian killed the processes that remained: %s", ended);
}

/* Leaves as the agent did. */
_Noreturn static void leave(int status)
{
    const struct rlimit none = {0, 0};
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    sigset_t set;
    setrlimit(RLIMIT_CORE, &none); /* the agent has written its own */
    signal(WTERMSIG(status), SIG_DFL);
    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

/* Only the log and the locks stay open: whoever reads a pipe of the agent sees its end when the agent dies. */
_Noreturn static void guard(const struct guardian_options *o, pid_t agent, const sigset_t *set)
{
    prctl(PR_SET_NAME, "jobctl-guardian");
    const int hold = o->hold > 2 ? o->hold : o->lock;
    const int low = hold < o->lock ? hold : o->lock, high = hold > o->lock ? hold : o->lock;
    descriptors_close(3, (unsigned)low - 1);
    if (low < high)
        descriptors_close((unsigned)low + 1, (unsigned)high - 1);
    descriptors_close((unsigned)high + 1, ~0U);
    const int status = await_agent(agent, set);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        end_processes(o, set);
    leave(status);
}

int guardian_start(const struct guardian_options *o, struct err *err)
{
    sigset_t set, old;
    watched_signals(&set);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    control_group_share();
    sigprocmask(SIG_BLOCK, &set, &old);
    pid_t agent = fork();
    if (agent > 0)
        guard(o, agent, &set);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (agent < 0)
        return err_set(err, ERR_SYSTEM, "cannot start the agent: %s", strerror(errno));
    if (o->session)
        setsid();
    return 0;
}
