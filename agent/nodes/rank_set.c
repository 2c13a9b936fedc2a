/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set.c - see rank_set.h; the case of several nodes is in rank_set_nodes.c */
#include <stdlib.h>

#include "agent/nodes/deferred_events.h"
#include "agent/nodes/leader.h"
#include "agent/nodes/rank_set_internal.h"
#include "agent/os/process.h"
#include "agent/ranks/cleanup.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/ranks.h"
#include "agent/ranks/snapshot_memfds.h"
#include "engine/contract/err.h"
#include "engine/contract/flight.h"

enum { SILENT_MS = 2500 };

/* --- events of this node ------------------------------------------------------------------- */

static void on_exited(void *arg, const struct agent_exit *e)
{
    struct rank_set *w = arg;
    if (w->leader)
        rank_set_nodes_exited(w, e);
    else
        w->hooks.exited(w->hooks.arg, e);
}

static void on_line(void *arg, int generation, int rank, const json_t *line)
{
    struct rank_set *w = arg;
    if (w->starting == generation)
        deferred_events_line(&w->deferred, generation, rank, line);
    else
        w->hooks.line(w->hooks.arg, generation, rank, line);
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct rank_set *w = arg;
    w->hooks.output(w->hooks.arg, rank, bytes, size);
}

static void on_relay(void *arg, int generation, const json_t *line)
{
    struct rank_set *w = arg;
    (void)generation;
    if (w->leader)
        leader_broadcast(w->leader, line);
}

static void on_cleaned_here(void *arg, bool clean, const char *left)
{
    struct rank_set *w = arg;
    if (w->leader)
        rank_set_nodes_cleaned(w, leader_name(w->leader, 0), clean, left);
    else
        w->hooks.cleaned(w->hooks.arg, clean, left);
}

/* --- creation and release ------------------------------------------------------------------ */

int rank_set_create(struct rank_set **out, uv_loop_t *loop, const char *nonce,
                    const struct rank_set_hooks *hooks, struct err *err)
{
    struct rank_set *w = calloc(1, sizeof(*w));
    if (!w)
        return err_set(err, ERR_MEMORY, "no memory for the ranks");
    w->hooks = *hooks;
    w->loop = loop;
    w->starting = -1;
    if (ranks_create(&w->ranks, loop,
                     &(struct ranks_hooks){.exited = on_exited,
                                           .line = on_line,
                                           .output = on_output,
                                           .broadcast = on_relay,
                                           .arg = w},
                     err) < 0 ||
        cleanup_create(&w->cleanup, loop, nonce, on_cleaned_here, w, err) < 0) {
        rank_set_destroy(w); /* only at process exit: the loop never runs */
        return -1;
    }
    *out = w;
    return 0;
}

void rank_set_close(struct rank_set *w)
{
    if (!w)
        return;
    ranks_close(w->ranks);
    cleanup_close(w->cleanup);
    leader_close(w->leader);
}

void rank_set_destroy(struct rank_set *w)
{
    if (!w)
        return;
    ranks_destroy(w->ranks);
    cleanup_destroy(w->cleanup);
    leader_destroy(w->leader);
    rank_set_nodes_destroy(w);
    free(w->pids);
    free(w);
}

int rank_set_prepare(struct rank_set *w, const struct ranks_job *job, const json_t *plan,
                     struct err *err)
{
    const int np = (int)json_integer_value(json_object_get(plan, "np"));
    w->pids = calloc((size_t)(np > 0 ? np : 1), sizeof(*w->pids));
    if (!w->pids)
        return err_set(err, ERR_MEMORY, "no memory for %d ranks", np);
    w->np = np;
    ranks_set_job(w->ranks, job);
    w->keeps = job->snapshots;
    return w->leader ? rank_set_nodes_prepare(w, plan, err) : 0;
}

struct leader *rank_set_leader(const struct rank_set *w)
{
    return w->leader;
}

/* --- commands ------------------------------------------------------------------------------ */

