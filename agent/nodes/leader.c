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
#include "engine/contract/err.h"

/* --- questions and answers ------------------------------------------------------------------ */

/* One could not: what others have started of it must end before anybody is told. */
static void undo(struct crew *c)
{
    json_array_clear(c->held);
    crew_tell_all(c, CREW_SIGNAL, json_pack("{s:i}", "signo", SIGKILL));
    crew_ask_all(c, ASK_UNDO, CREW_SWEEP, json_pack("{s:i}", "generation", c->generation));
}

/* All have answered. */
static void complete(struct crew *c, enum crew_ask ask)
{
    char text[CREW_TEXT];
    snprintf(text, sizeof(text), "%s", ask == ASK_SWEEP ? c->left : c->text);
    c->asked[ask] = false;
    switch (ask) {
    case ASK_JOIN:
        c->hooks.gathered(c->hooks.arg);
        break;
    case ASK_PREPARE:
        c->hooks.prepared(c->hooks.arg, text[0] ? text : NULL);
        break;
    case ASK_KEPT:
        c->hooks.kept(c->hooks.arg, c->kept.generation, c->kept.common, c->kept.n);
        break;
    case ASK_SPAWN:
        if (text[0]) {
            undo(c);
            break;
        }
        c->hooks.spawned(c->hooks.arg, c->generation, NULL);
        crew_hear_held(c);
        break;
    case ASK_UNDO: {
        int generation = c->generation;
        c->generation = -1; /* what is still said of it is of no interest */
        c->hooks.spawned(c->hooks.arg, generation, text);
        break;
    }
    case ASK_SWEEP:
        c->hooks.swept(c->hooks.arg, c->clean, text);
        break;
    default:
        break;
    }
}

static void give_up_gone(struct crew *c)
{
    for (int i = 1; i < c->o.nodes && !c->closed; i++)
        if (c->seats[i].gone[0])
            crew_give_up(&c->seats[i], "%s", c->seats[i].gone);
}

static void on_later(uv_timer_t *timer)
{
    struct crew *c = timer->data;
    give_up_gone(c);
    for (int ask = 0; ask < CREW_ASKS && !c->closed; ask++)
        if (c->asked[ask] && crew_is_answered(c, ask))
            complete(c, (enum crew_ask)ask);
}

/* --- members ---------------------------------------------------------------------------------- */

static void on_up(void *arg)
{
    (void)arg;
}

static void on_message(void *arg, const struct wire_row *row, const json_t *body)
{
    struct seat *s = arg;
    if (!s->lost && !s->crew->closed)
        crew_hear(s, row->number, body);
}

static void on_lost(void *arg, const char *text)
{
    crew_give_up(arg, "%s", text);
}

static const char *on_called(void *arg, struct secure *stream, struct frame_reader *reader,
                             const json_t *call)
{
    struct crew *c = arg;
    const struct wire_id ours = {c->o.job, c->o.attempt, c->nonce}, said = wire_id_of(call);
    const int64_t node = json_integer_value(json_object_get(call, "node"));
    if (!wire_id_same(&ours, &said))
        return "it is of another attempt";
    if (node < 1 || node >= c->o.nodes)
        return "there is no such node in this attempt";
    if (c->seats[node].lost || c->bye)
        return "the attempt goes on without it";
    return crew_link_take(c->seats[node].link, stream, reader, call);
}

/* --- life --------------------------------------------------------------------------------------- */

static int lost_ms(const struct crew_options *o)
{
    const char *text = getenv("JOBCTL_NODE_LOST_S");
    double s = text ? atof(text) : 0;
    const int64_t said = o->lost_ms >= 500 && o->lost_ms <= 86400 * 1000 ? o->lost_ms : CREW_LOST_MS;
    return s >= 0.5 && s < 86400 ? (int)(1000 * s) : (int)said;
}

static int make_seat(struct crew *c, int node, struct err *err)
{
    struct seat *s = &c->seats[node];
    const char *name = json_string_value(json_array_get(c->names, (size_t)node));
    const struct crew_link_hooks hooks = {on_up, on_message, on_lost, s};
    s->crew = c;
    s->node = node;
    if (name && name[0])
        snprintf(s->name, sizeof(s->name), "%s", name);
    else
        snprintf(s->name, sizeof(s->name), "node %d", node);
    if (node == 0)
        return 0;
    s->owes[ASK_JOIN] = true;
    return crew_link_await(&s->link, c->loop, c->o.join_ms, lost_ms(&c->o), &hooks, err);
}

