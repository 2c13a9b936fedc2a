/* SPDX-License-Identifier: Apache-2.0 */
/* follower_report.c - a follower's messages to its leader: lines, exits and pages of its ranks */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/agent_core.h"
#include "agent/doctor/reachability.h"
#include "agent/monitor/nccl_watch.h"
#include "agent/nodes/follower_internal.h"
#include "agent/os/log.h"
#include "agent/os/process.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/log_feed.h"
#include "engine/contract/err.h"

enum { ROWS = 16, STACKS = 200 * 1024 }; /* rows of one PAGES; bytes of one INSPECTED */

json_t *follower_text(const char *text)
{
    return text ? log_feed_text(text, strlen(text)) : json_null();
}

void follower_say(struct follower *m, enum wire_message number, json_t *body)
{
    struct err err = {0};
    if (node_channel_send(m->link, number, body, &err) < 0)
        log_error(m->o.tag, "cannot report to the leader: %s", err.text);
}

void follower_join(struct follower *m)
{
    struct timespec wall;
    char address[TLS_PSK_ADDRESS] = "";
    const json_t *names = json_object_get(json_object_get(m->o.launch, "group"), "names");
    const char *name = json_string_value(json_array_get(names, (size_t)m->node));
    clock_gettime(CLOCK_REALTIME, &wall);
    node_channel_address(m->link, false, address);
    follower_say(m, NODE_JOIN,
                 json_pack("{s:s, s:s, s:O, s:I, s:s, s:o*}", "name", name ? name : "", "version",
                           m->o.version, "facts", m->o.facts, "wall_ms",
                           (json_int_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000, "address",
                           address, "endpoint", reachability_listen(NULL)));
}

/* --- ranks -------------------------------------------------------------------------------- */

static void on_exited(void *arg, const struct agent_exit *e)
{
    struct follower *m = arg;
    if (m->ending)
        return;
    follower_look(m); /* the last state of its page, before the exit */
    follower_say(m, NODE_EXITED,
                 json_pack("{s:i, s:i, s:I, s:b, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:o, s:o}",
                           "generation", e->generation, "rank", e->rank, "pid", (json_int_t)e->pid,
                           "signalled", e->signalled, "signo", e->signo, "exit_code", e->exit_code,
                           "oom_killed", e->oom_killed, "after_ms", (json_int_t)e->after_ms,
                           "init_ms", (json_int_t)e->init_ms, "data_ms", (json_int_t)e->data_ms,
                           "checkpoint_ms", (json_int_t)e->checkpoint_ms, "last_lines",
                           follower_text(nccl_watch_evidence(m->nccl_watch,
                                                             e->last_lines)), "kernel",
                           follower_text(gpu_watch_evidence(m->gpu_watch, e->kernel))));
}

static void on_line(void *arg, int generation, int rank, const json_t *line)
{
    struct follower *m = arg;
    struct agent_exit e = {0};
    const char *ev = json_string_value(json_object_get(line, "ev"));
    json_t *spent = NULL;
    if (ev && strcmp(ev, "detached") == 0) {
        ranks_phases(m->ranks, rank, &e);
        spent = json_pack("{s:I, s:I, s:I}", "init_ms", (json_int_t)e.init_ms, "data_ms",
                          (json_int_t)e.data_ms, "checkpoint_ms", (json_int_t)e.checkpoint_ms);
    }
    follower_say(m, NODE_LINE,
                 json_pack("{s:i, s:i, s:O, s:o*}", "generation", generation, "rank", rank,
                                         "line", line, "spent", spent));
}

static void on_relay(void *arg, int generation, const json_t *line)
{
    follower_say(arg, NODE_BROADCAST,
                 json_pack("{s:i, s:O}", "generation", generation, "line", line));
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct follower *m = arg;
    nccl_watch_output(m->nccl_watch, rank, bytes, size);
    if (m->has_watch)
        node_channel_say(m->link, NODE_OUTPUT,
                         json_pack("{s:i, s:o}", "rank", rank, "data", log_feed_text(bytes, size)));
}

/* The GPU watch numbers ranks by their place in this node's plan. */
void follower_report_gpu(void *arg, const struct gpu_event *e)
{
    struct follower *m = arg;
    const json_t *plan = json_object_get(m->prepare, "plan");
    const json_int_t first = json_integer_value(json_object_get(plan, "first_rank"));
    follower_say(m, NODE_GPU,
                 json_pack("{s:I, s:s, s:i, s:b, s:s, s:s}", "rank", first + e->rank, "gpu",
                           e->uuid,
                           "xid", e->xid, "fault", (int)e->fault, "text", e->text, "line", e->line));
}

const struct ranks_hooks follower_ranks_hooks = {
    .exited = on_exited, .line = on_line, .output = on_output, .broadcast = on_relay};

/* --- pages --------------------------------------------------------------------------------- */

void follower_forget_reported(struct follower *m, int n)
{
    free(m->reported);
    m->reported = n > 0 ? calloc((size_t)n, sizeof(*m->reported)) : NULL;
    m->n_reported = m->reported ? n : 0;
}

static void see(const struct follower *m, int rank, struct page_view *v)
{
    memset(v, 0, sizeof(*v));
    v->pid = ranks_look(m->ranks, rank, &v->u.page);
    /* A command's page is written by a child of its shell. */
    int64_t worker = v->u.page.pid ? (int64_t)v->u.page.pid : v->pid;
    v->state = v->pid > 0 ? process_state(worker) : (char)0;
    v->io_mib = v->pid > 0 ? process_io_mib(worker) : 0;
    const char *lines = ranks_last_lines(m->ranks, rank);
    size_t n = strlen(lines);
    memcpy(v->lines, lines, n < CAPTURE_TAIL ? n : CAPTURE_TAIL);
}

/* The changed ranks from `from` on that fit into one message; *next: where to continue. */
static json_t *rows_from(struct follower *m, int from, int *next, struct page_view *seen)
{
    json_t *rows = json_array();
    int i = from;
    for (; i < m->n_reported && json_array_size(rows) < ROWS; i++) {
        struct page_view *now = &seen[json_array_size(rows)];
        see(m, ranks_first(m->ranks) + i, now);
        json_t *row = page_feed_row(ranks_first(m->ranks) + i, now, &m->reported[i]);
        if (row)
            json_array_append_new(rows, row);
    }
    *next = i;
    return rows;
}

/* A row that could not be sent counts as unsent and is sent the next time. */
static bool say_rows(struct follower *m, json_t *rows, const struct page_view *seen)
{
    size_t n = json_array_size(rows);
    json_t *body = json_pack("{s:i, s:O}", "generation", m->generation, "ranks", rows);
    if (n == 0 || !node_channel_say(m->link, NODE_PAGES, body)) {
        if (n == 0)
            json_decref(body);
        return n == 0;
    }
    for (size_t k = 0; k < n; k++) {
        int rank = page_feed_rank(json_array_get(rows, k));
        m->reported[rank - ranks_first(m->ranks)] = seen[k];
    }
    return true;
}

void follower_look(struct follower *m)
{
    static struct page_view seen[ROWS];
    bool reported = m->generation > 0 && node_channel_is_up(m->link);
    for (int next = 0; reported && next < m->n_reported;) {
        json_t *rows = rows_from(m, next, &next, seen);
        reported = say_rows(m, rows, seen);
        json_decref(rows);
    }
}

/* --- stacks --------------------------------------------------------------------------------- */

void follower_inspected(void *arg, int generation, json_t *body)
{
    struct follower *m = arg;
    (void)body;
    char *text = malloc(STACKS);
    int fd = open(m->inspect_path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 && text ? read(fd, text, STACKS - 1) : 0;
    if (fd >= 0)
        close(fd);
    json_t *data = log_feed_text(text ? text : "", n > 0 ? (size_t)n : 0);
    free(text);
    follower_say(m, NODE_INSPECTED,
                 json_pack("{s:i, s:o}", "generation", generation, "text", data));
}
