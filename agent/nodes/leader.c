/* SPDX-License-Identifier: Apache-2.0 */
/* leader.c - see leader.h */
#include "agent/nodes/leader.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/nodes/leader_internal.h"
#include "agent/ranks/launch_env.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/tls_listener.h"
#include "engine/contract/err.h"

/* --- requests and replies ------------------------------------------------------------------- */

/* A follower failed to start its ranks: those started elsewhere are killed before the failure is
 * reported. */
static void undo(struct leader *c)
{
    json_array_clear(c->deferred);
    leader_send_all(c, NODE_SIGNAL, json_pack("{s:i}", "signo", SIGKILL));
    leader_request_all(c, REQUEST_UNDO, NODE_CLEANUP,
                       json_pack("{s:i}", "generation", c->generation));
}

/* All followers have answered. */
static void complete(struct leader *c, enum leader_request ask)
{
    char text[LEADER_TEXT];
    snprintf(text, sizeof(text), "%s", ask == REQUEST_CLEANUP ? c->left : c->text);
    c->asked[ask] = false;
    switch (ask) {
    case REQUEST_JOIN:
        c->hooks.gathered(c->hooks.arg);
        break;
    case REQUEST_PREPARE:
        c->hooks.prepared(c->hooks.arg, text[0] ? text : NULL);
        break;
    case REQUEST_SNAPSHOTS:
        c->hooks.kept(c->hooks.arg, c->kept.generation, c->kept.common, c->kept.n);
        break;
    case REQUEST_SPAWN:
        if (text[0]) {
            undo(c);
            break;
        }
        c->hooks.spawned(c->hooks.arg, c->generation, NULL);
        leader_receive_deferred(c);
        break;
    case REQUEST_UNDO: {
        int generation = c->generation;
        c->generation = -1; /* ignore further messages of the old generation */
        c->hooks.spawned(c->hooks.arg, generation, text);
        break;
    }
    case REQUEST_CLEANUP:
        c->hooks.cleaned(c->hooks.arg, c->clean, text);
        break;
    default:
        break;
    }
}

static void give_up_gone(struct leader *c)
{
    for (int i = 1; i < c->o.nodes && !c->closed; i++)
        if (c->followers[i].gone[0])
            leader_lose(&c->followers[i], "%s", c->followers[i].gone);
}

static void on_later(uv_timer_t *timer)
{
    struct leader *c = timer->data;
    give_up_gone(c);
    for (int ask = 0; ask < LEADER_REQUESTS && !c->closed; ask++)
        if (c->asked[ask] && leader_is_answered(c, ask))
            complete(c, (enum leader_request)ask);
}

/* --- followers --------------------------------------------------------------------------------- */

static void on_up(void *arg)
{
    (void)arg;
}

static void on_message(void *arg, const struct wire_row *row, const json_t *body)
{
    struct follower_state *s = arg;
    if (!s->lost && !s->leader->closed)
        leader_receive(s, row->number, body);
}

static void on_lost(void *arg, const char *text)
{
    leader_lose(arg, "%s", text);
}

static const char *on_called(void *arg, struct tls_psk *stream, struct frame_reader *reader,
                             const json_t *call)
{
    struct leader *c = arg;
    const struct wire_id ours = {c->o.job, c->o.attempt, c->nonce}, said = wire_id_of(call);
    const int64_t node = json_integer_value(json_object_get(call, "node"));
    if (!wire_id_same(&ours, &said))
        return "it belongs to another attempt";
    if (node < 1 || node >= c->o.nodes)
        return "this attempt has no such node";
    if (c->followers[node].lost || c->shutdown)
        return "the attempt continues without this node";
    return node_channel_take(c->followers[node].link, stream, reader, call);
}

/* --- creation and release ------------------------------------------------------------------------ */