int crew_open(struct crew **out, uv_loop_t *loop, const struct crew_options *o,
              const struct crew_hooks *hooks, struct err *err)
{
    if (o->nodes < 2 || o->nodes > CREW_NODES)
        return err_set(err, ERR_BUG, "a crew of %d nodes", o->nodes);
    struct crew *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_MEMORY, "no memory for the agents of %d nodes", o->nodes);
    *c = (struct crew){.loop = loop, .hooks = *hooks, .o = *o, .generation = -1, .clean = true};
    snprintf(c->nonce, sizeof(c->nonce), "%s", o->nonce);
    snprintf(c->version, sizeof(c->version), "%s", o->version);
    c->names = json_deep_copy(o->names);
    c->held = json_array();
    c->seats = calloc((size_t)o->nodes, sizeof(*c->seats));
    c->o.join_ms = o->join_ms > 0 ? o->join_ms : CREW_JOIN_MS;
    uv_timer_init(loop, &c->later);
    c->later.data = c;
    c->look = on_later;
    int rc = c->held && c->seats ? 0 : err_set(err, ERR_MEMORY, "no memory for %d nodes", o->nodes);
    for (int i = 0; rc == 0 && i < o->nodes; i++)
        rc = make_seat(c, i, err);
    if (rc == 0)
        rc = crew_door_open(&c->door, loop, on_called, c, err);
    if (rc == 0)
        crew_begin_ask(c, ASK_JOIN);
    if (rc < 0) {
        c->orphan = true;
        crew_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct crew *c = handle->data;
    if (c->orphan)
        crew_destroy(c);
}

void crew_close(struct crew *c)
{
    if (!c || c->closed)
        return;
    c->closed = true;
    crew_door_close(c->door);
    for (int i = 1; c->seats && i < c->o.nodes; i++)
        crew_link_close(c->seats[i].link);
    uv_close((uv_handle_t *)&c->later, on_closed);
}

static void free_ranks(struct crew *c)
{
    for (int i = 0; c->far && i < c->world; i++) {
        if (c->far[i])
            json_decref(c->far[i]->spent);
        free(c->far[i]);
    }
    free(c->far);
    free(c->pids);
    c->far = NULL;
    c->pids = NULL;
    c->world = 0;
}

void crew_destroy(struct crew *c)
{
    if (!c)
        return;
    free_ranks(c);
    for (int i = 0; c->seats && i < c->o.nodes; i++) {
        json_decref(c->seats[i].facts);
        json_decref(c->seats[i].preflight);
        json_decref(c->seats[i].door);
    }
    free(c->seats);
    json_decref(c->names);
    json_decref(c->held);
    free(c);
}

/* --- what is known of them ---------------------------------------------------------------------- */

static const struct seat *seat_of(const struct crew *c, int node)
{
    return node >= 0 && node < c->o.nodes ? &c->seats[node] : NULL;
}

json_t *crew_door(const struct crew *c)
{
    return crew_door_say(c->door);
}

const json_t *crew_facts(const struct crew *c, int node)
{
    const struct seat *s = seat_of(c, node);
    return s ? s->facts : NULL;
}

const json_t *crew_member_door(const struct crew *c, int node)
{
    const struct seat *s = seat_of(c, node);
    return s ? s->door : NULL;
}

const json_t *crew_preflight(const struct crew *c, int node)
{
    const struct seat *s = seat_of(c, node);
    return s ? s->preflight : NULL;
}

const char *crew_name(const struct crew *c, int node)
{
    const struct seat *s = seat_of(c, node);
    return s ? s->name : "?";
}

const char *crew_address(const struct crew *c, int node)
{
    const struct seat *s = seat_of(c, node);
    const char *address = node == 0 ? c->address : s ? s->address : "";
    return address[0] ? address : NULL;
}

/* --- commands ------------------------------------------------------------------------------------ */

int crew_prepare(struct crew *c, int node, const json_t *body, struct err *err)
{
    struct seat *s = &c->seats[node];
    if (!c->asked[ASK_PREPARE])
        c->text[0] = '\0';
    if (s->lost)
        snprintf(c->text, sizeof(c->text), "%s is lost", s->name);
    else if (crew_link_send(s->link, CREW_PREPARE, json_copy((json_t *)(uintptr_t)body), err) < 0)
        return -1;
    s->owes[ASK_PREPARE] = !s->lost;
    crew_begin_ask(c, ASK_PREPARE);
    return 0;
}

static json_t *maybe(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *spawn_body(const struct seat *s, const struct launch_env *e)
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
                     (json_int_t)e->snapshot_step, "rebuild", e->rebuild, "keep", e->keep, "remedies",
                     e->remedies);
}

void crew_ask_kept(struct crew *c, int generation)
{
    c->kept.generation = generation;
    c->kept.n = c->kept.heard = 0;
    crew_ask_all(c, ASK_KEPT, CREW_ASK_KEPT, json_pack("{s:i}", "generation", generation));
}

