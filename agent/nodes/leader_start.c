/* SPDX-License-Identifier: Apache-2.0 */
/* leader_start.c - starts a generation or the setup: on all nodes, or on none; see leader.h */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/nodes/leader_internal.h"
#include "engine/base/buf.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/log_feed.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* --- placing --------------------------------------------------------------------------------- */

/* Counts the ranks of each node in the plan, and finds the first one. */
static int place_rank(struct leader *c, int rank, const json_t *row)
{
    const int64_t k = field_int(row, "node", 0);
    struct follower_state *s = k >= 0 && k < c->nodes ? &c->followers[k] : NULL;
    if (!s || (s->node > 0 && !(c->remote[rank] = calloc(1, sizeof(*c->remote[rank])))))
        return -1;
    c->of[rank] = s;
    if (s->ranks++ == 0)
        s->first_rank = rank;
    return 0;
}

static char *list_ranks(const struct leader *c)
{
    struct buf list;
    buf_init(&list);
    for (int k = 0; k < c->nodes; k++)
        buf_print(&list, "%s%d", k ? "," : "", c->followers[k].ranks);
    char *text = buf_take(&list);
    buf_fini(&list);
    return text;
}

int leader_place(struct leader *c, const json_t *plan, struct err *err)
{
    const json_t *ranks = json_object_get(plan, "ranks");
    const int np = (int)field_int(plan, "np", 0);
    const size_t room = np > 0 ? (size_t)np : 1;
    c->of = calloc(room, sizeof(struct follower_state *));
    c->remote = calloc(room, sizeof(struct remote_rank *));
    c->pids = calloc(room, sizeof(*c->pids));
    c->keeps = field_true(plan, "engine");
    bool good = c->of && c->remote && c->pids;
    for (; good && c->np < np; c->np++)
        good = place_rank(c, c->np, json_array_get(ranks, (size_t)c->np)) == 0;
    if (c->nodes > 1 && good)
        good = (c->node_ranks = list_ranks(c)) != NULL;
    return good ? 0 : err_set(err, ERR_MEMORY, "no memory for ranks on %d nodes", c->nodes);
}

/* --- starting -------------------------------------------------------------------------------- */

void leader_start(struct leader *c, const struct launch_env *e)
{
    c->env = *e;
    c->kept.n = c->kept.heard = 0;
    if (c->keeps && e->generation > 1)
        leader_request_all(c, REQUEST_SNAPSHOTS, NODE_ASK_SNAPSHOTS, json_make("{s:i}", "generation", e->generation));
    else
        leader_spawn(c);
}

static json_t *maybe(const char *text)
{
    return text ? json_text(text) : json_null();
}

static json_t *spawn_body(const struct follower_state *s, const struct launch_env *e)
{
    return json_make("{s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:i, s:I, s:I, s:I, s:I, s:i, s:I, s:b, s:b, "
                     "s:i, s:o*, s:o*}",
                     "generation", e->generation, "first_rank", s->first_rank, "ranks", s->ranks,
                     "world_size", s->leader->np, "node_ranks", maybe(s->leader->node_ranks),
                     "node_addr", maybe(s->address[0] ? s->address : NULL), "master_addr",
                     maybe(e->master_addr), "master_port", e->master_port, "restarts",
                     (json_int_t)e->restarts, "deadline_s", (json_int_t)e->deadline_s,
                     "resume_step", (json_int_t)e->resume_step, "skip_step",
                     (json_int_t)e->skip_step, "from", e->from, "snapshot_step",
                     (json_int_t)e->snapshot_step, "rejoin", e->rejoin, "keep", e->keep, "fallbacks",
                     e->fallbacks, "pull",
                     e->pull ? json_true() : NULL, "fetch", e->fetch ? json_true() : NULL);
}

static void forget_generation(struct leader *c)
{
    json_array_clear(c->deferred);
    json_decref(c->setup);
    c->setup = NULL;
    c->setups = c->generation == 0 ? c->nodes : 0;
    for (int r = 0; r < c->np; r++) {
        c->pids[r] = 0;
        if (c->remote[r])
            memset(c->remote[r], 0, sizeof(*c->remote[r]));
    }
}

static void spawn_on(struct follower_state *s)
{
    struct leader *c = s->leader;
    struct err err = {0};
    if (s->lost)
        snprintf(c->text, sizeof(c->text), "%s is lost", s->name);
    else if (leader_ask(s, REQUEST_SPAWN, NODE_SPAWN, spawn_body(s, &c->env), &err) < 0)
        snprintf(c->text, sizeof(c->text), "%s: %.300s", s->name, err.text);
}

