/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup.c - see cleanup.h */
#include "agent/ranks/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "agent/container/container_command.h"
#include "agent/os/pid_span.h"
#include "agent/os/subprocess.h"
#include "agent/ranks/cleanup_pass.h"
#include "engine/base/err.h"

enum {
    CLEANUP_EVERY_MS = 5,
    CLEANUP_WARN_MS = 10 * 1000, /* a process alive after that is stuck in the kernel */
    SWEEP_MS = 60 * 1000         /* for a runtime to remove containers */
};

struct cleanup {
    uv_timer_t      timer;
    uv_loop_t      *loop;
    const char *const *sweep;    /* or NULL */
    struct subprocess *sweeping; /* NULL: not now */
    const char     *nonce, *run_dir;
    cleanup_done_fn done;
    void           *arg;
    int             generation;
    uint64_t        since_ns;
    int64_t         since;
    struct pid_span born;
    char            ended[160]; /* what the first pass of this cleanup found */
    bool            first; /* nothing was started before `born` */
    bool            empty; /* the last pass found nothing of the attempt, and nothing was started since */
};

/* No child, not even one that was not waited for. */
static bool is_childless(void)
{
    siginfo_t info;
    int adopts = 0;
    return prctl(PR_GET_CHILD_SUBREAPER, &adopts) == 0 && adopts &&
           waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD;
}

/* --- containers ------------------------------------------------------------------------------ */

static void report(struct cleanup *b, bool clean, const char *left)
{
    b->done(b->arg, clean, clean ? b->ended : left);
}

static void on_swept(void *arg, const struct subprocess_end *end)
{
    struct cleanup *b = arg;
    char said[160] = "", left[220];
    /* Not by its exit code: the handler of SIGCHLD (ranks.c) may have taken that. */
    const bool clean = strstr(subprocess_text(end->out), CONTAINER_REMOVED) != NULL;
    b->sweeping = NULL;
    if (end->said >= 0)
        subprocess_last_line(said, sizeof(said), end->said, "sh");
    snprintf(left, sizeof(left), "a container: %s", end->timed_out ? "its runtime does not answer" : said);
    report(b, clean, clean ? "" : left);
}

/* Removes the containers, then reports. */
static void sweep(struct cleanup *b)
{
    struct err err = {0};
    char left[220];
    const struct subprocess_spec s = {.argv = b->sweep, .in = SUBPROCESS_NULL, .out = SUBPROCESS_PIPE,
                                      .err = SUBPROCESS_PIPE, .session = true};
    const struct subprocess_hooks hooks = {.ended = on_swept, .arg = b};
    if (b->sweeping || subprocess_open(&b->sweeping, b->loop, &s, SWEEP_MS, &hooks, &err) == 0)
        return;
    snprintf(left, sizeof(left), "a container: %.180s", err.text);
    report(b, false, left);
}

/* --- processes ------------------------------------------------------------------------------- */

/* One pass: kills what it finds; reports once nothing is found, or a process is stuck. */
static void look(struct cleanup *b)
{
    char left[512] = "";
    bool spared = false;
    const struct cleanup_pass s = {
        .nonce = b->nonce, .generation = b->generation, .run_dir = b->run_dir,
        .adopted = true, .signo = SIGKILL, .since = b->since, .born = b->first ? &b->born : NULL,
        .spared = &spared};
    const bool known = b->empty && is_childless();
    int n = known ? 0 : cleanup_pass_run(&s, left, sizeof(left));
    b->empty = n == 0 && !spared;
    if (n > 0 && !b->ended[0])
        snprintf(b->ended, sizeof(b->ended), "%.*s", (int)sizeof(b->ended) - 1, left);
    if (n > 0 && (uv_hrtime() - b->since_ns) / 1000000 < CLEANUP_WARN_MS)
        return; /* the timer runs the next pass */
    uv_timer_stop(&b->timer);
    if (n == 0 && b->sweep && !known)
        sweep(b);
    else
        report(b, n == 0, n < 0 ? "cannot read /proc" : left);
}

static void on_timer(uv_timer_t *timer)
{
    look(timer->data);
}

int cleanup_create(struct cleanup **out, uv_loop_t *loop, const char *nonce, cleanup_done_fn done,
                   void *arg, struct err *err)
{
    struct cleanup *b = calloc(1, sizeof(*b));
    if (!b)
        return err_set(err, ERR_MEMORY, "no memory for a cleanup");
    *b = (struct cleanup){.nonce = nonce, .done = done, .arg = arg, .born = pid_span_now()};
    b->loop = loop;
    uv_timer_init(loop, &b->timer);
    b->timer.data = b;
    *out = b;
    return 0;
}

void cleanup_close(struct cleanup *b)
{
    if (b)
        subprocess_close(&b->sweeping, SIGKILL);
    if (b)
        uv_close((uv_handle_t *)&b->timer, NULL);
}

void cleanup_destroy(struct cleanup *b)
{
    free(b);
}

void cleanup_set_run_dir(struct cleanup *b, const char *run_dir)
{
    b->run_dir = run_dir;
}

void cleanup_set_since(struct cleanup *b, int64_t since, bool first)
{
    b->since = since;
    b->first = since > 0 && first;
}

void cleanup_set_sweep(struct cleanup *b, const char *const *argv)
{
    b->sweep = argv;
}

void cleanup_forget(struct cleanup *b)
{
    b->empty = false;
}

void cleanup_run(struct cleanup *b, int generation)
{
    if (b->sweeping)
        return; /* no process is left, and its report follows */
    b->generation = generation;
    b->ended[0] = '\0';
    b->since_ns = uv_hrtime();
    uv_timer_start(&b->timer, on_timer, CLEANUP_EVERY_MS, CLEANUP_EVERY_MS);
    look(b);
}
