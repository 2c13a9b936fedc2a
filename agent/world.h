/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - all ranks of a generation, wherever they are
 *
 * What the attempt starts, watches, signals and sweeps.  With one node it is agent/ranks.h and
 * agent/broom.h, and world_start() has its answer before it returns.
 */
#ifndef AGENT_WORLD_H
#define AGENT_WORLD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct agent_exit;
struct err;
struct flight_page;
struct launch_env;
struct ranks_job;
struct world;

/* Generation 0 is the setup. */
struct world_started {
    int            generation;
    const int64_t *pids;          /* of each rank */
    int64_t        snapshot_step; /* what they go on from in memory; 0: a checkpoint */
    const char    *text;          /* NULL, or why not: what there is of it wants sweeping */
};

struct world_hooks {
    void (*started)(void *arg, const struct world_started *s); /* answers world_start() */
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    void (*output)(void *arg, int rank, const char *bytes, size_t size); /* not the setup's */
    void (*swept)(void *arg, bool clean, const char *left);    /* answers world_sweep() */
    void *arg;
};

/* `nonce` must outlive it. */
int world_create(struct world **out, uv_loop_t *loop, const char *nonce,
                 const struct world_hooks *hooks, struct err *err);
/* Closes the handles; run the loop once more before world_destroy().  NULL is fine for both. */
void world_close(struct world *w);
void world_destroy(struct world *w);

/* Before the first start: what runs (agent/ranks.h), and how many ranks. */
int world_prepare(struct world *w, const struct ranks_job *job, int np, struct err *err);

/* Start generation e->generation, 0: the setup. */
void world_start(struct world *w, struct launch_env *e);

/* {"cmd":"..."} to every living rank; a signal to the process group of each. */
void world_control(struct world *w, const char *command);
void world_signal(struct world *w, int signo);

/* End all that is ours of a generation, 0: of the attempt. */
void world_sweep(struct world *w, int generation);

/* --- looking ----------------------------------------------------------------------------- */

int world_ranks(const struct world *w);

/* What a rank's flight page shows (pid 0 when it has never attached), and, where not NULL, the
 * letter and the I/O of the process that writes it (agent/process.h; 0: not known).  Returns the
 * rank's process, 0 when that has ended. */
int64_t world_look(const struct world *w, int rank, struct flight_page *page, char *state,
                   uint64_t *io_mib);

/* The processes of this node that write the pages, that of rank `first` (if any) first, 0 at the end;
 * the caller frees it, NULL when memory ran out. */
int64_t *world_workers(const struct world *w, int first, int *n);

/* The last lines of a rank's output, or "". */
const char *world_last_lines(const struct world *w, int rank);

/* The name of the phase that a rank's page shows, or NULL when it has never attached. */
const char *world_phase(const struct world *w, int rank);

#endif
