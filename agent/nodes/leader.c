/* SPDX-License-Identifier: Apache-2.0 */
/* leader.c - see leader.h */
#include "agent/nodes/leader.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/nodes/follower.h"
#include "agent/nodes/leader_internal.h"
#include "agent/ranks/ranks.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/tls_listener.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "engine/base/json_make.h"

enum { SILENT_MS = 2500 };

/* --- requests and replies ------------------------------------------------------------------- */

static void tell_gathered(struct leader *c)
{
    c->hooks.gathered(c->hooks.arg);
}

static void tell_prepared(struct leader *c)
{
    char text[LEADER_TEXT];
    snprintf(text, sizeof(text), "%s", c->text);
    c->hooks.prepared(c->hooks.arg, text[0] ? text : NULL);
}

static void choose_snapshot(struct leader *c)
{
    launch_env_recall(&c->env, c->kept.common, c->kept.n);
    leader_spawn(c);
}

static void tell_spawned(struct leader *c)
{
    if (c->text[0]) {
        leader_undo(c);
        return;
    }
    leader_spawned(c);
    leader_receive_deferred(c);
}

static void tell_cleaned(struct leader *c)
{
    char left[LEADER_TEXT];
    snprintf(left, sizeof(left), "%s", c->left);
    c->hooks.cleaned(c->hooks.arg, c->clean, left);
}

static void tell_stacks_done(struct leader *c)
{
    c->hooks.stacks_done(c->hooks.arg);
}

/* All followers have answered. */
static void (*const complete[LEADER_REQUESTS])(struct leader *c) = {
    [REQUEST_JOIN] = tell_gathered,        [REQUEST_PREPARE] = tell_prepared,
    [REQUEST_SNAPSHOTS] = choose_snapshot, [REQUEST_SPAWN] = tell_spawned,
    [REQUEST_UNDO] = leader_undone,        [REQUEST_CLEANUP] = tell_cleaned,
    [REQUEST_INSPECT] = tell_stacks_done,
};

static void give_up_gone(struct leader *c)
{
    for (int i = 1; i < c->nodes && !c->closed; i++)
        if (c->followers[i].gone[0])
            leader_lose(&c->followers[i], "%s", c->followers[i].gone);
}

static void on_later(uv_timer_t *timer)
{
    struct leader *c = timer->data;
    give_up_gone(c);
    for (int ask = 0; ask < LEADER_REQUESTS && !c->closed; ask++)
        if (c->asked[ask] && leader_is_answered(c, ask)) {
            c->asked[ask] = false;
            complete[ask](c);
        }
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

static const char *on_called(void *arg, struct byte_stream *stream, struct frame_reader *reader, const json_t *call)
{
    struct leader *c = arg;
    const struct wire_id ours = {c->o.job, c->o.attempt, c->nonce}, said = wire_id_of(call);
    const int64_t node = json_integer_value(json_object_get(call, "node"));
    if (!wire_id_same(&ours, &said))
        return "it belongs to another attempt";
    if (node < 1 || node >= c->nodes)
        return "this attempt has no such node";
    if (c->followers[node].lost || c->shutdown)
        return "the attempt continues without this node";
    return node_channel_take(c->followers[node].link, stream, reader, call);
}

/* The follower of this node. */
static void on_local_message(void *arg, enum wire_message number, json_t *body)
{
    struct leader *c = arg;
    if (!c->closed)
        leader_receive(&c->followers[0], number, body);
    json_decref(body);
}

static void on_local_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct leader *c = arg;
    if (!c->closed)
        c->hooks.output(c->hooks.arg, rank, bytes, size);
}

/* --- creation and release ------------------------------------------------------------------------ */

int leader_create(struct leader **out, uv_loop_t *loop, struct follower *follower,
                  const struct leader_hooks *hooks, struct err *err)
{
    struct leader *c = calloc(1, sizeof(*c));
    if (!c || !(c->followers = calloc(1, sizeof(*c->followers))) || !(c->deferred = json_array())) {
        leader_destroy(c);
        return err_set(err, ERR_MEMORY, "no memory for the ranks");
    }
    c->loop = loop;
    c->hooks = *hooks;
    c->follower = follower;
    c->generation = -1;
    c->nodes = 1;
    c->followers[0].leader = c;
    c->look = on_later;
    uv_timer_init(loop, &c->later);
    c->later.data = c;
    follower_set_place(follower, 0, 1);
    follower_set_hooks(follower, &(struct follower_hooks){.message = on_local_message,
                                                          .output = on_local_output,
                                                          .arg = c});
    *out = c;
    return 0;
}

