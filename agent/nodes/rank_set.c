/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set.c - see rank_set.h; what differs with several nodes is rank_set_nodes.c */
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

/* --- from this node ------------------------------------------------------------------------ */

static void on_exited(void *arg, const struct agent_exit *e)
{
    struct world *w = arg;
    if (w->crew)
        world_nodes_exited(w, e);
    else
        w->hooks.exited(w->hooks.arg, e);
}

static void on_line(void *arg, int generation, int rank, const json_t *line)
{
    struct world *w = arg;
    if (w->starting == generation)
        held_line(&w->held, generation, rank, line);
    else
        w->hooks.line(w->hooks.arg, generation, rank, line);
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct world *w = arg;
    w->hooks.output(w->hooks.arg, rank, bytes, size);
}

static void on_relay(void *arg, int generation, const json_t *line)
{
    struct world *w = arg;
    (void)generation;
    if (w->crew)
        crew_relay(w->crew, line);
}

static void on_swept_here(void *arg, bool clean, const char *left)
{
    struct world *w = arg;
    if (w->crew)
        world_nodes_swept(w, crew_name(w->crew, 0), clean, left);
    else
        w->hooks.swept(w->hooks.arg, clean, left);
}

/* --- life ---------------------------------------------------------------------------------- */

int world_create(struct world **out, uv_loop_t *loop, const char *nonce,
                 const struct world_hooks *hooks, struct err *err)
{
    struct world *w = calloc(1, sizeof(*w));
    if (!w)
        return err_set(err, ERR_MEMORY, "no memory for the ranks");
    w->hooks = *hooks;
    w->loop = loop;
    w->starting = -1;
    if (ranks_create(&w->ranks, loop,
                     &(struct ranks_hooks){.exited = on_exited,
                                           .line = on_line,
                                           .output = on_output,
                                           .relay = on_relay,
                                           .arg = w},
                     err) < 0 ||
        broom_create(&w->broom, loop, nonce, on_swept_here, w, err) < 0) {
        world_destroy(w); /* the process ends: its loop never runs */
        return -1;
    }
    *out = w;
    return 0;
}

void world_close(struct world *w)
{
    if (!w)
        return;
    ranks_close(w->ranks);
    broom_close(w->broom);
    crew_close(w->crew);
}

void world_destroy(struct world *w)
{
    if (!w)
        return;
    ranks_destroy(w->ranks);
    broom_destroy(w->broom);
    crew_destroy(w->crew);
    world_nodes_destroy(w);
    free(w->pids);
    free(w);
}

int world_prepare(struct world *w, const struct ranks_job *job, const json_t *plan, struct err *err)
{
    const int np = (int)json_integer_value(json_object_get(plan, "np"));
    w->pids = calloc((size_t)(np > 0 ? np : 1), sizeof(*w->pids));
    if (!w->pids)
        return err_set(err, ERR_MEMORY, "no memory for %d ranks", np);
    w->np = np;
    ranks_set_job(w->ranks, job);
    w->keeps = job->snapshots;
    return w->crew ? world_nodes_prepare(w, plan, err) : 0;
}

struct crew *world_crew(const struct world *w)
{
    return w->crew;
}

/* --- doing --------------------------------------------------------------------------------- */

void world_start(struct world *w, struct launch_env *e)
{
    struct err err = {0};
    e->world_size = w->np;
    if (w->crew) {
        world_nodes_start(w, e);
        return;
    }
    struct keepsake_claim claims[KEEPSAKE_SETS];
    launch_env_recall(e, claims, ranks_claims(w->ranks, claims));
    int rc = ranks_start(w->ranks, e, w->pids, &err);
    w->hooks.started(w->hooks.arg, &(struct world_started){.generation = e->generation,
                                                           .pids = w->pids,
                                                           .snapshot_step = e->snapshot_step,
                                                           .text = rc < 0 ? err.text : NULL});
}

void world_control(struct world *w, const char *command)
{
    ranks_control(w->ranks, command);
    if (w->crew)
        crew_control(w->crew, command);
}

void world_signal(struct world *w, int signo)
{
    ranks_signal(w->ranks, signo);
    if (w->crew)
        crew_signal(w->crew, signo);
}

void world_sweep(struct world *w, int generation)
{
    w->sweeps = w->nodes ? 2 : 1; /* before all have come the others have nothing */
    w->clean = true;
    w->left[0] = '\0';
    w->starting = -1;
    w->asking = false;
    held_tell(&w->held, NULL);
    if (w->nodes)
        crew_sweep(w->crew, generation);
    broom_sweep(w->broom, generation);
}

void world_dismiss(struct world *w)
{
    if (w->crew)
        crew_bye(w->crew);
}

/* --- looking ------------------------------------------------------------------------------- */

int world_ranks(const struct world *w)
{
    return w->np;
}

bool world_is_here(const struct world *w, int rank)
{
    return !w->nodes || (rank >= 0 && rank < w->np && w->node_of[rank] == 0);
}

const char *world_where(const struct world *w, int rank)
{
    return w->nodes && rank >= 0 && rank < w->np ? crew_name(w->crew, w->node_of[rank]) : "";
}

/* While nothing comes from its node it may well be at work: as if a debugger held it. */
static int64_t look_far(const struct world *w, int rank, struct flight_page *page, char *state,
                        uint64_t *io_mib)
{
    int64_t pid = crew_look(w->crew, rank, page, state, io_mib);
    if (state && crew_silent_ms(w->crew, w->node_of[rank]) > SILENT_MS)
        *state = 't';
    return pid;
}

int64_t world_look(const struct world *w, int rank, struct flight_page *page, char *state,
                   uint64_t *io_mib)
{
    if (!world_is_here(w, rank))
        return look_far(w, rank, page, state, io_mib);
    int64_t pid = ranks_look(w->ranks, rank, page);
    /* A command's page is written by a child of its shell. */
    int64_t worker = page->pid ? (int64_t)page->pid : pid;
    if (state)
        *state = pid > 0 ? process_state(worker) : (char)0;
    if (io_mib)
        *io_mib = pid > 0 ? process_io_mib(worker) : 0;
    return pid;
}

int64_t *world_workers(const struct world *w, int first, int *n)
{
    int64_t *pids = ranks_workers(w->ranks, first);
    *n = pids ? ranks_count(w->ranks) : 0;
    return pids;
}

int world_inspect(struct world *w, int generation)
{
    if (!w->nodes)
        return 0;
    crew_inspect(w->crew, generation);
    int n = 0;
    for (int k = 1; k < w->n; k++)
        n += !w->nodes[k].lost;
    return n;
}

void world_phases(const struct world *w, int rank, struct agent_exit *e)
{
    if (world_is_here(w, rank))
        ranks_phases(w->ranks, rank, e);
    else
        crew_phases(w->crew, rank, e);
}

const char *world_last_lines(const struct world *w, int rank)
{
    return world_is_here(w, rank) ? ranks_last_lines(w->ranks, rank)
                                  : crew_last_lines(w->crew, rank);
}

const char *world_phase(const struct world *w, int rank)
{
    static struct flight_page page; /* 16 KiB; one thread */
    world_look(w, rank, &page, NULL, NULL);
    return page.pid ? flight_phase_name(flight_phase_of(&page)) : NULL;
}