/* This node last: its ranks start before the call returns, those of the others meanwhile. */
void leader_spawn(struct leader *c)
{
    struct err err = {0};
    c->generation = c->env.generation;
    c->text[0] = '\0';
    forget_generation(c);
    c->env.master_addr = c->followers[0].address[0] ? c->followers[0].address : NULL;
    if (c->generation > 0 && (c->env.master_port = launch_env_free_port(&err)) < 0)
        snprintf(c->text, sizeof(c->text), "%.300s", err.text);
    for (int k = c->nodes - 1; k >= 0 && !c->text[0]; k--)
        spawn_on(&c->followers[k]);
    leader_begin_request(c, REQUEST_SPAWN);
}

/* --- started, or not ------------------------------------------------------------------------- */

static void tell_started(struct leader *c, int generation, const char *text)
{
    c->hooks.started(c->hooks.arg, &(struct leader_started){.generation = generation,
                                                            .pids = c->pids,
                                                            .snapshot_step = c->env.snapshot_step,
                                                            .text = text});
}

void leader_spawned(struct leader *c)
{
    tell_started(c, c->generation, NULL);
}

/* A follower failed to start its ranks: those started elsewhere are killed before the failure is
 * reported. After a setup this node has other processes of the attempt that must stay. */
void leader_undo(struct leader *c)
{
    json_array_clear(c->deferred);
    c->setups = 0;
    c->cleaning = c->generation;
    leader_send_all(c, NODE_SIGNAL, json_make("{s:i}", "signo", SIGKILL));
    for (int k = c->generation > 0 ? 0 : 1; k < c->nodes; k++)
        leader_ask(&c->followers[k], REQUEST_UNDO, NODE_CLEANUP, json_make("{s:i}", "generation", c->generation), NULL);
    leader_begin_request(c, REQUEST_UNDO);
}

void leader_undone(struct leader *c)
{
    const int generation = c->generation;
    char text[LEADER_TEXT];
    snprintf(text, sizeof(text), "%s", c->text);
    c->generation = -1; /* ignore further messages of the old generation */
    tell_started(c, generation, text);
}

/* --- exits ----------------------------------------------------------------------------------- */

void leader_tell_exit(struct follower_state *s, int rank, const json_t *body)
{
    struct leader *c = s->leader;
    size_t size;
    const json_t *lines = json_object_get(body, "last_lines");
    const json_t *messages = json_object_get(body, "kernel");
    char *last_lines = json_is_string(lines) ? log_feed_bytes(lines, &size) : NULL;
    char *kernel = json_is_string(messages) ? log_feed_bytes(messages, &size) : NULL;
    const struct agent_exit e = {
        .generation = c->generation,
        .rank = rank,
        .pid = field_int(body, "pid", 0),
        .signalled = field_true(body, "signalled"),
        .signo = (int)field_int(body, "signo", 0),
        .exit_code = (int)field_int(body, "exit_code", 0),
        .oom_killed = field_true(body, "oom_killed"),
        .after_ms = field_int(body, "after_ms", 0),
        .init_ms = field_int(body, "init_ms", 0),
        .data_ms = field_int(body, "data_ms", 0),
        .checkpoint_ms = field_int(body, "checkpoint_ms", 0),
        .gpu_held = field_true(body, "gpu_held"),
        .last_lines = last_lines,
        .kernel = kernel,
        .node = c->nodes > 1 ? s->name : NULL,
    };
    c->hooks.exited(c->hooks.arg, &e);
    free(last_lines);
    free(kernel);
}

static bool failed(const json_t *body)
{
    return field_true(body, "signalled") || field_int(body, "exit_code", 0) != 0;
}

/* After one failure the others are not needed, and it is reported when they have ended. */
void leader_setup_ended(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    const bool first = failed(body) && !c->setup;
    if (c->setups == 0)
        return;
    c->setups--;
    if (!c->setup && (first || c->setups == 0)) {
        c->setup = json_copy((json_t *)(uintptr_t)body);
        c->setup_node = s->node;
    }
    if (first)
        leader_send_all(c, NODE_SIGNAL, json_make("{s:i}", "signo", SIGKILL));
    if (c->setups == 0)
        leader_tell_exit(&c->followers[c->setup_node], c->setup_node, c->setup);
}
