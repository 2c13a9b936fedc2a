/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set_nodes.c - combines several nodes: requests to all, one answer; see rank_set.h */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/nodes/deferred_events.h"
#include "agent/nodes/leader.h"
#include "agent/nodes/rank_set_internal.h"
#include "agent/os/buf.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/ranks.h"
#include "agent/ranks/snapshot_memfds.h"
#include "engine/contract/err.h"
#include "engine/contract/flight.h"

static void tell_exit(struct rank_set *w, const struct agent_exit *e, int node)
{
    struct agent_exit named = *e;
    named.node = leader_name(w->leader, node);
    w->hooks.exited(w->hooks.arg, &named);
}

/* --- the setup: once on each node ------------------------------------------------------------ */

static void tell_setup(void *arg, const struct agent_exit *e)
{
    struct rank_set *w = arg;
    tell_exit(w, e, e->rank);
}

/* e->rank: the node.  After one failure the others are not needed. */
static void setup_ended(struct rank_set *w, const struct agent_exit *e)
{
    const bool failed = e->signalled || e->exit_code != 0;
    if (w->setups == 0)
        return;
    w->setups--;
    if (failed && !w->setup_failed)
        deferred_events_tell(&w->setup, NULL);
    if (!w->setup_failed && (failed || w->setups == 0))
        deferred_events_exit(&w->setup, e);
    if (failed && !w->setup_failed) {
        w->setup_failed = true;
        ranks_signal(w->ranks, SIGKILL);
        leader_signal(w->leader, SIGKILL);
    }
    if (w->setups == 0)
        deferred_events_tell(&w->setup,
                             &(struct deferred_events_hooks){.exited = tell_setup, .arg = w});
}

/* --- starting ------------------------------------------------------------------------------- */

static void tell_started(struct rank_set *w, const char *text)
{
    const int generation = w->starting;
    w->starting = -1;
    for (int r = 0; r < w->np && !text && generation > 0; r++)
        if (w->node_of[r] > 0)
            w->pids[r] = leader_pid(w->leader, r);
    if (text && generation == 0) {
        ranks_signal(w->ranks, SIGKILL);
        w->setups = 0;
    }
    w->hooks.started(w->hooks.arg, &(struct rank_set_started){.generation = generation,
                                                              .pids = w->pids,
                                                              .snapshot_step = w->snapshot_step,
                                                              .text = text});
    /* Delivers the deferred events, unless the start failed. */
    deferred_events_tell(&w->deferred, text ? NULL
                             : &(struct deferred_events_hooks){.exited = w->hooks.exited,
                                                               .line = w->hooks.line,
                                                               .arg = w->hooks.arg});
}

static void on_spawned(void *arg, int generation, const char *text)
{
    struct rank_set *w = arg;
    if (w->starting == generation)
        tell_started(w, w->trouble[0] ? w->trouble : text);
}

static int list_spawns(const struct rank_set *w, struct leader_spawn *out)
{
    int n = 0;
    for (int k = 1; k < w->n; k++)
        if (!w->nodes[k].lost)
            out[n++] = (struct leader_spawn){k, w->nodes[k].first, w->nodes[k].ranks};
    return n;
}

/* The fields equal on all nodes, then those of this node. */
static int fill_env(const struct rank_set *w, struct launch_env *e, struct err *err)
{
    e->nodes = w->n;
    e->node_ranks = w->node_ranks;
    e->node_rank = 0;
    e->first_rank = 0;
    e->local_ranks = w->nodes[0].ranks;
    e->master_addr = e->node_addr = leader_address(w->leader, 0);
    if (e->generation > 0 && (e->master_port = launch_env_free_port(err)) < 0)
        return -1;
    return 0;
}

