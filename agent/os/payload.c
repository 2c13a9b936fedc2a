/* SPDX-License-Identifier: Apache-2.0 */
/* payload.c - see payload.h */
#include "agent/os/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/safe_open.h"
#include "engine/contract/err.h"

/* Writes the spec in the engine's format. */
static int write_spec(struct payload *p, const json_t *spec, const char *run_dir, struct err *err)
{
    char tmp[sizeof(p->spec_path) + 8];
    if ((size_t)snprintf(p->spec_path, sizeof(p->spec_path), "%s/spec.json", run_dir) >=
        sizeof(p->spec_path))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    snprintf(tmp, sizeof(tmp), "%s.new", p->spec_path);
    int fd = safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int rc = fd >= 0 && json_dumpfd(spec, fd, JSON_COMPACT) == 0 && rename(tmp, p->spec_path) == 0
                 ? 0
                 : err_set(err, ERR_SYSTEM, "cannot write '%s': %s", p->spec_path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

int payload_make(struct payload *out, const json_t *spec, const char *run_dir, const char *engine,
                 struct err *err)
{
    struct payload *p = out;
    *p = (struct payload){.argv = {NULL}};
    const char *run = json_string_value(json_object_get(spec, "run"));
    const char *setup = json_string_value(json_object_get(spec, "setup"));
    bool train = json_is_object(json_object_get(spec, "train"));
    if (!run == !train)
        return err_set(err, ERR_USAGE, "a job needs one of `run:` and `train:`");
    if (write_spec(p, spec, run_dir, err) < 0)
        return -1;
    int n = 0;
    if (run) {
        p->argv[n++] = "/bin/sh";
        p->argv[n++] = "-c";
        p->argv[n++] = run;
    } else {
        if (access(engine, X_OK) < 0)
            return err_set(err, ERR_SYSTEM, "cannot execute the engine '%s': %s", engine,
                           strerror(errno));
        p->argv[n++] = engine;
        p->argv[n++] = "train";
        p->argv[n++] = "--spec";
        p->argv[n++] = p->spec_path;
    }
    p->argv[n] = NULL;
    if (setup) {
        p->setup_argv[0] = "/bin/sh";
        p->setup_argv[1] = "-c";
        p->setup_argv[2] = setup;
    }
    p->workdir = json_string_value(json_object_get(spec, "workdir"));
    if (p->workdir && !p->workdir[0])
        p->workdir = NULL; /* default: the agent's working directory */
    return 0;
}
