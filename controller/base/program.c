/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - see program.h */
#include "controller/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "engine/base/err.h"
#include "engine/contract/install.h"
#include "engine/base/json_file.h"

enum { WORDS = 16 };

int program_spec_file(char path[PROGRAM_PATH], const json_t *spec, struct err *err)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, PROGRAM_PATH, "%s/jobctl-spec.XXXXXX", dir && dir[0] ? dir : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a file like %s: %s", path, strerror(errno));
    int rc = json_file_put(spec, fd, JSON_COMPACT);
    if (close(fd) < 0 || rc < 0) {
        unlink(path);
        return err_set(err, ERR_SYSTEM, "cannot write %s", path);
    }
    return 0;
}

static int run(const char *name, const char *const *words, int in, struct buf *out, struct err *err)
{
    char path[PROGRAM_PATH];
    const char *argv[WORDS + 1] = {path};
    struct buf both[2] = {*out, {0}};
    for (int n = 1; *words && n < WORDS; n++)
        argv[n] = *words++;
    install_find(path, sizeof(path), name);
    const struct subprocess_spec s = {.argv = argv, .in = in, .out = SUBPROCESS_PIPE, .err = 2};
    int code = subprocess_run(&s, both, -1, err);
    *out = both[0];
    return code;
}

int program_run(const char *name, const char *const *words, struct buf *out, struct err *err)
{
    return run(name, words, SUBPROCESS_NULL, out, err);
}

/* A request is small: it fits into the pipe. */
int program_tell(const char *name, const json_t *request, struct buf *out, struct err *err)
{
    const char *const words[] = {NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a pipe: %s", strerror(errno));
    const bool told = json_file_put(request, ends[1], JSON_COMPACT) == 0 && write(ends[1], "\n", 1) == 1;
    close(ends[1]);
    int rc = told ? run(name, words, ends[0], out, err)
                  : err_set(err, ERR_SYSTEM, "cannot write to %s: %s", name, strerror(errno));
    close(ends[0]);
    return rc;
}

int program_pass(const char *name, const char *const *words, FILE *to, struct err *err)
{
    struct buf out = {0};
    int code = program_run(name, words, &out, err);
    if (code >= 0 && out.size > 0)
        fwrite(out.data, 1, out.size, to);
    buf_fini(&out);
    return code;
}