static int lost_ms(const struct leader_options *o)
{
    const char *text = getenv("JOBCTL_NODE_LOST_S");
    double s = text ? atof(text) : 0;
    const int64_t said = o->lost_ms >= 500 && o->lost_ms <= 86400 * 1000 ? o->lost_ms : LEADER_LOST_MS;
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

/* A node that is counted has a channel. */
static int make_followers(struct leader *c, int nodes, struct err *err)
{
    struct follower_state *all = calloc((size_t)nodes, sizeof(*all));
    if (!all)
        return err_set(err, ERR_MEMORY, "no memory for the agents of %d nodes", nodes);
    free(c->followers);
    c->followers = all;
    for (c->nodes = 0; c->nodes < nodes; c->nodes++)
        if (make_follower(c, c->nodes, err) < 0)
            return -1;
    return 0;
}

int leader_gather(struct leader *c, const struct leader_options *o, struct err *err)
{
    if (o->nodes < 2 || o->nodes > LEADER_NODES)
        return err_set(err, ERR_BUG, "a group of %d nodes", o->nodes);
    c->o = *o;
    c->o.join_ms = o->join_ms > 0 ? o->join_ms : LEADER_JOIN_MS;
    snprintf(c->nonce, sizeof(c->nonce), "%s", o->nonce);
    snprintf(c->version, sizeof(c->version), "%s", o->version);
    c->names = json_deep_copy(o->names);
    if (make_followers(c, o->nodes, err) < 0 ||
        tls_listener_open(&c->listener, c->loop,
                          &(struct tls_listener_hooks){.called = on_called, .arg = c}, err) < 0)
        return -1;
    follower_set_place(c->follower, 0, c->nodes);
    leader_begin_request(c, REQUEST_JOIN);
    return 0;
}

void leader_close(struct leader *c)
{
    if (!c || c->closed)
        return;
    c->closed = true;
    tls_listener_close(c->listener);
    for (int i = 1; i < c->nodes; i++)
        node_channel_close(c->followers[i].link);
    uv_close((uv_handle_t *)&c->later, NULL);
}

static void free_ranks(struct leader *c)
{
    for (int i = 0; i < c->np; i++)
        free(c->remote[i]);
    free(c->remote);
    free(c->of);
    free(c->pids);
    free(c->node_ranks);
}

void leader_destroy(struct leader *c)
{
    if (!c)
        return;
    free_ranks(c);
    for (int i = 0; i < c->nodes; i++) {
        json_decref(c->followers[i].facts);
        json_decref(c->followers[i].preflight);
        json_decref(c->followers[i].endpoint);
    }
    free(c->followers);
    json_decref(c->names);
    json_decref(c->deferred);
    json_decref(c->setup);
    free(c);
}

/* --- state of followers -------------------------------------------------------------------------- */

static const struct follower_state *follower_of(const struct leader *c, int node)
{
    return node >= 0 && node < c->nodes ? &c->followers[node] : NULL;
}

json_t *leader_endpoint(const struct leader *c)
{
    return c->listener ? tls_listener_endpoint(c->listener) : NULL;
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
    return s && s->address[0] ? s->address : NULL;
}

/* --- commands ------------------------------------------------------------------------------------ */

int leader_prepare(struct leader *c, int node, const json_t *body, struct err *err)
{
    struct follower_state *s = &c->followers[node];
    if (!c->asked[REQUEST_PREPARE])
        c->text[0] = '\0';
    if (s->lost)
        snprintf(c->text, sizeof(c->text), "%s is lost", s->name);
    if (leader_ask(s, REQUEST_PREPARE, NODE_PREPARE, json_copy((json_t *)(uintptr_t)body), err) < 0)
        return -1;
    leader_begin_request(c, REQUEST_PREPARE);
    return 0;
}

void leader_control(struct leader *c, const char *command)
{
    leader_send_all(c, NODE_CONTROL, json_make("{s:s}", "command", command));
}

void leader_signal(struct leader *c, int signo)
{
    leader_send_all(c, NODE_SIGNAL, json_make("{s:i}", "signo", signo));
}

/* Before leader_place() the other nodes have nothing to clean up. */
void leader_cleanup(struct leader *c, int generation)
{
    const int nodes = c->of ? c->nodes : 1;
    leader_give_up(c, REQUEST_SNAPSHOTS);
    leader_give_up(c, REQUEST_SPAWN);
    leader_give_up(c, REQUEST_UNDO);
    json_array_clear(c->deferred);
    c->cleaning = generation;
    c->clean = true;
    c->left[0] = '\0';
    for (int k = 0; k < nodes; k++)
        leader_ask(&c->followers[k], REQUEST_CLEANUP, NODE_CLEANUP, json_make("{s:i}", "generation", generation), NULL);
    leader_begin_request(c, REQUEST_CLEANUP);
}

void leader_inspect(struct leader *c, int generation, int first, const char *path)
{
    leader_ask(&c->followers[0], REQUEST_INSPECT, NODE_INSPECT,
               json_make("{s:i, s:i, s:s}", "generation", generation, "rank", first, "path", path),
               NULL);
    for (int k = 1; k < c->nodes; k++)
        leader_ask(&c->followers[k], REQUEST_INSPECT, NODE_INSPECT, json_make("{s:i}", "generation", generation), NULL);
    leader_begin_request(c, REQUEST_INSPECT);
}

void leader_node_gone(struct leader *c, int node, const char *text)
{
    if (node < 1 || node >= c->nodes)
        return;
    snprintf(c->followers[node].gone, sizeof(c->followers[node].gone), "%s", text);
    leader_look_later(c);
}

void leader_lease(struct leader *c, int node, int round, int nodes)
{
    if (node >= 0 && node < c->nodes)
        leader_send(&c->followers[node], NODE_LEASE, json_make("{s:i, s:i}", "round", round, "nodes", nodes), NULL);
}

void leader_shutdown(struct leader *c)
{
    leader_send_all(c, NODE_SHUTDOWN, json_object());
    c->shutdown = true;
}

/* --- ranks --------------------------------------------------------------------------------------- */

int leader_ranks(const struct leader *c)
{
    return c->np;
}

/* NULL: a rank of this node, or none. */
static const struct remote_rank *remote_of(const struct leader *c, int rank)
{
    return rank >= 0 && rank < c->np ? c->remote[rank] : NULL;
}

bool leader_is_here(const struct leader *c, int rank)
{
    return !remote_of(c, rank);
}

const char *leader_where(const struct leader *c, int rank)
{
    return c->nodes > 1 && rank >= 0 && rank < c->np ? c->of[rank]->name : "";
}

/* A silent node may still be at work: treated like a rank held by a debugger. */
static char state_of(const struct follower_state *s, char seen)
{
    return s->link && !s->lost && node_channel_silent_ms(s->link) > SILENT_MS ? 't' : seen;
}

int64_t leader_look(const struct leader *c, int rank, struct flight_page *page, char *state,
                    struct activity_sample *use)
{
    const struct remote_rank *f = remote_of(c, rank);
    if (!f)
        return follower_look(c->follower, rank, page, state, use);
    *page = f->seen.u.page;
    if (state)
        *state = state_of(c->of[rank], f->seen.state);
    if (use)
        *use = f->seen.use;
    flight_shift(page, f->add_ns);
    return f->seen.pid;
}

const char *leader_phase(const struct leader *c, int rank)
{
    static struct flight_page page; /* 16 KiB; one thread */
    leader_look(c, rank, &page, NULL, NULL);
    return page.pid ? flight_phase_name(flight_phase_of(&page)) : NULL;
}

const char *leader_last_lines(const struct leader *c, int rank)
{
    const struct remote_rank *f = remote_of(c, rank);
    return f ? f->seen.lines : ranks_last_lines(follower_ranks(c->follower), rank);
}
