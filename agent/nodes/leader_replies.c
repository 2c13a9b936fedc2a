/* SPDX-License-Identifier: Apache-2.0 */
/* leader_replies.c - handles messages of followers; see leader.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/monitor/gpu_watch.h"
#include "agent/nodes/leader_internal.h"
#include "agent/os/log.h"
#include "agent/wire/leader_wire.h"
#include "agent/wire/log_feed.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* A decoded text of any bytes (agent/wire/log_feed.h); free() it. NULL: none. */
static char *text_of(const json_t *body, const char *key)
{
    size_t size;
    const json_t *v = json_object_get(body, key);
    return json_is_string(v) ? log_feed_bytes(v, &size) : NULL;
}

static bool is_present(const struct follower_state *s, const json_t *body)
{
    return field_int(body, "generation", 0) == s->leader->generation;
}

/* The rank of a message, or -1: not a rank of this follower. */
static int rank_of(const struct follower_state *s, const json_t *body)
{
    int64_t rank = field_int(body, "rank", 0);
    return rank >= s->first_rank && rank < s->first_rank + s->ranks ? (int)rank : -1;
}

/* --- answers --------------------------------------------------------------------------------- */

static void hear_join(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    char here[BYTE_STREAM_ADDRESS], *ours = c->followers[0].address;
    const char *version = json_string_value(json_object_get(body, "version"));
    if (strcmp(version, c->version) != 0) {
        leader_lose(s,
                    "runs jobctl-agent %.40s, but the first node %.40s: install the same version "
                    "on all nodes",
                    version, c->version);
        return;
    }
    json_decref(s->facts);
    s->facts = json_incref(json_object_get(body, "facts"));
    json_decref(s->endpoint);
    s->endpoint = json_incref(json_object_get(body, "endpoint"));
    if (!node_channel_address(s->link, true, s->address))
        snprintf(s->address, sizeof(s->address), "%.45s", json_string_value(json_object_get(body, "address")));
    /* With nodes simulated on one machine this may be a loopback address; a follower elsewhere
     * knows a better one. */
    if ((!ours[0] || strncmp(ours, "127.", 4) == 0) && node_channel_address(s->link, false, here))
        memcpy(ours, here, sizeof(here));
    leader_answered(s, REQUEST_JOIN);
}

/* Appends a text of a node, with its name if there are others. */
static void note(const struct follower_state *s, char out[LEADER_TEXT], const char *text)
{
    const size_t n = strlen(out);
    const bool alone = s->leader->nodes == 1;
    snprintf(out + n, LEADER_TEXT - n, "%s%s%s%s", n ? "; " : "", alone ? "" : s->name, alone ? "" : ": ", text);
}

static void note_refusal(struct follower_state *s, const json_t *body)
{
    char *text = text_of(body, "text");
    if (text && !s->leader->text[0])
        note(s, s->leader->text, text);
    free(text);
}

static void hear_prepared(struct follower_state *s, const json_t *body)
{
    json_decref(s->preflight);
    s->preflight = json_incref(json_object_get(body, "preflight"));
    note_refusal(s, body);
    leader_answered(s, REQUEST_PREPARE);
}

static void hear_spawned(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    size_t i;
    const json_t *pid;
    if (!is_present(s, body) || !s->owes[REQUEST_SPAWN])
        return;
    json_array_foreach(json_object_get(body, "pids"), i, pid)
    {
        size_t rank = (size_t)s->first_rank + i;
        if (c->generation == 0 || i >= (size_t)s->ranks)
            break;
        c->pids[rank] = json_integer_value(pid);
        if (c->remote[rank] && !c->remote[rank]->ended && c->remote[rank]->seen.pid == 0)
            c->remote[rank]->seen.pid = c->pids[rank];
    }
    note_refusal(s, body);
    leader_answered(s, REQUEST_SPAWN);
}

static void receive_cleaned(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    char *left = text_of(body, "left");
    const bool present = field_int(body, "generation", 0) == c->cleaning;
    const bool clean = field_true(body, "clean");
    if (present && s->owes[REQUEST_CLEANUP] && (!clean || (left && left[0]))) {
        c->clean = c->clean && clean;
        note(s, c->left, left ? left : "?");
    }
    free(left);
    if (present)
        leader_answered(s, s->owes[REQUEST_UNDO] ? REQUEST_UNDO : REQUEST_CLEANUP);
}