void rank_set_start(struct rank_set *w, struct launch_env *e)
{
    struct err err = {0};
    e->world_size = w->np;
    if (w->leader) {
        rank_set_nodes_start(w, e);
        return;
    }
    struct snapshot_memfds_claim claims[SNAPSHOT_MEMFDS_SETS];
    launch_env_recall(e, claims, ranks_claims(w->ranks, claims));
    int rc = ranks_start(w->ranks, e, w->pids, &err);
    w->hooks.started(w->hooks.arg, &(struct rank_set_started){.generation = e->generation,
                                                              .pids = w->pids,
                                                              .snapshot_step = e->snapshot_step,
                                                              .text = rc < 0 ? err.text : NULL});
}

void rank_set_control(struct rank_set *w, const char *command)
{
    ranks_control(w->ranks, command);
    if (w->leader)
        leader_control(w->leader, command);
}

void rank_set_signal(struct rank_set *w, int signo)
{
    ranks_signal(w->ranks, signo);
    if (w->leader)
        leader_signal(w->leader, signo);
}

void rank_set_cleanup(struct rank_set *w, int generation)
{
    w->cleanups =
        w->nodes ? 2 : 1; /* before all followers have joined there is nothing to clean up there */
    w->clean = true;
    w->left[0] = '\0';
    w->starting = -1;
    w->asking = false;
    deferred_events_tell(&w->deferred, NULL);
    if (w->nodes)
        leader_cleanup(w->leader, generation);
    cleanup_run(w->cleanup, generation);
}

void rank_set_dismiss(struct rank_set *w)
{
    if (w->leader)
        leader_shutdown(w->leader);
}

/* --- flight pages -------------------------------------------------------------------------- */

int rank_set_ranks(const struct rank_set *w)
{
    return w->np;
}

bool rank_set_is_here(const struct rank_set *w, int rank)
{
    return !w->nodes || (rank >= 0 && rank < w->np && w->node_of[rank] == 0);
}

const char *rank_set_where(const struct rank_set *w, int rank)
{
    return w->nodes && rank >= 0 && rank < w->np ? leader_name(w->leader, w->node_of[rank]) : "";
}

/* A silent node may still be at work: treated like a rank held by a debugger. */
static int64_t look_remote(const struct rank_set *w, int rank, struct flight_page *page,
                           char *state,
                           uint64_t *io_mib)
{
    int64_t pid = leader_look(w->leader, rank, page, state, io_mib);
    if (state && leader_silent_ms(w->leader, w->node_of[rank]) > SILENT_MS)
        *state = 't';
    return pid;
}

int64_t rank_set_look(const struct rank_set *w, int rank, struct flight_page *page, char *state,
                      uint64_t *io_mib)
{
    if (!rank_set_is_here(w, rank))
        return look_remote(w, rank, page, state, io_mib);
    int64_t pid = ranks_look(w->ranks, rank, page);
    /* A command's page is written by a child of its shell. */
    int64_t worker = page->pid ? (int64_t)page->pid : pid;
    if (state)
        *state = pid > 0 ? process_state(worker) : (char)0;
    if (io_mib)
        *io_mib = pid > 0 ? process_io_mib(worker) : 0;
    return pid;
}

int64_t *rank_set_workers(const struct rank_set *w, int first, int *n)
{
    int64_t *pids = ranks_workers(w->ranks, first);
    *n = pids ? ranks_count(w->ranks) : 0;
    return pids;
}

int rank_set_inspect(struct rank_set *w, int generation)
{
    if (!w->nodes)
        return 0;
    leader_inspect(w->leader, generation);
    int n = 0;
    for (int k = 1; k < w->n; k++)
        n += !w->nodes[k].lost;
    return n;
}

void rank_set_phases(const struct rank_set *w, int rank, struct agent_exit *e)
{
    if (rank_set_is_here(w, rank))
        ranks_phases(w->ranks, rank, e);
    else
        leader_phases(w->leader, rank, e);
}

const char *rank_set_last_lines(const struct rank_set *w, int rank)
{
    return rank_set_is_here(w, rank) ? ranks_last_lines(w->ranks, rank)
                                  : leader_last_lines(w->leader, rank);
}

const char *rank_set_phase(const struct rank_set *w, int rank)
{
    static struct flight_page page; /* 16 KiB; one thread */
    rank_set_look(w, rank, &page, NULL, NULL);
    return page.pid ? flight_phase_name(flight_phase_of(&page)) : NULL;
}
