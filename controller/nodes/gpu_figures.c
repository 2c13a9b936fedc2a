/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_figures.c - see gpu_figures.h */
#include "controller/nodes/gpu_figures.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "controller/base/daemon.h"
#include "controller/nodes/fleet.h"
#include "engine/contract/clock.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"
#include "engine/contract/install.h"

enum { AGAIN_MS = 60000 };  /* after a process that ended by itself: no driver, or it failed */

struct gpu_figures {
    struct subprocess *process;     /* NULL: nobody looks */
    json_t            *rows;        /* by uuid: {"at": ms of the monotonic clock, "row": the line} */
    int64_t            until_ms;    /* of the monotonic clock */
    int64_t            not_before_ms;
};

static void take_line(void *arg, const char *text, size_t size)
{
    struct gpu_figures *g = arg;
    json_t *row = json_loadb(text, size, 0, NULL);
    const char *uuid = field_text(row, "uuid");
    if (uuid[0])
        json_object_set_new(g->rows, uuid, json_pack("{s:I, s:O}", "at", (json_int_t)clock_ms(), "row", row));
    json_decref(row);
}

static void on_end(void *arg, const struct subprocess_end *e)
{
    struct gpu_figures *g = arg;
    g->process = NULL;
    if (!e->timed_out)
        g->not_before_ms = clock_ms() + AGAIN_MS;
}

static void start(struct daemon *d, int64_t ms)
{
    struct gpu_figures *g = d->gpu_figures;
    char program[PATH_MAX];
    struct err err = { 0 };
    install_path(program, sizeof(program), "jobctl-agent");
    const struct subprocess_spec s = { .argv = (const char *const[]){ program, "gpu-load", NULL },
                                       .out = SUBPROCESS_PIPE, .err = SUBPROCESS_NULL, .tied = true };
    const struct subprocess_hooks hooks = { take_line, on_end, g };
    if (subprocess_open(&g->process, &d->loop, &s, ms, &hooks, &err) == 0)
        return;
    log_warn(NULL, "cannot read the load of the GPUs: %s", err.text);
    g->process = NULL;
    g->not_before_ms = clock_ms() + AGAIN_MS;
}

static struct gpu_figures *create(void)
{
    struct gpu_figures *g = calloc(1, sizeof(*g));
    if (g && !(g->rows = json_object())) {
        free(g);
        return NULL;
    }
    return g;
}

void gpu_figures_want(struct daemon *d, int64_t ms)
{
    const int64_t now = clock_ms();
    if (!json_array_size(json_object_get(d->fleet->facts, "gpus")))
        return;
    if (!d->gpu_figures && !(d->gpu_figures = create()))
        return;
    struct gpu_figures *g = d->gpu_figures;
    if (now + ms > g->until_ms)
        g->until_ms = now + ms;
    if (g->process)
        subprocess_limit(g->process, g->until_ms - now);
    else if (now >= g->not_before_ms)
        start(d, g->until_ms - now);
}

const json_t *gpu_figures_of(const struct daemon *d, const char *uuid)
{
    const json_t *known = d->gpu_figures ? json_object_get(d->gpu_figures->rows, uuid) : NULL;
    return known && clock_ms() - field_int(known, "at", 0) <= GPU_FIGURES_OLD_MS ? json_object_get(known, "row") : NULL;
}

void gpu_figures_close(struct daemon *d)
{
    if (!d->gpu_figures)
        return;
    subprocess_close(&d->gpu_figures->process, SIGKILL);
    json_decref(d->gpu_figures->rows);
    free(d->gpu_figures);
    d->gpu_figures = NULL;
}
