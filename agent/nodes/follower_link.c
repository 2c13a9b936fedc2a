/* SPDX-License-Identifier: Apache-2.0 */
/* follower_link.c - see follower_link.h */
#include "agent/nodes/follower_link.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doctor/reachability.h"
#include "agent/monitor/page_feed.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/leader.h"
#include "agent/nodes/node_channel.h"
#include "agent/os/log.h"
#include "agent/ranks/ranks.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/log_feed.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum {
    ROWS = 16, /* of one PAGES */
    LOOK_MS = 200,
    END_TICK_MS = 20,
    END_MS = 5000,       /* after SIGTERM; then SIGKILL */
    STOP_MORE_MS = 60000 /* beyond the grace: time for the leader to clean up and say so */
};

struct follower_link {
    struct follower      *follower;
    const struct ranks   *ranks; /* the follower's, and its options */
    const struct follower_options *o;
    follower_link_over_fn over;
    void                 *arg;
    struct node_channel  *channel;
    uv_timer_t            pages; /* several looks per second */
    uv_timer_t            end;   /* grace, then until the last rank has exited */
    bool                  closed, ending, prepared;
    int64_t               end_since_ms;
    int                   generation;
    struct page_view     *reported; /* [n_reported]: state last sent to the leader */
    int                   n_reported;
};

static void say(struct follower_link *l, enum wire_message number, json_t *body)
{
    struct err err = {0};
    if (node_channel_send(l->channel, number, body, &err) < 0)
        log_error(l->o->tag, "cannot report to the leader: %s", err.text);
}

/* --- flight pages ---------------------------------------------------------------------------- */

/* Forgets what was sent for n ranks. */
static void forget_reported(struct follower_link *l, int n)
{
    free(l->reported);
    l->reported = n > 0 ? calloc((size_t)n, sizeof(*l->reported)) : NULL;
    l->n_reported = l->reported ? n : 0;
}

static void see(const struct follower_link *l, int rank, struct page_view *v)
{
    memset(v, 0, sizeof(*v));
    v->pid = follower_look(l->follower, rank, &v->u.page, &v->state, &v->use);
    const char *lines = ranks_last_lines(l->ranks, rank);
    size_t n = strlen(lines);
    memcpy(v->lines, lines, n < CAPTURE_TAIL ? n : CAPTURE_TAIL);
}

/* The changed ranks from `from` on that fit into one message; *next: where to continue. */
static json_t *rows_from(struct follower_link *l, int from, int *next, struct page_view *seen)
{
    json_t *rows = json_array();
    int i = from;
    for (; i < l->n_reported && json_array_size(rows) < ROWS; i++) {
        struct page_view *now = &seen[json_array_size(rows)];
        see(l, ranks_first(l->ranks) + i, now);
        json_t *row = page_feed_row(ranks_first(l->ranks) + i, now, &l->reported[i]);
        if (row)
            json_array_append_new(rows, row);
    }
    *next = i;
    return rows;
}

/* A row that could not be sent counts as unsent and is sent the next time. */
static bool say_rows(struct follower_link *l, json_t *rows, const struct page_view *seen)
{
    size_t n = json_array_size(rows);
    json_t *body = json_make("{s:i, s:O}", "generation", l->generation, "ranks", rows);
    if (n == 0 || !node_channel_say(l->channel, NODE_PAGES, body)) {
        if (n == 0)
            json_decref(body);
        return n == 0;
    }
    for (size_t k = 0; k < n; k++) {
        int rank = page_feed_rank(json_array_get(rows, k));
        l->reported[rank - ranks_first(l->ranks)] = seen[k];
    }
    return true;
}

/* Sends the pages that have changed. */
static void look(struct follower_link *l)
{
    static struct page_view seen[ROWS];
    bool reported = l->generation > 0 && node_channel_is_up(l->channel);
    for (int next = 0; reported && next < l->n_reported;) {
        json_t *rows = rows_from(l, next, &next, seen);
        reported = say_rows(l, rows, seen);
        json_decref(rows);
    }
}

static void on_look(uv_timer_t *timer)
{
    look(timer->data);
}

/* --- leaving ------------------------------------------------------------------------------- */

/* To the follower, as if the leader had said so. */
static void tell(struct follower_link *l, enum wire_message number, const char *key, int value)
{
    json_t *body = json_make("{s:i}", key, value);
    follower_receive(l->follower, number, body);
    json_decref(body);
}

static void on_end_tick(uv_timer_t *timer)
{
    struct follower_link *l = timer->data;
    if (ranks_living(l->ranks) > 0 && clock_ms() - l->end_since_ms < END_MS)
        return;
    uv_timer_stop(&l->end);
    tell(l, NODE_CLEANUP, "generation", 0);
}

/* Ends all ranks and leaves the attempt. */
static void end(struct follower_link *l, const char *why)
{
    if (l->ending || l->closed)
        return;
    log_info(l->o->tag, "%s: leaving the attempt", why);
    l->ending = true;
    l->end_since_ms = clock_ms();
    uv_timer_stop(&l->pages);
    tell(l, NODE_SIGNAL, "signo", SIGTERM);
    uv_timer_start(&l->end, on_end_tick, 0, END_TICK_MS);
}

