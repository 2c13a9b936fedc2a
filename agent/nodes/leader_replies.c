/* SPDX-License-Identifier: Apache-2.0 */
/* leader_replies.c - what members say, and what the head makes of it; see leader.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/monitor/gpu_watch.h"
#include "agent/nodes/leader_internal.h"
#include "agent/os/log.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/log_feed.h"
#include "engine/contract/err.h"

static int64_t int_of(const json_t *body, const char *key)
{
    return json_integer_value(json_object_get(body, key));
}

/* Text that may hold any bytes (agent/wire/log_feed.h); for free(), NULL: there is none. */
static char *text_of(const json_t *body, const char *key)
{
    size_t size;
    const json_t *v = json_object_get(body, key);
    return json_is_string(v) ? log_feed_bytes(v, &size) : NULL;
}

static bool is_present(const struct seat *s, const json_t *body)
{
    return int_of(body, "generation") == s->crew->generation;
}

/* The rank of a message, or -1: it is none of this member's. */
static int rank_of(const struct seat *s, const json_t *body)
{
    int64_t rank = int_of(body, "rank");
    return rank >= s->first_rank && rank < s->first_rank + s->ranks ? (int)rank : -1;
}

/* --- answers --------------------------------------------------------------------------------- */

static void hear_join(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    char here[SECURE_ADDRESS];
    const char *version = json_string_value(json_object_get(body, "version"));
    if (strcmp(version, c->version) != 0) {
        crew_give_up(s, "runs jobctl-agent %.40s, the first node %.40s: all nodes need the same one",
                     version, c->version);
        return;
    }
    json_decref(s->facts);
    s->facts = json_incref(json_object_get(body, "facts"));
    json_decref(s->door);
    s->door = json_incref(json_object_get(body, "door"));
    if (!crew_link_address(s->link, true, s->address))
        snprintf(s->address, sizeof(s->address), "%.45s",
                 json_string_value(json_object_get(body, "address")));
    /* Not every member may be on a machine of its own; those that are know the better address. */
    if ((!c->address[0] || strncmp(c->address, "127.", 4) == 0) &&
        crew_link_address(s->link, false, here))
        memcpy(c->address, here, sizeof(here));
    crew_answered(s, ASK_JOIN);
}

static void note_refusal(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    char *text = text_of(body, "text");
    if (text && !c->text[0])
        snprintf(c->text, sizeof(c->text), "%s: %s", s->name, text);
    free(text);
}

static void hear_prepared(struct seat *s, const json_t *body)
{
    json_decref(s->preflight);
    s->preflight = json_incref(json_object_get(body, "preflight"));
    note_refusal(s, body);
    crew_answered(s, ASK_PREPARE);
}

static void hear_spawned(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    size_t i;
    const json_t *pid;
    if (!is_present(s, body) || !s->owes[ASK_SPAWN])
        return;
    json_array_foreach(json_object_get(body, "pids"), i, pid)
    {
        size_t rank = (size_t)s->first_rank + i;
        if (c->generation == 0 || i >= (size_t)s->ranks)
            break;
        c->pids[rank] = json_integer_value(pid);
        if (!c->far[rank]->ended && c->far[rank]->seen.pid == 0)
            c->far[rank]->seen.pid = c->pids[rank];
    }
    note_refusal(s, body);
    crew_answered(s, ASK_SPAWN);
}

static void hear_swept(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    char *left = text_of(body, "left");
    if (s->owes[ASK_SWEEP] && !json_is_true(json_object_get(body, "clean"))) {
        size_t n = strlen(c->left);
        c->clean = false;
        snprintf(c->left + n, sizeof(c->left) - n, "%s%s: %s", n ? "; " : "", s->name,
                 left ? left : "?");
    }
    free(left);
    crew_answered(s, s->owes[ASK_UNDO] ? ASK_UNDO : ASK_SWEEP);
}

static int read_claims(struct keepsake_claim out[KEEPSAKE_SETS], const json_t *sets)
{
    size_t i;
    const json_t *set;
    int n = 0;
    json_array_foreach(sets, i, set)
    {
        if (n < KEEPSAKE_SETS)
            out[n++] = (struct keepsake_claim){(int)json_integer_value(json_array_get(set, 0)),
                                               json_integer_value(json_array_get(set, 1))};
    }
    return n;
}