static bool make_ranks(struct crew *c, int world, const struct crew_spawn *where, int n)
{
    free_ranks(c);
    c->far = calloc((size_t)world + 1, sizeof(*c->far));
    c->pids = calloc((size_t)world + 1, sizeof(*c->pids));
    if (!c->far || !c->pids)
        return false;
    c->world = world;
    for (int i = 0; i < n; i++)
        for (int k = where[i].first_rank; k < where[i].first_rank + where[i].ranks; k++)
            if (k < 0 || k >= world || (!c->far[k] && !(c->far[k] = calloc(1, sizeof(**c->far)))))
                return false;
    return true;
}

void crew_spawn(struct crew *c, const struct launch_env *e, const struct crew_spawn *where, int n)
{
    struct err err = {0};
    c->generation = e->generation;
    c->text[0] = '\0';
    json_array_clear(c->held);
    bool room = e->generation == 0 || make_ranks(c, e->world_size, where, n);
    if (!room)
        snprintf(c->text, sizeof(c->text), "no memory for %d ranks", e->world_size);
    for (int i = 1; i < c->o.nodes; i++)
        c->seats[i].ranks = 0;
    for (int i = 0; room && i < n; i++) {
        struct seat *s = &c->seats[where[i].node];
        s->first_rank = where[i].first_rank;
        s->ranks = where[i].ranks;
        if (s->lost)
            snprintf(c->text, sizeof(c->text), "%s is lost", s->name);
        else if (crew_link_send(s->link, CREW_SPAWN, spawn_body(s, e), &err) < 0)
            snprintf(c->text, sizeof(c->text), "%s: %.300s", s->name, err.text);
        else
            s->owes[ASK_SPAWN] = true;
    }
    crew_begin_ask(c, ASK_SPAWN);
}

int64_t crew_pid(const struct crew *c, int rank)
{
    return rank >= 0 && rank < c->world ? c->pids[rank] : 0;
}

void crew_control(struct crew *c, const char *command)
{
    crew_tell_all(c, CREW_CONTROL, json_pack("{s:s}", "command", command));
}

void crew_relay(struct crew *c, const json_t *line)
{
    crew_tell_all(c, CREW_RELAYED, json_pack("{s:i, s:O}", "generation", c->generation, "line", line));
}

void crew_signal(struct crew *c, int signo)
{
    crew_tell_all(c, CREW_SIGNAL, json_pack("{s:i}", "signo", signo));
}

void crew_sweep(struct crew *c, int generation)
{
    c->clean = true;
    c->left[0] = '\0';
    crew_ask_all(c, ASK_SWEEP, CREW_SWEEP, json_pack("{s:i}", "generation", generation));
}

void crew_inspect(struct crew *c, int generation)
{
    crew_ask_all(c, ASK_INSPECT, CREW_INSPECT, json_pack("{s:i}", "generation", generation));
}

void crew_gone(struct crew *c, int node, const char *text)
{
    if (node < 1 || node >= c->o.nodes)
        return;
    snprintf(c->seats[node].gone, sizeof(c->seats[node].gone), "%s", text);
    crew_look_later(c);
}

void crew_bye(struct crew *c)
{
    crew_tell_all(c, CREW_BYE, json_object());
    c->bye = true;
}

/* --- looking -------------------------------------------------------------------------------------- */

int64_t crew_look(const struct crew *c, int rank, struct flight_page *page, char *state,
                  uint64_t *io_mib)
{
    const struct far_rank *f = rank >= 0 && rank < c->world ? c->far[rank] : NULL;
    *page = f ? f->seen.u.page : (struct flight_page){.pid = 0};
    if (state)
        *state = f ? f->seen.state : (char)0;
    if (io_mib)
        *io_mib = f ? f->seen.io_mib : 0;
    if (f)
        flight_shift(page, f->add_ns);
    return f ? f->seen.pid : 0;
}

void crew_phases(const struct crew *c, int rank, struct agent_exit *e)
{
    const struct far_rank *f = rank >= 0 && rank < c->world ? c->far[rank] : NULL;
    if (!f || !f->spent)
        return;
    e->init_ms = json_integer_value(json_object_get(f->spent, "init_ms"));
    e->data_ms = json_integer_value(json_object_get(f->spent, "data_ms"));
    e->checkpoint_ms = json_integer_value(json_object_get(f->spent, "checkpoint_ms"));
}

int crew_silent_ms(const struct crew *c, int node)
{
    const struct seat *s = seat_of(c, node);
    return s && s->link && !s->lost ? crew_link_silent_ms(s->link) : 0;
}

const char *crew_last_lines(const struct crew *c, int rank)
{
    return rank >= 0 && rank < c->world && c->far[rank] ? c->far[rank]->seen.lines : "";
}