static void on_grace_over(uv_timer_t *timer)
{
    end(timer->data, "stopped by the controller, without a reply from the leader");
}

void follower_link_stop(struct follower_link *l, const char *reason, int64_t grace_ms, bool preempted)
{
    if (l->ending || l->closed)
        return;
    log_info(l->o->tag, "asked to stop: %s", reason);
    if (preempted)
        say(l, NODE_NOTICE, json_make("{s:s, s:I}", "reason", reason, "grace_ms", (json_int_t)grace_ms));
    if (!l->prepared || !node_channel_is_up(l->channel))
        end(l, "no connection to the leader");
    else if (!uv_is_active((const uv_handle_t *)&l->end))
        uv_timer_start(&l->end, on_grace_over, (uint64_t)grace_ms + STOP_MORE_MS, 0);
}

/* --- messages ------------------------------------------------------------------------------ */

/* While the node leaves, its ranks are nobody's concern, and the cleanup is the end. */
static void on_report(void *arg, enum wire_message number, json_t *body)
{
    struct follower_link *l = arg;
    if (l->ending) {
        json_decref(body);
        if (number == NODE_CLEANED)
            l->over(l->arg);
        return;
    }
    if (number == NODE_EXITED)
        look(l); /* the last state of its page, before the exit */
    if (number == NODE_PREPARED)
        l->prepared = json_is_null(json_object_get(body, "text"));
    say(l, number, body);
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct follower_link *l = arg;
    node_channel_say(l->channel, NODE_OUTPUT,
                     json_make("{s:i, s:o}", "rank", rank, "data", log_feed_text(bytes, size)));
}

static void on_message(void *arg, const struct wire_row *row, const json_t *body)
{
    struct follower_link *l = arg;
    if (l->ending)
        return;
    if (row->number == NODE_SHUTDOWN) {
        end(l, "the attempt is over");
        return;
    }
    follower_receive(l->follower, row->number, body);
    if (row->number == NODE_SPAWN) {
        l->generation = (int)field_int(body, "generation", 0);
        forget_reported(l, l->generation ? ranks_count(l->ranks) : 0);
    }
}

/* The leader may have lost messages that are not repeated: send everything again. */
static void on_up(void *arg)
{
    struct follower_link *l = arg;
    forget_reported(l, l->n_reported);
}

static void on_lost(void *arg, const char *text)
{
    char why[400];
    snprintf(why, sizeof(why), "the leader %s", text);
    end(arg, why);
}

/* Kept until the leader has connected. */
static void join(struct follower_link *l, const json_t *names, int node)
{
    const char *name = json_string_value(json_array_get(names, (size_t)node));
    char address[BYTE_STREAM_ADDRESS] = "";
    node_channel_address(l->channel, false, address);
    say(l, NODE_JOIN,
        json_make("{s:s, s:s, s:O, s:I, s:s, s:o*}", "name", name ? name : "", "version",
                  l->o->version, "facts", l->o->facts, "wall_ms", (json_int_t)clock_unix_ms(),
                  "address", address, "endpoint", reachability_listen(NULL)));
}

/* --- creation and release ------------------------------------------------------------------ */

static int dial(struct follower_link *l, uv_loop_t *loop, const json_t *group, struct err *err)
{
    const struct node_channel_hooks hooks = {on_up, on_message, on_lost, l};
    const struct node_channel_call call = {.id = {l->o->job, l->o->attempt, l->o->nonce},
                                           .node = (int)field_int(group, "node", 0),
                                           .endpoint = json_object_get(group, "endpoint"),
                                           .join_ms = LEADER_JOIN_MS};
    return node_channel_dial(&l->channel, loop, &call, &hooks, err);
}

int follower_link_open(struct follower_link **out, uv_loop_t *loop, struct follower *follower, const json_t *launch,
                       follower_link_over_fn over, void *arg, struct err *err)
{
    const json_t *group = json_object_get(launch, "group");
    const int node = (int)field_int(group, "node", 0), nodes = (int)field_int(group, "nodes", 0);
    struct follower_link *l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_MEMORY, "no memory for a follower");
    *l = (struct follower_link){.follower = follower,
                                .ranks = follower_ranks(follower),
                                .o = follower_options(follower),
                                .over = over,
                                .arg = arg};
    if (dial(l, loop, group, err) < 0) {
        free(l);
        return -1;
    }
    uv_timer_init(loop, &l->pages);
    uv_timer_init(loop, &l->end);
    l->pages.data = l->end.data = l;
    *out = l;
    follower_set_place(follower, node, nodes);
    follower_set_hooks(follower,
                       &(struct follower_hooks){.message = on_report, .output = on_output, .arg = l});
    join(l, json_object_get(group, "names"), node);
    uv_timer_start(&l->pages, on_look, LOOK_MS, LOOK_MS);
    log_info(l->o->tag, "node %d of %d: connecting to the leader", node, nodes);
    return 0;
}

void follower_link_close(struct follower_link *l)
{
    if (!l || l->closed)
        return;
    l->closed = true;
    node_channel_close(l->channel);
    uv_close((uv_handle_t *)&l->pages, NULL);
    uv_close((uv_handle_t *)&l->end, NULL);
}

void follower_link_destroy(struct follower_link *l)
{
    if (l)
        free(l->reported);
    free(l);
}
