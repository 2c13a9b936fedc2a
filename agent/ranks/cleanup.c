/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup.c - see cleanup.h */
#include "agent/ranks/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "agent/ranks/cleanup_pass.h"
#include "engine/contract/err.h"

enum {
    CLEANUP_EVERY_MS = 5,
    CLEANUP_WARN_MS = 10 * 1000 /* a process alive after that is stuck in the kernel */
};

struct cleanup {
    uv_timer_t      timer;
    const char     *nonce, *run_dir;
    cleanup_done_fn done;
    void           *arg;
    int             generation;
    uint64_t        since_ns;
    int64_t         since;
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

/* One pass: kills what it finds; reports once nothing is found, or a process is stuck. */
static void look(struct cleanup *b)
{
    char left[512] = "";
    bool spared = false;
    const struct cleanup_pass s = {
        .nonce = b->nonce, .generation = b->generation, .run_dir = b->run_dir,
        .adopted = true, .signo = SIGKILL, .since = b->since, .spared = &spared};
    int n = b->empty && is_childless() ? 0 : cleanup_pass_run(&s, left, sizeof(left));
    b->empty = n == 0 && !spared;
    if (n > 0 && (uv_hrtime() - b->since_ns) / 1000000 < CLEANUP_WARN_MS)
        return; /* the timer runs the next pass */
    uv_timer_stop(&b->timer);
    b->done(b->arg, n == 0, n < 0 ? "cannot read /proc" : left);
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
    *b = (struct cleanup){.nonce = nonce, .done = done, .arg = arg};
    uv_timer_init(loop, &b->timer);
    b->timer.data = b;
    *out = b;
    return 0;
}

void cleanup_close(struct cleanup *b)
{
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

void cleanup_set_since(struct cleanup *b, int64_t since)
{
    b->since = since;
}

void cleanup_forget(struct cleanup *b)
{
    b->empty = false;
}

void cleanup_run(struct cleanup *b, int generation)
{
    b->generation = generation;
    b->since_ns = uv_hrtime();
    uv_timer_start(&b->timer, on_timer, CLEANUP_EVERY_MS, CLEANUP_EVERY_MS);
    look(b);
}
