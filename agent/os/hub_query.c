/* SPDX-License-Identifier: Apache-2.0 */
/* hub_query.c - see hub_query.h */
#include "agent/os/hub_query.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "engine/base/err.h"
#include "engine/contract/install.h"
#include "engine/base/json_file.h"
#include "engine/hub/hub_spec.h"

enum { SETS = 64 };

/* Where the cache is, the address of the hub, proxies; a later one counts. */
static int add_environment(char *set[SETS + 1], int n, const json_t *environment)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)environment, name, value)
        if (json_is_string(value) && n < SETS &&
            asprintf(&set[n], "%s=%s", name, json_string_value(value)) >= 0)
            n++;
    set[n] = NULL;
    return n;
}

static json_t *ask(const char *const *set, int file, struct err *err)
{
    char program[PATH_MAX], said[300], path[40];
    struct buf out[2] = {{0}, {0}};
    install_find(program, sizeof(program), "jobctl-fetch");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", SUBPROCESS_FIRST_FD);
    const struct subprocess_spec s = {
        .argv = (const char *const[]){program, "--check", "--json", "--tries", "1", "--spec", path, NULL}, .set = set,
        .in = SUBPROCESS_NULL, .out = SUBPROCESS_PIPE, .err = SUBPROCESS_PIPE, .extra = {file}, .n_extra = 1,
        .limit_ms = HUB_QUERY_MS, .tied = true};
    const int code = subprocess_run(&s, out, -1, err);
    json_t *answer = code == 0 ? json_loads(subprocess_text(&out[0]), 0, NULL) : NULL;
    snprintf(said, sizeof(said), "%s", subprocess_text(&out[1]));
    said[strcspn(said, "\n")] = '\0';
    if (code > 0)
        err_set(err, ERR_SYSTEM, "%s", said[0] ? said : "jobctl-fetch printed nothing: is libcurl installed?");
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    return answer;
}

json_t *hub_query(const json_t *spec, const json_t *environment, struct err *err)
{
    struct hub_spec_name names[HUB_SPEC_NAMES];
    char *set[SETS + 1];
    json_t *answer = NULL;
    if (hub_spec_names(names, spec) == 0)
        return NULL;
    const int file = memfd_create("jobctl-spec", MFD_CLOEXEC);
    const int n = add_environment(set, add_environment(set, 0, environment), json_object_get(spec, "env"));
    if (file < 0 || json_file_put(spec, file, JSON_COMPACT) < 0 || lseek(file, 0, SEEK_SET) < 0)
        err_set(err, ERR_SYSTEM, "cannot keep a spec in memory: %m");
    else
        answer = ask((const char *const *)set, file, err);
    for (int i = 0; i < n; i++)
        free(set[i]);
    if (file >= 0)
        close(file);
    return answer;
}
