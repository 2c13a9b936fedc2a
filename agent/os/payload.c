/* SPDX-License-Identifier: Apache-2.0 */
/* payload.c - see payload.h */
#include "agent/os/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/shell_trap.h"
#include "engine/base/err.h"
#include "engine/base/json_file.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"
#include "engine/hub/hub_spec.h"

enum { PATH_BYTES = sizeof(((struct payload *)0)->spec_path) };

/* Writes RUN_DIR/NAME, complete or not at all: the spec, or if there is none the text. */
static int write_file(char path[PATH_BYTES], const char *run_dir, const char *name, const json_t *spec,
                      const char *text, struct err *err)
{
    char tmp[PATH_BYTES + 8];
    if (snprintf(path, PATH_BYTES, "%s/%s", run_dir, name) >= PATH_BYTES)
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    snprintf(tmp, sizeof(tmp), "%s.new", path);
    int fd = safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int rc = fd >= 0 && (spec ? json_file_put(spec, fd, JSON_COMPACT) : write_all(fd, text, strlen(text))) == 0 &&
                     rename(tmp, path) == 0
                 ? 0
                 : err_set(err, ERR_SYSTEM, "cannot write '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

/* NULL: none. Not looked for in PATH: that of the job may hold anything. */
static const char *find_bash(void)
{
    static const char *const places[] = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash",
                                         "/run/current-system/sw/bin/bash"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

void payload_shell(const char *argv[PAYLOAD_WORDS], const char *bash, const char *text, const char *path)
{
    int n = 0;
    argv[n++] = bash ? bash : "/bin/sh";
    argv[n++] = bash ? "-eo" : "-e";
    if (bash)
        argv[n++] = "pipefail";
    if (text)
        argv[n++] = "-c";
    argv[n++] = text ? text : path;
    argv[n] = NULL;
}

void payload_shell_inside(const char *argv[PAYLOAD_WORDS], const char *text, const char *path)
{
    int n = 0;
    argv[n++] = "/bin/sh";
    argv[n++] = "-c";
    argv[n++] = "b=$(command -v bash) && exec \"$b\" -eo pipefail \"$@\"; exec /bin/sh -e \"$@\"";
    argv[n++] = "jobctl";
    if (text)
        argv[n++] = "-c";
    argv[n++] = text ? text : path;
    argv[n] = NULL;
}

/* argv gets the command of a shell text. */
static int shell_argv(const char *argv[PAYLOAD_WORDS], char path[PATH_BYTES], char trapped[PAYLOAD_TRAPPED],
                      const char *text, const char *run_dir, const char *name, bool inside, struct err *err)
{
    const bool argument = strlen(text) <= PAYLOAD_ARGUMENT;
    const char *bash = inside ? NULL : find_bash();
    if (!argument && write_file(path, run_dir, name, NULL, text, err) < 0)
        return -1;
    if (inside)
        payload_shell_inside(argv, argument ? text : NULL, path);
    else
        payload_shell(argv, bash, bash && shell_trap(trapped, PAYLOAD_TRAPPED, text) ? trapped : argument ? text : NULL,
                      path);
    return 0;
}

static int engine_argv(struct payload *p, const char *engine, struct err *err)
{
    if (access(engine, X_OK) < 0)
        return err_set(err, ERR_SYSTEM, "cannot execute the engine '%s': %s", engine, strerror(errno));
    p->argv[0] = engine;
    p->argv[1] = "train";
    p->argv[2] = "--spec";
    p->argv[3] = p->spec_path;
    return 0;
}

/* jobctl-fetch is beside the engine. Its tries are few: the agent has its own (agent/core/restart_policy.h). */
static int fetch_argv(struct payload *p, const char *engine, const json_t *spec, struct err *err)
{
    struct hub_spec_name names[HUB_SPEC_NAMES];
    const char *slash = strrchr(engine, '/');
    if (hub_spec_names(names, spec) == 0)
        return 0;
    if (snprintf(p->fetch_path, sizeof(p->fetch_path), "%.*sjobctl-fetch", slash ? (int)(slash - engine + 1) : 0,
                 engine) >= PATH_BYTES)
        return err_set(err, ERR_USAGE, "the path of the programs is too long");
    if (access(p->fetch_path, X_OK) < 0)
        return err_set(err, ERR_SYSTEM, "%s is a model on a hub, but '%s' cannot be executed: %s", names[0].text,
                       p->fetch_path, strerror(errno));
    const char *const argv[] = {p->fetch_path, "--tries", "4", "--spec", p->spec_path, NULL};
    memcpy(p->fetch_argv, argv, sizeof(argv));
    return 0;
}

static int renew(const char *path, const char *text, struct err *err)
{
    char dir[PATH_BYTES], again[PATH_BYTES];
    if (!path[0] || !text || safe_open_has(path, text))
        return 0;
    const char *name = strrchr(path, '/');
    snprintf(dir, sizeof(dir), "%.*s", (int)(name - path), path);
    return write_file(again, dir, name + 1, NULL, text, err);
}

int payload_renew(const struct payload *p, const json_t *spec, struct err *err)
{
    char *text = p->spec_path[0] ? json_dumps(spec, JSON_COMPACT) : NULL;
    if (p->spec_path[0] && !text)
        return err_set(err, ERR_MEMORY, "no memory for a spec");
    const int rc = renew(p->spec_path, text, err);
    free(text);
    return rc < 0 || renew(p->run_path, json_string_value(json_object_get(spec, "run")), err) < 0 ||
           renew(p->setup_path, json_string_value(json_object_get(spec, "setup")), err) < 0 ? -1 : 0;
}

/* The engine reads it, and so does the download of models. */
static bool reads_spec(const json_t *spec)
{
    struct hub_spec_name names[HUB_SPEC_NAMES];
    return json_is_object(json_object_get(spec, "train")) || hub_spec_names(names, spec) > 0;
}

int payload_make(struct payload *out, const json_t *spec, const char *run_dir, const char *engine, struct err *err)
{
    struct payload *p = out;
    *p = (struct payload){.argv = {NULL}};
    const char *run = json_string_value(json_object_get(spec, "run"));
    const char *setup = json_string_value(json_object_get(spec, "setup"));
    const bool train = json_is_object(json_object_get(spec, "train"));
    const bool inside = json_is_object(json_object_get(spec, "image"));
    if (!run == !train)
        return err_set(err, ERR_USAGE, "a job needs one of `run:` and `train:`");
    if ((reads_spec(spec) && write_file(p->spec_path, run_dir, "spec.json", spec, NULL, err) < 0) ||
        (run ? shell_argv(p->argv, p->run_path, p->run_text, run, run_dir, "run.sh", inside, err)
             : engine_argv(p, engine, err)) < 0 ||
        (setup &&
         shell_argv(p->setup_argv, p->setup_path, p->setup_text, setup, run_dir, "setup.sh", inside, err) < 0))
        return -1;
    if (fetch_argv(p, engine, spec, err) < 0)
        return -1;
    p->workdir = json_string_value(json_object_get(spec, "workdir"));
    if (p->workdir && !p->workdir[0])
        p->workdir = NULL; /* default: the agent's working directory */
    return 0;
}
