/* SPDX-License-Identifier: Apache-2.0 */
/* code_git.c - see code_git.h */
#include "controller/code/code_git.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "engine/base/err.h"

/* In the child: SIGXFSZ ends it at the limit. */
static void limit_file(int bytes)
{
    const struct rlimit most = {(rlim_t)bytes, (rlim_t)bytes};
    setrlimit(RLIMIT_FSIZE, &most);
}

/* This process's, without those that lead git elsewhere; in one allocation. */
static char **environment(void)
{
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **out = calloc(n + 1, sizeof(*out));
    for (size_t i = 0; out && i < n; i++)
        if (strncmp(environ[i], "GIT_", 4) != 0 || strncmp(environ[i], "GIT_CONFIG", 10) == 0)
            out[k++] = environ[i];
    return out;
}

static void take_words(struct code_git *g, const struct buf *said)
{
    const char *text = subprocess_text(said);
    if (strncmp(text, "fatal: ", 7) == 0)
        text += 7;
    snprintf(g->said, sizeof(g->said), "%.*s", (int)strcspn(text, "\n"), text);
    err_make_printable(g->said);
}

int code_git_run(struct code_git *g, struct err *err)
{
    const char *argv[CODE_GIT_ARGS + 8] = {"git", "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false",
                                           "-c", "core.quotePath=false"};
    struct buf out[2] = {{.data = NULL}, {.data = NULL}};
    char **env = environment();
    for (int i = 0; g->args[i] && i < CODE_GIT_ARGS; i++)
        argv[7 + i] = g->args[i];
    const struct subprocess_spec s = {
        .argv = argv, .env = env, .cwd = g->dir, .session = true,
        .set = (const char *const[]){"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C", NULL},
        .in = SUBPROCESS_NULL, .out = g->out ? SUBPROCESS_PIPE : g->fd, .err = SUBPROCESS_PIPE,
        .enter = g->out ? NULL : limit_file, .enter_arg = g->max_bytes};
    const int code = env ? subprocess_run(&s, out, CODE_GIT_MS, err) : err_set(err, ERR_MEMORY, "out of memory");
    g->cut = code == SUBPROCESS_SIGNALLED + SIGXFSZ;
    take_words(g, &out[1]);
    if (g->out)
        *g->out = out[0];
    else
        buf_fini(&out[0]);
    buf_fini(&out[1]);
    free(env);
    return g->cut ? 0 : code;
}