static void hear_kept(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    struct keepsake_claim claims[KEEPSAKE_SETS];
    if (!s->owes[ASK_KEPT] || int_of(body, "generation") != c->kept.generation)
        return;
    const int n = read_claims(claims, json_object_get(body, "sets"));
    if (c->kept.heard++ == 0) {
        memcpy(c->kept.common, claims, (size_t)n * sizeof(*claims));
        c->kept.n = n;
    } else {
        c->kept.n = keepsake_common(c->kept.common, c->kept.n, claims, n);
    }
    crew_answered(s, ASK_KEPT);
}

static void hear_inspected(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    char *text = text_of(body, "text");
    if (s->owes[ASK_INSPECT]) {
        crew_answered(s, ASK_INSPECT);
        c->hooks.inspected(c->hooks.arg, s->node, text ? text : "");
    }
    free(text);
}

static void hear_nccl(const struct seat *s, const json_t *body)
{
    const struct crew *c = s->crew;
    if (is_present(s, body) && c->hooks.nccl)
        c->hooks.nccl(c->hooks.arg, s->node, json_object_get(body, "body"));
}

/* --- of ranks -------------------------------------------------------------------------------- */

static void hear_exited(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    int rank = c->generation ? rank_of(s, body) : s->node;
    if (rank < 0)
        return;
    if (c->generation) {
        c->far[rank]->ended = true;
        c->far[rank]->seen.pid = 0;
    }
    char *last_lines = text_of(body, "last_lines"), *kernel = text_of(body, "kernel");
    const struct agent_exit e = {
        .generation = c->generation,
        .rank = rank,
        .pid = int_of(body, "pid"),
        .signalled = json_is_true(json_object_get(body, "signalled")),
        .signo = (int)int_of(body, "signo"),
        .exit_code = (int)int_of(body, "exit_code"),
        .oom_killed = json_is_true(json_object_get(body, "oom_killed")),
        .after_ms = int_of(body, "after_ms"),
        .init_ms = int_of(body, "init_ms"),
        .data_ms = int_of(body, "data_ms"),
        .checkpoint_ms = int_of(body, "checkpoint_ms"),
        .last_lines = last_lines,
        .kernel = kernel,
    };
    c->hooks.exited(c->hooks.arg, &e);
    free(last_lines);
    free(kernel);
}

static void hear_output(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    size_t size;
    int rank = rank_of(s, body);
    char *bytes = rank < 0 ? NULL : log_feed_bytes(json_object_get(body, "data"), &size);
    if (bytes)
        c->hooks.output(c->hooks.arg, rank, bytes, size);
    free(bytes);
}

static void hear_line(struct crew *c, int rank, const json_t *body)
{
    json_t *spent = json_object_get(body, "spent");
    if (spent) {
        json_decref(c->far[rank]->spent);
        c->far[rank]->spent = json_incref(spent);
    }
    c->hooks.line(c->hooks.arg, c->generation, rank, json_object_get(body, "line"));
}

static void hear_rank(struct seat *s, enum wire_message number, const json_t *body)
{
    struct crew *c = s->crew;
    int rank = rank_of(s, body);
    if (number == CREW_EXITED)
        hear_exited(s, body);
    else if (number == CREW_OUTPUT)
        hear_output(s, body);
    else if (rank >= 0)
        hear_line(c, rank, body);
}

/* Nobody hears of a rank before the generation is told to have begun. */
static void hold_or_hear(struct seat *s, enum wire_message number, const json_t *body)
{
    struct crew *c = s->crew;
    if (number != CREW_OUTPUT && !is_present(s, body))
        return;
    if (c->asked[ASK_UNDO])
        return; /* it has never begun */
    if (c->asked[ASK_SPAWN])
        json_array_append_new(c->held, json_pack("[i, i, O]", s->node, (int)number, body));
    else
        hear_rank(s, number, body);
}

