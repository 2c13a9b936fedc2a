/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - see world.h */
#include "agent/world.h"

#include <stdlib.h>

#include "agent/broom.h"
#include "agent/launch_env.h"
#include "agent/process.h"
#include "agent/ranks.h"
#include "engine/err.h"
#include "engine/flight.h"

struct world {
    struct world_hooks hooks;
    struct ranks      *ranks; /* those here */
    struct broom      *broom;
    int                np;
    int64_t           *pids;
};

/* --- from this node ------------------------------------------------------------------------ */

static void on_exited(void *arg, const struct agent_exit *e)
{
    struct world *w = arg;
    w->hooks.exited(w->hooks.arg, e);
}

static void on_line(void *arg, int generation, int rank, const json_t *line)
{
    struct world *w = arg;
    w->hooks.line(w->hooks.arg, generation, rank, line);
}

static void on_output(void *arg, int rank, const char *bytes, size_t size)
{
    struct world *w = arg;
    w->hooks.output(w->hooks.arg, rank, bytes, size);
}

static void on_swept_here(void *arg, bool clean, const char *left)
{
    struct world *w = arg;
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
    if (ranks_create(&w->ranks, loop,
                     &(struct ranks_hooks){.exited = on_exited,
                                           .line = on_line,
                                           .output = on_output,
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
}

void world_destroy(struct world *w)
{
    if (!w)
        return;
    ranks_destroy(w->ranks);
    broom_destroy(w->broom);
    free(w->pids);
    free(w);
}

int world_prepare(struct world *w, const struct ranks_job *job, int np, struct err *err)
{
    w->pids = calloc((size_t)(np > 0 ? np : 1), sizeof(*w->pids));
    if (!w->pids)
        return err_set(err, ERR_MEMORY, "no memory for %d ranks", np);
    w->np = np;
    ranks_set_job(w->ranks, job);
    return 0;
}

/* --- doing --------------------------------------------------------------------------------- */

void world_start(struct world *w, struct launch_env *e)
{
    struct err err = {0};
    e->world_size = w->np;
    int rc = ranks_start(w->ranks, e, w->pids, &err);
    w->hooks.started(w->hooks.arg, &(struct world_started){.generation = e->generation,
                                                           .pids = w->pids,
                                                           .snapshot_step = e->snapshot_step,
                                                           .text = rc < 0 ? err.text : NULL});
}

void world_control(struct world *w, const char *command)
{
    ranks_control(w->ranks, command);
}

void world_signal(struct world *w, int signo)
{
    ranks_signal(w->ranks, signo);
}

void world_sweep(struct world *w, int generation)
{
    broom_sweep(w->broom, generation);
}

/* --- looking ------------------------------------------------------------------------------- */

int world_ranks(const struct world *w)
{
    return w->np;
}

int64_t world_look(const struct world *w, int rank, struct flight_page *page, char *state,
                   uint64_t *io_mib)
{
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
    *n = pids ? w->np : 0;
    return pids;
}

const char *world_last_lines(const struct world *w, int rank)
{
    return ranks_last_lines(w->ranks, rank);
}

const char *world_phase(const struct world *w, int rank)
{
    static struct flight_page page; /* 16 KiB; one thread */
    world_look(w, rank, &page, NULL, NULL);
    return page.pid ? flight_phase_name(flight_phase_of(&page)) : NULL;
}