static int lost_ms(const struct leader_options *o)
{
    const char *text = getenv("JOBCTL_NODE_LOST_S");
    double s = text ? atof(text) : 0;
    const int64_t said =
        o->lost_ms >= 500 && o->lost_ms <= 86400 * 1000 ? o->lost_ms : LEADER_LOST_MS;
    return s >= 0.5 && s < 86400 ? (int)(1000 * s) : (int)said;
}

static int make_follower(struct leader *c, int node, struct err *err)
{
    struct follower_state *s = &c->followers[node];
    const char *name = json_string_value(json_array_get(c->names, (size_t)node));
    const struct node_channel_hooks hooks = {on_up, on_message, on_lost, s};
    s->leader = c;
    s->node = node;
    if (name && name[0])
        snprintf(s->name, sizeof(s->name), "%s", name);
    else
        snprintf(s->name, sizeof(s->name), "node %d", node);
    if (node == 0)
        return 0;
    s->owes[REQUEST_JOIN] = true;
    return node_channel_await(&s->link, c->loop, c->o.join_ms, lost_ms(&c->o), &hooks, err);
}

int leader_open(struct leader **out, uv_loop_t *loop, const struct leader_options *o,
                const struct leader_hooks *hooks, struct err *err)
{
    if (o->nodes < 2 || o->nodes > LEADER_NODES)
        return err_set(err, ERR_BUG, "a group of %d nodes", o->nodes);
    struct leader *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_MEMORY, "no memory for the agents of %d nodes", o->nodes);
    *c = (struct leader){.loop = loop, .hooks = *hooks, .o = *o, .generation = -1, .clean = true};
    snprintf(c->nonce, sizeof(c->nonce), "%s", o->nonce);
    snprintf(c->version, sizeof(c->version), "%s", o->version);
    c->names = json_deep_copy(o->names);
    c->deferred = json_array();
    c->followers = calloc((size_t)o->nodes, sizeof(*c->followers));
    c->o.join_ms = o->join_ms > 0 ? o->join_ms : LEADER_JOIN_MS;
    uv_timer_init(loop, &c->later);
    c->later.data = c;
    c->look = on_later;
    int rc = c->deferred && c->followers ? 0 : err_set(err, ERR_MEMORY, "no memory for %d nodes",
                                                       o->nodes);
    for (int i = 0; rc == 0 && i < o->nodes; i++)
        rc = make_follower(c, i, err);
    if (rc == 0)
        rc = tls_listener_open(&c->listener, loop,
                               &(struct tls_listener_hooks){.called = on_called, .arg = c}, err);
    if (rc == 0)
        leader_begin_request(c, REQUEST_JOIN);
    if (rc < 0) {
        c->abandoned = true;
        leader_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct leader *c = handle->data;
    if (c->abandoned)
        leader_destroy(c);
}

void leader_close(struct leader *c)
{
    if (!c || c->closed)
        return;
    c->closed = true;
    tls_listener_close(c->listener);
    for (int i = 1; c->followers && i < c->o.nodes; i++)
        node_channel_close(c->followers[i].link);
    uv_close((uv_handle_t *)&c->later, on_closed);
}

static void free_ranks(struct leader *c)
{
    for (int i = 0; c->remote && i < c->world; i++) {
        if (c->remote[i])
            json_decref(c->remote[i]->spent);
        free(c->remote[i]);
    }
    free(c->remote);
    free(c->pids);
    c->remote = NULL;
    c->pids = NULL;
    c->world = 0;
}

void leader_destroy(struct leader *c)
{
    if (!c)
        return;
    free_ranks(c);
    for (int i = 0; c->followers && i < c->o.nodes; i++) {
        json_decref(c->followers[i].facts);
        json_decref(c->followers[i].preflight);
        json_decref(c->followers[i].endpoint);
    }
    free(c->followers);
    json_decref(c->names);
    json_decref(c->deferred);
    free(c);
}

/* --- state of followers -------------------------------------------------------------------------- */

static const struct follower_state *follower_of(const struct leader *c, int node)
{
    return node >= 0 && node < c->o.nodes ? &c->followers[node] : NULL;
}