/* Starts on all nodes, in the same turn of the loop. */
static void start_all(struct rank_set *w, struct launch_env *e)
{
    struct err err = {0};
    struct leader_spawn *where = calloc((size_t)w->n, sizeof(*where));
    if (!where)
        err_set(&err, ERR_MEMORY, "no memory to start ranks on %d nodes", w->n);
    if (!where || fill_env(w, e, &err) < 0) { /* no request was sent */
        tell_started(w, err.text);
        free(where);
        return;
    }
    leader_spawn(w->leader, e, where, list_spawns(w, where));
    free(where);
    if (ranks_start(w->ranks, e, w->pids, &err) < 0)
        snprintf(w->trouble, sizeof(w->trouble), "%s: %.200s", leader_name(w->leader, 0), err.text);
    w->snapshot_step = e->snapshot_step;
}

/* A snapshot is complete only if all nodes have it. */
static void on_kept(void *arg, int generation, const struct snapshot_memfds_claim *others, int n)
{
    struct rank_set *w = arg;
    struct snapshot_memfds_claim claims[SNAPSHOT_MEMFDS_SETS];
    if (!w->asking || w->starting != generation)
        return;
    w->asking = false;
    n = snapshot_memfds_common(claims, ranks_claims(w->ranks, claims), others, n);
    launch_env_recall(&w->next, claims, n);
    start_all(w, &w->next);
}

void rank_set_nodes_start(struct rank_set *w, struct launch_env *e)
{
    deferred_events_tell(&w->deferred, NULL);
    deferred_events_tell(&w->setup, NULL);
    w->starting = e->generation;
    w->setups = e->generation == 0 ? w->n : 0;
    w->setup_failed = false;
    w->trouble[0] = '\0';
    w->asking = w->keeps && e->generation > 1;
    w->next = *e;
    if (w->asking)
        leader_ask_snapshots(w->leader, e->generation);
    else
        start_all(w, &w->next);
}

/* --- events --------------------------------------------------------------------------------- */

void rank_set_nodes_exited(struct rank_set *w, const struct agent_exit *e)
{
    struct agent_exit named = *e;
    named.node = leader_name(w->leader, 0);
    if (e->generation == 0)
        setup_ended(w, &named);
    else if (w->starting == e->generation)
        deferred_events_exit(&w->deferred, &named);
    else
        w->hooks.exited(w->hooks.arg, &named);
}

static void on_exited(void *arg, const struct agent_exit *e)
{
    struct rank_set *w = arg;
    if (e->generation == 0)
        setup_ended(w, e);
    else if (e->rank >= 0 && e->rank < w->np)
        tell_exit(w, e, w->node_of[e->rank]);
}

static void on_line(void *arg, int generation, int rank, const json_t *line)
{
    struct rank_set *w = arg;
    w->hooks.line(w->hooks.arg, generation, rank, line);
}

static void on_relay(void *arg, const json_t *line)
{
    struct rank_set *w = arg;
    ranks_broadcast(w->ranks, line);
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct rank_set *w = arg;
    w->hooks.output(w->hooks.arg, rank, bytes, size);
}

static void on_nccl(void *arg, int node, const json_t *body)
{
    struct rank_set *w = arg;
    w->hooks.nccl(w->hooks.arg, node, body);
}

static void on_inspected(void *arg, int node, const char *text)
{
    struct rank_set *w = arg;
    w->hooks.inspected(w->hooks.arg, node, text);
}

/* --- cleanup -------------------------------------------------------------------------------- */

void rank_set_nodes_cleaned(struct rank_set *w, const char *who, bool clean, const char *left)
{
    const size_t n = strlen(w->left);
    if (w->cleanups == 0)
        return;
    if (!clean)
        snprintf(w->left + n, sizeof(w->left) - n, "%s%s%s%.250s", n ? "; " : "", who ? who : "",
                 who ? ": " : "", left);
    w->clean = w->clean && clean;
    if (--w->cleanups == 0)
        w->hooks.cleaned(w->hooks.arg, w->clean, w->left);
}

static void on_swept(void *arg, bool clean, const char *left)
{
    rank_set_nodes_cleaned(arg, NULL, clean, left);
}

/* --- joining and losing nodes --------------------------------------------------------------- */

static void on_gathered(void *arg)
{
    struct rank_set *w = arg;
    w->hooks.gathered(w->hooks.arg);
}

