/* SPDX-License-Identifier: Apache-2.0 */
/* autostart.c - see autostart.h */
#include "controller/base/autostart.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "agent/os/unix_socket.h"
#include "agent/ranks/cleanup_pass.h"
#include "agent/ranks/control_group.h"
#include "controller/base/home.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"

enum { TAIL = 300, SAID = 4096, CONNECT_TRIES = 200, CONNECT_PAUSE_MS = 25 };

/* The last bytes of a file as one line. */
static void tail_of(char *out, size_t size, int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from = end > (off_t)size - 1 ? end - ((off_t)size - 1) : 0;
    ssize_t n = end > 0 ? pread(fd, out, (size_t)(end - from), from) : 0;
    out[n > 0 ? n : 0] = '\0';
    char *p = out;
    if (from > 0 && (p = strchr(out, '\n')))
        memmove(out, p + 1, strlen(p + 1) + 1);
    for (p = out + strlen(out); p > out && p[-1] == '\n'; p--)
        p[-1] = '\0';
    for (p = out; (p = strchr(p, '\n')); p++)
        *p = '|';
}

/* The environment of the daemon, which belongs to no job even if a rank of a job starts it. */
static char **leave_job(void)
{
    size_t n = 0, used = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + 1, sizeof(*env));
    for (size_t i = 0; env && i < n; i++)
        if (strncmp(environ[i], "JOBCTL_", 7) != 0 || strncmp(environ[i], "JOBCTL_HOME=", 12) == 0 ||
            strncmp(environ[i], "JOBCTL_MACHINE_DIR=", 19) == 0)
            env[used++] = environ[i];
    return env;
}

/* In a session of its own: Ctrl-C must end the command, not the daemon. */
static int run_daemon(const char *self, int said, struct err *err)
{
    char **env = leave_job();
    const int outside = control_group_outside();
    const struct subprocess_spec s = {
        .argv = (const char *const[]){self, "daemon", "--detach", NULL},
        .env = env,
        .set = (const char *const[]){CLEANUP_PASS_DAEMON, NULL},
        .err = said,
        .enter = outside >= 0 ? control_group_join : NULL,
        .enter_arg = outside,
        .session = true};
    int code = env ? subprocess_run(&s, NULL, -1, err)
                   : err_set(err, ERR_MEMORY, "no memory for an environment");
    free(env);
    if (outside >= 0)
        close(outside);
    return code;
}

static int not_started(int said, struct err *err)
{
    char words[SAID], log[PATH_MAX], lines[TAIL] = "";
    tail_of(words, sizeof(words), said);
    if (words[0])
        return err_set(err, ERR_SYSTEM, "cannot start the daemon: %s",
                       strncmp(words, "jobctl: ", 8) == 0 ? words + 8 : words);
    if (home_path(log, sizeof(log), HOME_DAEMON_LOG, NULL) == 0) {
        int fd = safe_open(log, O_RDONLY, NULL);
        if (fd >= 0) {
            tail_of(lines, sizeof(lines), fd);
            close(fd);
        }
    }
    return err_set(err, ERR_SYSTEM, "cannot start the daemon; the end of %s: %s", log, lines[0] ? lines : "(empty)");
}

static int connect_patiently(const char *socket, struct err *err)
{
    struct err last = {0};
    for (int i = 0; i < CONNECT_TRIES; i++) {
        memset(&last, 0, sizeof(last));
        int fd = unix_socket_connect(socket, false, &last);
        if (fd >= 0)
            return fd;
        if (last.code != ERR_NOT_FOUND)
            break;
        clock_wait(-1, CONNECT_PAUSE_MS);
    }
    return err_set(err, ERR_SYSTEM, "the daemon started but does not answer: %.300s", last.text);
}

int autostart(const char *socket, struct err *err)
{
    char self[PATH_MAX];
    int fd = -1;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        return err_set(err, ERR_SYSTEM, "cannot find the path of this program in /proc/self/exe: "
                       "%s", strerror(errno));
    self[n] = '\0';
    int said = memfd_create("jobctl-daemon-said", MFD_CLOEXEC);
    if (said < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a memory file: %s", strerror(errno));
    const int code = run_daemon(self, said, err);
    if (code == 0)
        fd = connect_patiently(socket, err);
    else if (code > 0 && (fd = unix_socket_connect(socket, false, NULL)) < 0) /* another daemon may have won */
        not_started(said, err);
    close(said);
    return fd;
}
