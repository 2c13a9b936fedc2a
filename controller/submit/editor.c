/* SPDX-License-Identifier: Apache-2.0 */
/* editor.c - see editor.h */
#include "controller/submit/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "controller/base/yaml.h"
#include "engine/base/err.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

int editor_init(struct editor *e, const char *name, const char *text, struct err *err)
{
    const char *dir = getenv("TMPDIR");
    snprintf(e->path, sizeof(e->path), "%.3000s/XXXXXX-%.200s", dir && dir[0] == '/' ? dir : "/tmp", name);
    const int fd = mkostemps(e->path, (int)strlen(name) + 1, O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a file in %.300s: %m", dir && dir[0] == '/' ? dir : "/tmp");
    const int rc = write_all(fd, text, strlen(text)) == 0
                       ? 0 : err_set(err, ERR_SYSTEM, "cannot write the text to be edited: %m");
    close(fd);
    if (rc < 0)
        editor_discard(e);
    return rc;
}

static const char *command(void)
{
    static const char *const names[] = {"VISUAL", "EDITOR"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value && value[strspn(value, " \t")])
            return value;
    }
    return "vi";
}

/* The value may have arguments: the shell splits it. */
char *editor_run(const struct editor *e, struct err *err)
{
    char line[PATH_MAX];
    snprintf(line, sizeof(line), "exec %.4000s \"$1\"", command());
    const char *const argv[] = {"/bin/sh", "-c", line, "jobctl", e->path, NULL};
    const struct subprocess_spec spec = {.argv = argv, .in = STDIN_FILENO, .out = STDOUT_FILENO,
                                         .err = STDERR_FILENO};
    const pid_t pid = subprocess_start(&spec, err);
    const int code = pid < 0 ? -1 : subprocess_wait(pid);
    if (code != 0) {
        if (pid >= 0)
            err_set(err, ERR_USAGE, code == 127 ? "the editor '%.200s' was not found: set VISUAL or EDITOR"
                    : "the editor '%.200s' failed", command());
        return NULL;
    }
    FILE *f = safe_open_stream(e->path, err);
    return f ? yaml_read(f, e->path, err) : NULL;
}

void editor_discard(struct editor *e)
{
    unlink(e->path);
    e->path[0] = '\0';
}
