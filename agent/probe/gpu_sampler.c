/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_sampler.c - see gpu_sampler.h */
#include "agent/probe/gpu_sampler.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/contract/install.h"
#include "engine/base/json_make.h"

enum { AGAIN_MS = 60000 };      /* after a process that ended by itself: no driver, or it failed */

struct gpu_sampler {
    uv_loop_t         *loop;
    struct subprocess *process;         /* NULL: nobody looks */
    json_t            *rows;            /* by uuid: {"at": ms of the monotonic clock, "row": the line} */
    bool               news;
    int64_t            until_ms;        /* of the monotonic clock */
    int64_t            not_before_ms;
};

struct gpu_sampler *gpu_sampler_create(uv_loop_t *loop)
{
    struct gpu_sampler *s = calloc(1, sizeof(*s));
    if (s && !(s->rows = json_object())) {
        free(s);
        return NULL;
    }
    if (s)
        s->loop = loop;
    return s;
}

static void take_line(void *arg, const char *text, size_t size)
{
    struct gpu_sampler *s = arg;
    json_t *row = json_loadb(text, size, 0, NULL);
    const char *uuid = field_text(row, "uuid");
    if (uuid[0])
        s->news |= json_object_set_new(s->rows, uuid, json_make("{s:I, s:O}", "at", (json_int_t)clock_ms(), "row",
                                                                row)) == 0;
    json_decref(row);
}

static void on_end(void *arg, const struct subprocess_end *e)
{
    struct gpu_sampler *s = arg;
    s->process = NULL;
    if (!e->timed_out)
        s->not_before_ms = clock_ms() + AGAIN_MS;
}

static void start(struct gpu_sampler *s, int64_t ms)
{
    char program[PATH_MAX];
    struct err err = {0};
    install_path(program, sizeof(program), "jobctl-agent");
    const struct subprocess_spec spec = {.argv = (const char *const[]){program, "gpu-load", NULL},
                                         .out = SUBPROCESS_PIPE, .err = SUBPROCESS_NULL, .tied = true};
    const struct subprocess_hooks hooks = {take_line, on_end, s};
    if (subprocess_open(&s->process, s->loop, &spec, ms, &hooks, &err) == 0)
        return;
    log_warn(NULL, "cannot read the load of the GPUs: %s", err.text);
    s->process = NULL;
    s->not_before_ms = clock_ms() + AGAIN_MS;
}

void gpu_sampler_want(struct gpu_sampler *s, int64_t ms)
{
    const int64_t now = clock_ms();
    if (now + ms > s->until_ms)
        s->until_ms = now + ms;
    if (s->process)
        subprocess_limit(s->process, s->until_ms - now);
    else if (now >= s->not_before_ms)
        start(s, s->until_ms - now);
}

static const json_t *row_of(const json_t *known)
{
    return known && clock_ms() - field_int(known, "at", 0) <= GPU_SAMPLER_OLD_MS ? json_object_get(known, "row") : NULL;
}

const json_t *gpu_sampler_of(const struct gpu_sampler *s, const char *uuid)
{
    return row_of(json_object_get(s->rows, uuid));
}

json_t *gpu_sampler_news(struct gpu_sampler *s)
{
    const char *uuid;
    json_t *known, *out = s->news ? json_array() : NULL;
    s->news = false;
    if (!out)
        return NULL;
    json_object_foreach (s->rows, uuid, known)
        if (row_of(known))
            json_array_append(out, (json_t *)(uintptr_t)row_of(known));
    return out;
}

void gpu_sampler_close(struct gpu_sampler *s)
{
    if (!s)
        return;
    subprocess_close(&s->process, SIGKILL);
    json_decref(s->rows);
    free(s);
}