json_t *leader_endpoint(const struct leader *c)
{
    return tls_listener_endpoint(c->listener);
}

const json_t *leader_facts(const struct leader *c, int node)
{
    const struct follower_state *s = follower_of(c, node);
    return s ? s->facts : NULL;
}

const json_t *leader_follower_endpoint(const struct leader *c, int node)
{
    const struct follower_state *s = follower_of(c, node);
    return s ? s->endpoint : NULL;
}

const json_t *leader_preflight(const struct leader *c, int node)
{
    const struct follower_state *s = follower_of(c, node);
    return s ? s->preflight : NULL;
}

const char *leader_name(const struct leader *c, int node)
{
    const struct follower_state *s = follower_of(c, node);
    return s ? s->name : "?";
}

const char *leader_address(const struct leader *c, int node)
{
    const struct follower_state *s = follower_of(c, node);
    const char *address = node == 0 ? c->address : s ? s->address : "";
    return address[0] ? address : NULL;
}

/* --- commands ------------------------------------------------------------------------------------ */

int leader_prepare(struct leader *c, int node, const json_t *body, struct err *err)
{
    struct follower_state *s = &c->followers[node];
    if (!c->asked[REQUEST_PREPARE])
        c->text[0] = '\0';
    if (s->lost)
        snprintf(c->text, sizeof(c->text), "%s is lost", s->name);
    else if (node_channel_send(s->link, NODE_PREPARE, json_copy((json_t *)(uintptr_t)body),
                               err) < 0)
        return -1;
    s->owes[REQUEST_PREPARE] = !s->lost;
    leader_begin_request(c, REQUEST_PREPARE);
    return 0;
}

static json_t *maybe(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *spawn_body(const struct follower_state *s, const struct launch_env *e)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:i, s:I, s:I, s:I, s:I, s:i, s:I, s:b, s:b, "
                     "s:i}",
                     "generation", e->generation, "first_rank", s->first_rank, "ranks", s->ranks,
                     "world_size", e->world_size, "node_ranks", maybe(e->node_ranks), "node_addr",
                     maybe(s->address[0] ? s->address : NULL), "master_addr",
                     maybe(e->master_addr), "master_port", e->master_port, "restarts",
                     (json_int_t)e->restarts, "deadline_s", (json_int_t)e->deadline_s,
                     "resume_step", (json_int_t)e->resume_step, "skip_step",
                     (json_int_t)e->skip_step, "from", e->from, "snapshot_step",
                     (json_int_t)e->snapshot_step, "rejoin", e->rejoin, "keep", e->keep, "fallbacks",
                     e->fallbacks);
}

void leader_ask_snapshots(struct leader *c, int generation)
{
    c->kept.generation = generation;
    c->kept.n = c->kept.heard = 0;
    leader_request_all(c, REQUEST_SNAPSHOTS, NODE_ASK_SNAPSHOTS,
                       json_pack("{s:i}", "generation", generation));
}

static bool make_ranks(struct leader *c, int world, const struct leader_spawn *where, int n)
{
    free_ranks(c);
    c->remote = calloc((size_t)world + 1, sizeof(*c->remote));
    c->pids = calloc((size_t)world + 1, sizeof(*c->pids));
    if (!c->remote || !c->pids)
        return false;
    c->world = world;
    for (int i = 0; i < n; i++)
        for (int k = where[i].first_rank; k < where[i].first_rank + where[i].ranks; k++)
            if (k < 0 || k >= world ||
                (!c->remote[k] && !(c->remote[k] = calloc(1, sizeof(**c->remote)))))
                return false;
    return true;
}