static int read_claims(struct snapshot_memfds_claim out[SNAPSHOT_MEMFDS_SETS], const json_t *sets)
{
    size_t i;
    const json_t *set;
    int n = 0;
    json_array_foreach(sets, i, set)
    {
        if (n < SNAPSHOT_MEMFDS_SETS)
            out[n++] = (struct snapshot_memfds_claim){(int)json_integer_value(json_array_get(set,
                                                                                             0)),
                                                      json_integer_value(json_array_get(set, 1))};
    }
    return n;
}

static void receive_snapshots(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    struct snapshot_memfds_claim claims[SNAPSHOT_MEMFDS_SETS];
    if (!s->owes[REQUEST_SNAPSHOTS] || field_int(body, "generation", 0) != c->env.generation)
        return;
    const int n = read_claims(claims, json_object_get(body, "sets"));
    if (c->kept.heard++ == 0) {
        memcpy(c->kept.common, claims, (size_t)n * sizeof(*claims));
        c->kept.n = n;
    } else {
        c->kept.n = snapshot_memfds_common(c->kept.common, c->kept.n, claims, n);
    }
    leader_answered(s, REQUEST_SNAPSHOTS);
}

static void hear_inspected(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    char *text = text_of(body, "text");
    if (s->owes[REQUEST_INSPECT]) {
        leader_answered(s, REQUEST_INSPECT);
        c->hooks.stacks(c->hooks.arg, s->node, text ? text : "");
    }
    free(text);
}

static void hear_nccl(struct follower_state *s, const json_t *body)
{
    const struct leader *c = s->leader;
    if (is_present(s, body))
        c->hooks.nccl(c->hooks.arg, s->node, json_object_get(body, "body"));
}

/* --- from ranks ------------------------------------------------------------------------------ */

static void hear_exited(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    const int rank = rank_of(s, body);
    if (!is_present(s, body) || (c->generation > 0 && rank < 0))
        return;
    if (c->generation == 0) {
        leader_setup_ended(s, body);
        return;
    }
    if (c->remote[rank]) {
        c->remote[rank]->ended = true;
        c->remote[rank]->seen.pid = 0;
    }
    leader_tell_exit(s, rank, body);
}

static void hear_output(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    size_t size;
    int rank = rank_of(s, body);
    char *bytes = rank < 0 ? NULL : log_feed_bytes(json_object_get(body, "data"), &size);
    if (bytes)
        c->hooks.output(c->hooks.arg, rank, bytes, size);
    free(bytes);
}

static void hear_line(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    const int rank = is_present(s, body) ? rank_of(s, body) : -1;
    if (rank >= 0)
        c->hooks.line(c->hooks.arg, c->generation, rank, json_object_get(body, "line"), json_object_get(body, "spent"));
}

static void hear_relay(struct follower_state *from, const json_t *body)
{
    struct leader *c = from->leader;
    for (int i = 0; i < c->nodes && is_present(from, body); i++)
        if (&c->followers[i] != from)
            leader_send(&c->followers[i], NODE_DELIVER,
                        json_make("{s:i, s:O}", "generation", c->generation, "line",
                                  json_object_get(body, "line")), NULL);
}

/* The clock is converted when a page changes, not when it is read, so that a page without
 * progress stays unchanged. */
static void receive_pages(struct follower_state *s, const json_t *body)
{
    struct leader *c = s->leader;
    struct err err = {0};
    size_t i;
    const json_t *row;
    if (!is_present(s, body) || c->generation == 0)
        return;
    json_array_foreach(json_object_get(body, "ranks"), i, row)
    {
        int rank = page_feed_rank(row);
        if (rank < s->first_rank || rank >= s->first_rank + s->ranks || !c->remote[rank])
            continue;
        struct remote_rank *f = c->remote[rank];
        if (page_feed_take(&f->seen, row, &err) < 0)
            log_warn(NULL, "%s, rank %d: %s", s->name, rank, err.text);
        if (f->ended)
            f->seen.pid = 0;
        if (json_array_size(json_object_get(row, "blocks")) > 0)
            node_channel_clock(s->link, &f->add_ns);
    }
}

