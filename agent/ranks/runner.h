/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h - one process of a generation (or of the setup): its pipes, its log, its flight page
 *
 * It has its own session, its output captured in RUN_DIR/rank<N>.log (the setup's in setup.log), a
 * pipe for its lines and one for commands.  A process of the engine that has parted from the others
 * (engine/train/rejoin.h) can be given to the next generation as it is.
 */
#ifndef AGENT_RANKS_RUNNER_H
#define AGENT_RANKS_RUNNER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "agent/os/buf.h"

struct agent_exit;
struct capture;
struct err;
struct flight;
struct launch_env;
struct ranks_job;
struct runner;

/* An object without "ev":"rendezvous" or with it: both are lines. */
struct runner_hooks {
    void (*line)(void *arg, int rank, const json_t *line);
    void (*output)(void *arg, int rank, const char *bytes, size_t size);
    void *arg;
};

/* What it is to be. `old` are the memory files of the last generation, `snapshot` is its own (-1:
 * none); the env says under which numbers a new process gets them. */
struct runner_role {
    const struct launch_env *env;
    const struct ranks_job  *job;
    int                      rank;
    int                      snapshot;
    const int               *old;
    int                      n_old;
};

/* Read only but for runner.c. */
struct runner {
    struct runner_hooks hooks;
    int            rank;
    pid_t          pid;        /* 0: it never was, or is reaped */
    pid_t          was;        /* its pid, kept */
    bool           watched;    /* the poll handles are the loop's */
    int            open;       /* handles that the loop still holds, once it is let go of */
    uint64_t       started_ns; /* it, or its part in this generation */
    int            out_fd, event_fd, control_fd; /* our ends; -1 = closed */
    uv_poll_t      out_poll, event_poll;
    struct capture *capture;   /* NULL: not opened */
    struct buf     lines;      /* of the event pipe, not yet whole */
    struct flight *flight;     /* NULL: it has none */
};

/* 0 with the process running. -1: *out is what there is of it (or NULL), to be let go of. */
int runner_start(struct runner **out, uv_loop_t *loop, const struct runner_role *role,
                 const struct runner_hooks *hooks, struct err *err);

/* It lives and has parted: its part in the next generation. -1: it cannot be told. */
int runner_join(struct runner *r, const struct runner_role *role, struct err *err);

/* Lets go of it: it must be reaped. Memory is freed when the loop has closed the handles. */
void runner_forget(struct runner *r);

/* Its process was reaped with `status`: reads what it had still written, fills *e but for the
 * generation. */
void runner_reaped(struct runner *r, int status, struct agent_exit *e);

/* What its flight page says of where its time in this generation went. */
void runner_phases(const struct runner *r, struct agent_exit *e);

/* One line on its control pipe; it is lost when the pipe is full or closed. */
void runner_say(const struct runner *r, const char *line, size_t size);

#endif
