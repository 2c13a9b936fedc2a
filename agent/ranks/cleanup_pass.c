/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup_pass.c - see cleanup_pass.h */
#include "agent/ranks/cleanup_pass.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/os/pid_span.h"
#include "agent/ranks/control_group.h"

enum { ENVIRON_MAX = 1024 * 1024, EXEC_LOOKS = 5, MEMBERS = 1024, KTHREADD = 2, SPAN_MOST = 10000 };

/* Fields of /proc/PID/stat. */
struct process {
    char name[17];
    char state;
    pid_t ppid;
    int64_t start;
    bool spared; /* not read there: of the attempt, and of another generation */
};

/* path: of its stat. */
static int read_process(int dir, const char *path, struct process *p)
{
    char text[512];
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    /* The name may contain blanks and parentheses: it ends at the last ')'. */
    char *open = strchr(text, '('), *end = strrchr(text, ')');
    if (!open || !end)
        return -1;
    snprintf(p->name, sizeof(p->name), "%.*s", (int)(end - open - 1), open + 1);
    int ppid;
    long long start;
    if (sscanf(end + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld", &p->state,
               &ppid, &start) != 3)
        return -1;
    p->ppid = ppid;
    p->start = start;
    return 0;
}

/* Is "NAME=value", or an entry with this prefix, among the NUL-separated entries? */
static bool has_entry(const char *env, size_t size, const char *entry, bool begins)
{
    size_t len = strlen(entry);
    for (const char *p = env; p < env + size;) {
        size_t n = strnlen(p, (size_t)(env + size - p));
        if ((begins ? n >= len : n == len) && memcmp(p, entry, len) == 0)
            return true;
        p += n + 1;
    }
    return false;
}

/* Does the mark name this generation or an earlier one?  A process may have continued from there
 * (agent/ranks/runner.h). */
static bool is_of(const char *env, size_t size, int generation)
{
    char entry[40];
    for (int g = generation; g > 0; g--) {
        snprintf(entry, sizeof(entry), "JOBCTL_GENERATION=%d", g);
        if (has_entry(env, size, entry, false))
            return true;
    }
    return false;
}

enum mark { UNMARKED, OF_ATTEMPT, OF_GENERATION, OF_ANOTHER };

static size_t read_environ(int dir, char *env)
{
    int fd = openat(dir, "environ", O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    if (fd < 0)
        return 0;
    for (ssize_t n; size < ENVIRON_MAX && (n = read(fd, env + size, ENVIRON_MAX - size)) > 0;)
        size += (size_t)n;
    close(fd);
    return size;
}

/* `child`: a process without marks belongs to this agent. */
static enum mark read_mark(int dir, const struct cleanup_pass *s, bool child)
{
    char *env = malloc(ENVIRON_MAX);
    size_t size = env ? read_environ(dir, env) : 0;
    enum mark mark = UNMARKED;
    /* During exec the environment reads as empty, but only then. */
    for (int i = 0; env && child && size == 0 && i < EXEC_LOOKS; i++) {
        poll(NULL, 0, 1);
        size = read_environ(dir, env);
    }
    if (size > 0) {
        char nonce[160], run_dir[PATH_MAX + 24];
        snprintf(nonce, sizeof(nonce), "JOBCTL_NONCE=%s", s->nonce);
        snprintf(run_dir, sizeof(run_dir), "JOBCTL_RUN_DIR=%s", s->run_dir ? s->run_dir : "");
        if (has_entry(env, size, nonce, false) && s->run_dir &&
            !has_entry(env, size, run_dir, false))
            mark = OF_ANOTHER;
        else if (has_entry(env, size, nonce, false))
            mark = is_of(env, size, s->generation) ? OF_GENERATION : OF_ATTEMPT;
        else if (has_entry(env, size, "JOBCTL_NONCE=", true) ||
                 has_entry(env, size, CLEANUP_PASS_DAEMON, false))
            mark = OF_ANOTHER;
    }
    free(env);
    return mark;
}

/* member: asked only for those of the control group that nothing else tells to be ours. */
static bool is_ours(int dir, struct process *p, const struct cleanup_pass *s, bool member)
{
    const bool child = s->adopted && p->ppid == getpid();
    enum mark mark = read_mark(dir, s, child || member);
    if (member)
        return mark == UNMARKED && !child;
    if (mark == UNMARKED)
        return child;
    if (mark == OF_ANOTHER || s->unmarked)
        return false;
    /* Processes that the setup left running serve every generation. */
    p->spared = s->generation != 0 && mark != OF_GENERATION;
    return !p->spared;
}

/* Without pidfds (old kernels, sandboxes) only the pid is left, which was checked a moment ago. */
static int send_signal(pid_t pid, int pidfd, int signo)
{
    if (pidfd >= 0)
        return (int)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
    return kill(pid, signo);
}

/* All is read below `dir`, so of one process, and fails when that has ended. */
static bool is_alive_and_ours(int dir, const struct cleanup_pass *s, bool member, struct process *p)
{
    return read_process(dir, "stat", p) == 0 && p->state != 'Z' && p->state != 'X' && is_ours(dir, p, s, member);
}

/* It is looked at once more while a pidfd holds it: nobody else got its pid in between.  False: it has ended. */
static bool signal_it(pid_t pid, int dir, const struct cleanup_pass *s, bool member, struct process *p)
{
    const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 && errno != ENOSYS)
        return false;
    const bool found = is_alive_and_ours(dir, s, member, p) &&
                       !(send_signal(pid, pidfd, s->signo) < 0 && errno == ESRCH);
    if (pidfd >= 0)
        close(pidfd);
    return found;
}

