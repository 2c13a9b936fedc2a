/* SPDX-License-Identifier: Apache-2.0 */
/* follower_report.c - a follower's messages to its leader: lines, exits and errors of its ranks */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/agent_core.h"
#include "agent/monitor/nccl_watch.h"
#include "agent/nodes/follower_internal.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/log_feed.h"
#include "engine/base/clock.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { STACKS = 200 * 1024 }; /* bytes of one INSPECTED */

json_t *follower_text(const char *text)
{
    return text ? log_feed_text(text, strlen(text)) : json_null();
}

void follower_say(struct follower *f, enum wire_message number, json_t *body)
{
    f->hooks.message(f->hooks.arg, number, body);
}

/* --- ranks -------------------------------------------------------------------------------- */

static void on_exited(void *arg, const struct agent_exit *e)
{
    struct follower *f = arg;
    follower_say(f, NODE_EXITED,
                 json_make("{s:i, s:i, s:I, s:b, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:b, s:o, s:o}",
                           "generation", e->generation, "rank", e->rank, "pid", (json_int_t)e->pid,
                           "signalled", e->signalled, "signo", e->signo, "exit_code", e->exit_code,
                           "oom_killed", e->oom_killed, "after_ms", (json_int_t)e->after_ms,
                           "init_ms", (json_int_t)e->init_ms, "data_ms", (json_int_t)e->data_ms,
                           "checkpoint_ms", (json_int_t)e->checkpoint_ms, "gpu_held",
                           gpu_watch_held(f->gpu_watch, e->rank), "last_lines",
                           follower_text(nccl_watch_evidence(f->nccl_watch, e->last_lines)), "kernel",
                           follower_text(gpu_watch_evidence(f->gpu_watch, e->kernel))));
}

static void on_line(void *arg, int generation, int rank, const json_t *line)
{
    struct follower *f = arg;
    struct agent_exit e = {0};
    const char *ev = json_string_value(json_object_get(line, "ev"));
    json_t *spent = NULL;
    if (ev && strcmp(ev, "detached") == 0) {
        ranks_phases(f->ranks, rank, &e);
        spent = json_make("{s:I, s:I, s:I}", "init_ms", (json_int_t)e.init_ms, "data_ms",
                          (json_int_t)e.data_ms, "checkpoint_ms", (json_int_t)e.checkpoint_ms);
    }
    follower_say(f, NODE_LINE,
                 json_make("{s:i, s:i, s:O, s:o*}", "generation", generation, "rank", rank,
                                         "line", line, "spent", spent));
}

static void on_relay(void *arg, int generation, const json_t *line)
{
    follower_say(arg, NODE_BROADCAST, json_make("{s:i, s:O}", "generation", generation, "line", line));
}

/* For the rules of `watch:`, and progress from the output of the first rank of a `run:` job. */
static bool output_is_read(const struct follower *f, int rank)
{
    const json_t *watch = json_object_get(f->spec, "watch");
    return json_array_size(watch) > 0 || json_object_size(watch) > 0 ||
           (rank == 0 && json_is_string(json_object_get(f->spec, "run")));
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct follower *f = arg;
    nccl_watch_output(f->nccl_watch, rank, bytes, size);
    if (output_is_read(f, rank))
        f->hooks.output(f->hooks.arg, rank, bytes, size);
}

const struct ranks_hooks follower_ranks_hooks = {
    .exited = on_exited, .line = on_line, .output = on_output, .broadcast = on_relay};

/* --- GPUs, NCCL and stacks ------------------------------------------------------------------- */

/* The GPU watch numbers ranks by their place in this node's plan. */
void follower_report_gpu(void *arg, const struct gpu_event *e)
{
    struct follower *f = arg;
    const json_int_t first = json_integer_value(json_object_get(f->plan, "first_rank"));
    follower_say(f, NODE_GPU,
                 json_make("{s:I, s:s, s:i, s:b, s:s, s:s}", "rank", first + e->rank, "gpu",
                           e->uuid,
                           "xid", e->xid, "fault", (int)e->fault, "text", e->text, "line", e->line));
}

void follower_report_nccl(uv_timer_t *timer)
{
    struct follower *f = timer->data;
    json_t *ways = nccl_watch_look(f->nccl_watch, clock_ms());
    if (ways)
        follower_say(f, NODE_NCCL, json_make("{s:i, s:o}", "generation", f->generation, "body", ways));
}

/* The stacks, unless they were appended to the leader's own report. */
void follower_report_stacks(void *arg, int generation, json_t *body)
{
    struct follower *f = arg;
    const char *path = json_string_value(json_object_get(body, "path"));
    const bool own = path && strcmp(path, f->inspect_path) == 0;
    char *text = own ? malloc(STACKS) : NULL;
    int fd = text ? safe_open(f->inspect_path, O_RDONLY, NULL) : -1;
    ssize_t n = fd >= 0 ? read(fd, text, STACKS - 1) : 0;
    if (fd >= 0)
        close(fd);
    json_t *data = log_feed_text(text ? text : "", n > 0 ? (size_t)n : 0);
    free(text);
    follower_say(f, NODE_INSPECTED, json_make("{s:i, s:o}", "generation", generation, "text", data));
}