void leader_spawn(struct leader *c, const struct launch_env *e, const struct leader_spawn *where,
                  int n)
{
    struct err err = {0};
    c->generation = e->generation;
    c->text[0] = '\0';
    json_array_clear(c->deferred);
    bool room = e->generation == 0 || make_ranks(c, e->world_size, where, n);
    if (!room)
        snprintf(c->text, sizeof(c->text), "no memory for %d ranks", e->world_size);
    for (int i = 1; i < c->o.nodes; i++)
        c->followers[i].ranks = 0;
    for (int i = 0; room && i < n; i++) {
        struct follower_state *s = &c->followers[where[i].node];
        s->first_rank = where[i].first_rank;
        s->ranks = where[i].ranks;
        if (s->lost)
            snprintf(c->text, sizeof(c->text), "%s is lost", s->name);
        else if (node_channel_send(s->link, NODE_SPAWN, spawn_body(s, e), &err) < 0)
            snprintf(c->text, sizeof(c->text), "%s: %.300s", s->name, err.text);
        else
            s->owes[REQUEST_SPAWN] = true;
    }
    leader_begin_request(c, REQUEST_SPAWN);
}

int64_t leader_pid(const struct leader *c, int rank)
{
    return rank >= 0 && rank < c->world ? c->pids[rank] : 0;
}

void leader_control(struct leader *c, const char *command)
{
    leader_send_all(c, NODE_CONTROL, json_pack("{s:s}", "command", command));
}

void leader_broadcast(struct leader *c, const json_t *line)
{
    leader_send_all(c, NODE_DELIVER,
                    json_pack("{s:i, s:O}", "generation", c->generation, "line", line));
}

void leader_signal(struct leader *c, int signo)
{
    leader_send_all(c, NODE_SIGNAL, json_pack("{s:i}", "signo", signo));
}

void leader_cleanup(struct leader *c, int generation)
{
    c->clean = true;
    c->left[0] = '\0';
    leader_request_all(c, REQUEST_CLEANUP, NODE_CLEANUP,
                       json_pack("{s:i}", "generation", generation));
}

void leader_inspect(struct leader *c, int generation)
{
    leader_request_all(c, REQUEST_INSPECT, NODE_INSPECT,
                       json_pack("{s:i}", "generation", generation));
}

void leader_node_gone(struct leader *c, int node, const char *text)
{
    if (node < 1 || node >= c->o.nodes)
        return;
    snprintf(c->followers[node].gone, sizeof(c->followers[node].gone), "%s", text);
    leader_look_later(c);
}

void leader_shutdown(struct leader *c)
{
    leader_send_all(c, NODE_SHUTDOWN, json_object());
    c->shutdown = true;
}

/* --- flight pages -------------------------------------------------------------------------------- */

int64_t leader_look(const struct leader *c, int rank, struct flight_page *page, char *state,
                    uint64_t *io_mib)
{
    const struct remote_rank *f = rank >= 0 && rank < c->world ? c->remote[rank] : NULL;
    *page = f ? f->seen.u.page : (struct flight_page){.pid = 0};
    if (state)
        *state = f ? f->seen.state : (char)0;
    if (io_mib)
        *io_mib = f ? f->seen.io_mib : 0;
    if (f)
        flight_shift(page, f->add_ns);
    return f ? f->seen.pid : 0;
}

void leader_phases(const struct leader *c, int rank, struct agent_exit *e)
{
    const struct remote_rank *f = rank >= 0 && rank < c->world ? c->remote[rank] : NULL;
    if (!f || !f->spent)
        return;
    e->init_ms = json_integer_value(json_object_get(f->spent, "init_ms"));
    e->data_ms = json_integer_value(json_object_get(f->spent, "data_ms"));
    e->checkpoint_ms = json_integer_value(json_object_get(f->spent, "checkpoint_ms"));
}

int leader_silent_ms(const struct leader *c, int node)
{
    const struct follower_state *s = follower_of(c, node);
    return s && s->link && !s->lost ? node_channel_silent_ms(s->link) : 0;
}

const char *leader_last_lines(const struct leader *c, int rank)
{
    return rank >= 0 && rank < c->world && c->remote[rank] ? c->remote[rank]->seen.lines : "";
}