void crew_hear_held(struct crew *c)
{
    json_t *held = c->held, *entry;
    size_t i;
    c->held = json_array();
    json_array_foreach(held, i, entry)
    {
        struct seat *s = &c->seats[json_integer_value(json_array_get(entry, 0))];
        if (!c->closed)
            hear_rank(s, (enum wire_message)json_integer_value(json_array_get(entry, 1)),
                      json_array_get(entry, 2));
    }
    json_decref(held);
}

static void hear_relay(struct seat *from, const json_t *body)
{
    struct crew *c = from->crew;
    json_t *line = json_object_get(body, "line");
    if (!is_present(from, body))
        return;
    for (int i = 1; i < c->o.nodes; i++)
        if (&c->seats[i] != from)
            crew_tell(&c->seats[i], CREW_RELAYED,
                      json_pack("{s:i, s:O}", "generation", c->generation, "line", line), NULL);
    c->hooks.relay(c->hooks.arg, line);
}

/* The clock is looked up when the page has changed, not when it is looked at: a page that stands
 * still must look so. */
static void hear_pages(struct seat *s, const json_t *body)
{
    struct crew *c = s->crew;
    struct err err = {0};
    size_t i;
    const json_t *row;
    if (!is_present(s, body) || c->generation == 0)
        return;
    json_array_foreach(json_object_get(body, "ranks"), i, row)
    {
        int rank = page_feed_rank(row);
        if (rank < s->first_rank || rank >= s->first_rank + s->ranks)
            continue;
        struct far_rank *f = c->far[rank];
        if (page_feed_take(&f->seen, row, &err) < 0)
            log_warn(NULL, "%s, rank %d: %s", s->name, rank, err.text);
        if (f->ended)
            f->seen.pid = 0;
        if (json_array_size(json_object_get(row, "blocks")) > 0)
            crew_link_clock(s->link, &f->add_ns);
    }
}

/* --- of its machine -------------------------------------------------------------------------- */

static void hear_notice(struct seat *s, const json_t *body)
{
    char reason[200];
    const int64_t grace_ms = int_of(body, "grace_ms");
    snprintf(reason, sizeof(reason), "%s", json_string_value(json_object_get(body, "reason")));
    err_make_printable(reason);
    s->crew->hooks.notice(s->crew->hooks.arg, s->node, reason, grace_ms > 0 ? grace_ms : 0);
}

static void hear_gpu(struct seat *s, const json_t *body)
{
    char text[240], line[160];
    const int rank = rank_of(s, body);
    snprintf(text, sizeof(text), "%s", json_string_value(json_object_get(body, "text")));
    snprintf(line, sizeof(line), "%s", json_string_value(json_object_get(body, "line")));
    err_make_printable(text);
    err_make_printable(line);
    if (rank >= 0)
        s->crew->hooks.gpu(s->crew->hooks.arg, s->node,
                           &(struct gpu_event){
                               .uuid = json_string_value(json_object_get(body, "gpu")),
                               .rank = rank,
                               .xid = (int)int_of(body, "xid"),
                               .fault = json_is_true(json_object_get(body, "fault")),
                               .text = text,
                               .line = line});
}

void crew_hear(struct seat *s, enum wire_message number, const json_t *body)
{
    switch ((int)number) {
    case CREW_JOIN:
        hear_join(s, body);
        break;
    case CREW_PREPARED:
        hear_prepared(s, body);
        break;
    case CREW_KEPT:
        hear_kept(s, body);
        break;
    case CREW_SPAWNED:
        hear_spawned(s, body);
        break;
    case CREW_SWEPT:
        hear_swept(s, body);
        break;
    case CREW_NCCL:
        hear_nccl(s, body);
        break;
    case CREW_INSPECTED:
        hear_inspected(s, body);
        break;
    case CREW_EXITED:
    case CREW_LINE:
    case CREW_OUTPUT:
        hold_or_hear(s, number, body);
        break;
    case CREW_RELAY:
        hear_relay(s, body);
        break;
    case CREW_PAGES:
        hear_pages(s, body);
        break;
    case CREW_NOTICE:
        hear_notice(s, body);
        break;
    case CREW_GPU:
        hear_gpu(s, body);
        break;
    default:
        break;
    }
}