/* Without opening its directory: nearly all are others', and each costs four calls.  If its pid is in use again a
 * moment later, a new process was missed, as those are that start after a pass. */
static bool is_too_old(const char *entry, int proc, const struct cleanup_pass *s)
{
    struct process p;
    char path[24];
    snprintf(path, sizeof(path), "%s/stat", entry);
    return s->since > 0 && read_process(proc, path, &p) == 0 && p.start < s->since &&
           !(s->adopted && p.ppid == getpid());
}

/* Checks one process: true if it belongs to this agent and is alive. */
static bool check_process(pid_t pid, const char *entry, int proc, uid_t user, const struct cleanup_pass *s, bool member,
                          struct process *p)
{
    struct stat st;
    if (fstatat(proc, entry, &st, 0) < 0 || st.st_uid != user || (!member && is_too_old(entry, proc, s)))
        return false;
    int dir = openat(proc, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return false;
    bool found = is_alive_and_ours(dir, s, member, p);
    if (found && s->signo)
        found = signal_it(pid, dir, s, member, p);
    close(dir);
    return found;
}

/* What a pass has found, and who looks. */
struct found {
    pid_t self;
    uid_t user;
    bool kernel_visible; /* the threads of the kernel are among the processes */
    int count;
    char *left;
    size_t at, size;
};

/* Threads of the kernel are in no session: one call each instead of four.  Only where pid 2 is their parent: elsewhere,
 * as in a container, 0 is also a session outside. */
static bool is_of_kernel(struct found *f, pid_t pid, int proc)
{
    struct process p;
    if (pid == KTHREADD)
        f->kernel_visible = read_process(proc, "2/stat", &p) == 0 && p.ppid == 0 && strcmp(p.name, "kthreadd") == 0;
    return pid >= KTHREADD && f->kernel_visible && getsid(pid) == 0 && getpgid(pid) == 0;
}

static void look_at(struct found *f, pid_t pid, int proc, const struct cleanup_pass *s, bool member)
{
    char entry[16];
    struct process p = {.spared = false};
    snprintf(entry, sizeof(entry), "%d", (int)pid);
    const bool ours = pid > 1 && pid != f->self && check_process(pid, entry, proc, f->user, s, member, &p);
    if (s->spared && p.spared)
        *s->spared = true;
    if (!ours)
        return;
    if (f->left && f->at < f->size) {
        int n = snprintf(f->left + f->at, f->size - f->at, "%s%d (%s)", f->count ? ", " : "", (int)pid, p.name);
        f->at += n > 0 ? (size_t)n : 0;
    }
    f->count++;
}

/* What is left of a whole attempt in its control group.  If all of it is ours, the kernel kills it at once, faster
 * than it can fork. */
static void look_at_group(struct found *f, int proc, const struct cleanup_pass *s)
{
    pid_t pids[MEMBERS];
    const int before = f->count, n = control_group_members(s->group, pids, MEMBERS);
    for (int i = 0; i < n; i++)
        look_at(f, pids[i], proc, s, true);
    if (s->signo == SIGKILL && n > 0 && f->count - before == n)
        control_group_kill(s->group, n);
}

/* Threads have pids, too: those that lead no process have no pidfd. */
static bool is_process(pid_t pid)
{
    if (getpgid(pid) < 0)
        return false;
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || errno == EMFILE || errno == ENFILE || errno == ENOMEM;
}

/* False: it is not known which pids that would be, or they are too many, or this kernel has no pidfds. */
static bool look_at_born(struct found *f, int proc, const struct cleanup_pass *s)
{
    int64_t after, until;
    if (!s->born || !is_process(f->self) || !pid_span_since(s->born, &after, &until) || until - after > SPAN_MOST)
        return false;
    for (pid_t pid = (pid_t)after + 1; pid <= until; pid++)
        if (is_process(pid))
            look_at(f, pid, proc, s, false);
    return true;
}

static void look_at_all(struct found *f, DIR *proc, const struct cleanup_pass *s)
{
    for (struct dirent *e; (e = readdir(proc));)
        if (isdigit((unsigned char)e->d_name[0]) && !is_of_kernel(f, (pid_t)atoi(e->d_name), dirfd(proc)))
            look_at(f, (pid_t)atoi(e->d_name), dirfd(proc), s, false);
}

int cleanup_pass_run(const struct cleanup_pass *s, char *left, size_t size)
{
    struct found f = {.self = getpid(), .user = geteuid(), .left = left, .size = size};
    DIR *d = opendir("/proc");
    if (left && size)
        left[0] = '\0';
    if (s->spared)
        *s->spared = false;
    if (!d)
        return -1;
    if (!look_at_born(&f, dirfd(d), s))
        look_at_all(&f, d, s);
    if (s->group && s->group[0] && s->generation == 0)
        look_at_group(&f, dirfd(d), s);
    closedir(d);
    return f.count;
}