static void on_prepared(void *arg, const char *refusal)
{
    struct rank_set *w = arg;
    w->hooks.prepared(w->hooks.arg, refusal);
}

/* Adds the last known phase of the first of its ranks. */
static void add_last_seen(const struct rank_set *w, const struct rank_set_node *node, char *text,
                          size_t size)
{
    static struct flight_page page; /* 16 KiB; one thread */
    const size_t n = strlen(text);
    leader_look(w->leader, node->first, &page, NULL, NULL);
    if (page.pid)
        snprintf(text + n, size - n, "; rank %d there was last seen in %s of step %" PRIu64,
                 node->first, flight_phase_name(flight_phase_of(&page)), flight_step(&page) + 1);
}

static void on_lost(void *arg, int node, const char *text)
{
    struct rank_set *w = arg;
    char all[300];
    struct agent_lost l = {
        .node = node, .name = leader_name(w->leader, node), .text = all, .first_rank = -1};
    snprintf(all, sizeof(all), "%.200s", text);
    if (w->nodes && node > 0 && node < w->n) {
        l.first_rank = w->nodes[node].first;
        l.ranks = w->nodes[node].ranks;
        w->nodes[node].lost = true;
        add_last_seen(w, &w->nodes[node], all, sizeof(all));
    }
    w->hooks.lost(w->hooks.arg, &l);
}

static void on_notice(void *arg, int node, const char *reason, int64_t grace_ms)
{
    struct rank_set *w = arg;
    w->hooks.notice(w->hooks.arg, node, reason, grace_ms);
}

static void on_gpu(void *arg, int node, const struct gpu_event *e)
{
    struct rank_set *w = arg;
    w->hooks.gpu(w->hooks.arg, node, e);
}

int rank_set_gather(struct rank_set *w, const struct leader_options *o, struct err *err)
{
    const struct leader_hooks hooks = {.gathered = on_gathered,
                                       .prepared = on_prepared,
                                       .kept = on_kept,
                                       .spawned = on_spawned,
                                       .exited = on_exited,
                                       .line = on_line,
                                       .broadcast = on_relay,
                                       .output = on_output,
                                       .cleaned = on_swept,
                                       .inspected = on_inspected,
                                       .nccl = on_nccl,
                                       .lost = on_lost,
                                       .notice = on_notice,
                                       .gpu = on_gpu,
                                       .arg = w};
    w->n = o->nodes;
    return leader_open(&w->leader, w->loop, o, &hooks, err);
}

/* Counts the ranks of each node in the plan, and finds the first one. */
static void place_ranks(struct rank_set *w, const json_t *plan)
{
    size_t r;
    const json_t *rank;
    json_array_foreach(json_object_get(plan, "ranks"), r, rank)
    {
        const int k = (int)json_integer_value(json_object_get(rank, "node"));
        if (r >= (size_t)w->np || k < 0 || k >= w->n)
            return;
        w->node_of[r] = k;
        if (w->nodes[k].ranks++ == 0)
            w->nodes[k].first = (int)r;
    }
}

int rank_set_nodes_prepare(struct rank_set *w, const json_t *plan, struct err *err)
{
    struct buf list;
    buf_init(&list);
    w->nodes = calloc((size_t)w->n, sizeof(*w->nodes));
    w->node_of = calloc((size_t)w->np, sizeof(*w->node_of));
    if (w->nodes && w->node_of)
        place_ranks(w, plan);
    for (int k = 0; k < w->n && w->nodes; k++)
        buf_print(&list, "%s%d", k ? "," : "", w->nodes[k].ranks);
    w->node_ranks = buf_take(&list);
    buf_fini(&list);
    return w->nodes && w->node_of && w->node_ranks
               ? 0
               : err_set(err, ERR_MEMORY, "no memory for ranks on %d nodes", w->n);
}

void rank_set_nodes_destroy(struct rank_set *w)
{
    deferred_events_tell(&w->deferred, NULL);
    deferred_events_tell(&w->setup, NULL);
    free(w->nodes);
    free(w->node_of);
    free(w->node_ranks);
}
