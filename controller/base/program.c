/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - see program.h */
#include "controller/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/buf.h"
#include "controller/base/autostart.h"
#include "engine/contract/err.h"

extern char **environ;

enum { WORDS = 16 };

int program_spec_file(char path[PROGRAM_PATH], const json_t *spec, struct err *err)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, PROGRAM_PATH, "%s/jobctl-spec.XXXXXX", dir && dir[0] ? dir : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a file like %s: %s", path, strerror(errno));
    int rc = json_dumpfd(spec, fd, JSON_COMPACT);
    if (close(fd) < 0 || rc < 0) {
        unlink(path);
        return err_set(err, ERR_SYSTEM, "cannot write %s", path);
    }
    return 0;
}

static void read_all(int fd, const char *name, struct buf *out, struct err *err)
{
    char piece[4096];
    ssize_t n;
    while ((n = read(fd, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && buf_append(out, piece, (size_t)n) < 0)
            err_set(err, ERR_MEMORY, "out of memory while reading from %s", name);
}

/* in: its standard input, -1: inherit ours. */
static int run(const char *name, const char *const *words, int in, struct buf *out, int *status,
               struct err *err)
{
    char path[PROGRAM_PATH];
    char *argv[WORDS + 1] = {path};
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    for (int n = 1; *words && n < WORDS; n++)
        argv[n] = (char *)(uintptr_t)*words++;
    autostart_sibling(path, sizeof(path), name);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    if (in >= 0)
        posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int rc = posix_spawnp(&pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (rc == 0) {
        read_all(ends[0], path, out, err);
        while (waitpid(pid, status, 0) < 0 && errno == EINTR)
            ;
    } else {
        err_set(err, ERR_SYSTEM, "cannot run %s: %s", path, strerror(rc));
    }
    close(ends[0]);
    return err->code == ERR_NONE ? 0 : -1;
}

int program_run(const char *name, const char *const *words, struct buf *out, int *status,
                struct err *err)
{
    return run(name, words, -1, out, status, err);
}

/* A request is small: it fits into the pipe. */
int program_tell(const char *name, const json_t *request, struct buf *out, struct err *err)
{
    const char *const words[] = {NULL};
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a pipe: %s", strerror(errno));
    const bool told = json_dumpfd(request, ends[1], JSON_COMPACT) == 0 && write(ends[1], "\n", 1) == 1;
    close(ends[1]);
    int rc = told ? run(name, words, ends[0], out, &status, err)
                  : err_set(err, ERR_SYSTEM, "cannot write to %s: %s", name, strerror(errno));
    close(ends[0]);
    return rc;
}

int program_pass(const char *name, const char *const *words, FILE *to, struct err *err)
{
    struct buf out;
    int status = 0;
    buf_init(&out);
    int rc = program_run(name, words, &out, &status, err);
    if (rc == 0 && out.size > 0)
        fwrite(out.data, 1, out.size, to);
    buf_fini(&out);
    if (rc < 0)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}
