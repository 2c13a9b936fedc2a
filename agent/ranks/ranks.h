/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - the processes of a generation (or of the setup) on this node: start, listen, tell, signal
 *
 * Numbers are those of all nodes: a node that has ranks 4 to 7 speaks of them so, and of no other.
 *
 * Each has its own session, its output captured in RUN_DIR/rank<N>.log (the
 * setup's in setup.log), a pipe for its lines, one for commands, and a flight
 * page.  A death is seen by SIGCHLD, and what the process had still written is
 * read before it is told.  As their subreaper this process also reaps whatever
 * its children leave behind.
 */
#ifndef AGENT_RANKS_RANKS_H
#define AGENT_RANKS_RANKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct agent_exit;
struct err;
struct flight_page;
struct snapshot_memfds_claim;
struct launch_env;
struct ranks;

struct ranks_hooks {
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    void (*output)(void *arg, int rank, const char *bytes, size_t size); /* not the setup's */
    /* What a rank says to all others; those on this node have been told. NULL: there are no others. */
    void (*broadcast)(void *arg, int generation, const json_t *line);
    void *arg;
};

/* Where and what; all texts must outlive the ranks. */
struct ranks_job {
    const char        *run_dir;
    const char        *workdir;
    const char *const *argv;      /* of a rank */
    const char *const *setup_argv; /* or NULL */
    bool               snapshots;  /* ranks get memory that outlives them (snapshot_memfds.h) */
};

int ranks_create(struct ranks **out, uv_loop_t *loop, const struct ranks_hooks *hooks,
                 struct err *err);
/* Closes the handles; run the loop once more before ranks_destroy(). */
void ranks_close(struct ranks *r);
void ranks_destroy(struct ranks *r);

void ranks_set_job(struct ranks *r, const struct ranks_job *job);

/* What earlier generations left in memory here (SNAPSHOT_MEMFDS_SETS of snapshot_memfds.h at most);
 * returns how many. */
int ranks_claims(const struct ranks *r, struct snapshot_memfds_claim *out);

/* Start generation e->generation of launch_env_local(e) processes (0: the setup, one); pids gets them.
 * With e->keep those of the last generation that live have parted (engine/train/rejoin.h) and go
 * on. On failure those already started are killed and reaped, and nothing is told of them. */
int ranks_start(struct ranks *r, struct launch_env *e, int64_t *pids, struct err *err);

/* {"cmd":"..."} to every living rank. */
void ranks_control(struct ranks *r, const char *command);

/* What a rank on another node says to all others. */
void ranks_broadcast(struct ranks *r, const json_t *line);

/* To the process group of every living one. */
void ranks_signal(struct ranks *r, int signo);

/* What a rank's flight page shows (pid 0 when it has never attached).  Returns its process, or 0
 * when that has ended. */
int64_t ranks_look(const struct ranks *r, int rank, struct flight_page *page);

/* Where the time of a rank that lives went: init_ms, data_ms and checkpoint_ms. */
void ranks_phases(const struct ranks *r, int rank, struct agent_exit *e);

/* Of the present generation: the first on this node, how many, and how many of these live. */
int ranks_first(const struct ranks *r);
int ranks_count(const struct ranks *r);
int ranks_living(const struct ranks *r);

/* The processes that write the pages, or else the ranks' own, that of `first` (if any) first;
 * the caller frees it, NULL when memory ran out. */
int64_t *ranks_workers(const struct ranks *r, int first);

/* The last lines of its output, or "". */
const char *ranks_last_lines(const struct ranks *r, int rank);

#endif