/* --- from its machine ------------------------------------------------------------------------ */

static void hear_notice(struct follower_state *s, const json_t *body)
{
    char reason[200];
    const int64_t grace_ms = field_int(body, "grace_ms", 0);
    snprintf(reason, sizeof(reason), "%s", json_string_value(json_object_get(body, "reason")));
    err_make_printable(reason);
    s->leader->hooks.notice(s->leader->hooks.arg, s->node, reason, grace_ms > 0 ? grace_ms : 0);
}

static void hear_gpu(struct follower_state *s, const json_t *body)
{
    char text[240], line[160];
    const int rank = rank_of(s, body);
    snprintf(text, sizeof(text), "%s", json_string_value(json_object_get(body, "text")));
    snprintf(line, sizeof(line), "%s", json_string_value(json_object_get(body, "line")));
    err_make_printable(text);
    err_make_printable(line);
    if (rank >= 0)
        s->leader->hooks.gpu(s->leader->hooks.arg, s->node,
                             &(struct gpu_event){
                               .uuid = json_string_value(json_object_get(body, "gpu")),
                               .rank = rank,
                               .xid = (int)field_int(body, "xid", 0),
                               .fault = field_true(body, "fault"),
                               .text = text,
                               .line = line});
}

static void hear_leased(struct follower_state *s, const json_t *body)
{
    const struct leader *c = s->leader;
    json_t *gpus = json_object_get(body, "gpus");
    char *text = text_of(body, "text");
    if (text)
        err_make_printable(text);
    if (gpus && s->facts)
        json_object_set(s->facts, "gpus", gpus);
    if (c->hooks.leased)
        c->hooks.leased(c->hooks.arg, s->node, (int)field_int(body, "round", 0), field_true(body, "holds"), text);
    free(text);
}

/* --- all messages ---------------------------------------------------------------------------- */

static const struct row {
    enum wire_message number;
    bool              of_rank; /* waits until its generation has been announced */
    void (*receive)(struct follower_state *s, const json_t *body);
} rows[] = {
    {NODE_JOIN, false, hear_join},
    {NODE_PREPARED, false, hear_prepared},
    {NODE_SNAPSHOTS, false, receive_snapshots},
    {NODE_SPAWNED, false, hear_spawned},
    {NODE_CLEANED, false, receive_cleaned},
    {NODE_INSPECTED, false, hear_inspected},
    {NODE_NCCL, false, hear_nccl},
    {NODE_EXITED, true, hear_exited},
    {NODE_LINE, true, hear_line},
    {NODE_OUTPUT, true, hear_output},
    {NODE_BROADCAST, false, hear_relay},
    {NODE_PAGES, false, receive_pages},
    {NODE_NOTICE, false, hear_notice},
    {NODE_GPU, false, hear_gpu},
    {NODE_LEASED, false, hear_leased},
};

/* A generation that is undone has no events. */
static void defer_or_receive(struct follower_state *s, size_t row, const json_t *body)
{
    struct leader *c = s->leader;
    if (c->asked[REQUEST_SPAWN])
        json_array_append_new(c->deferred, json_make("[i, i, O]", s->node, (int)row, body));
    else if (!c->asked[REQUEST_UNDO])
        rows[row].receive(s, body);
}

void leader_receive(struct follower_state *s, enum wire_message number, const json_t *body)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].number == number && rows[i].of_rank)
            defer_or_receive(s, i, body);
        else if (rows[i].number == number)
            rows[i].receive(s, body);
}

void leader_receive_deferred(struct leader *c)
{
    json_t *deferred = c->deferred, *entry;
    size_t i;
    c->deferred = json_array();
    json_array_foreach(deferred, i, entry)
    {
        struct follower_state *s = &c->followers[json_integer_value(json_array_get(entry, 0))];
        if (!c->closed)
            rows[json_integer_value(json_array_get(entry, 1))].receive(s, json_array_get(entry, 2));
    }
    json_decref(deferred);
}
