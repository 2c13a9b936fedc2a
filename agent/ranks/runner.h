/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h - one process of a generation (or the setup): its pipes, log and flight page
 *
 * The process has its own session, its output captured in RUN_DIR/rank<N>.log (the setup's in
 * setup.log), a pipe for its lines and one for commands. An engine process that has detached from
 * its peers (engine/train/rejoin.h) can continue as a rank of the next generation.
 */
#ifndef AGENT_RANKS_RUNNER_H
#define AGENT_RANKS_RUNNER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "engine/base/buf.h"

struct agent_exit;
struct capture;
struct err;
struct flight;
struct launch_env;
struct ranks_job;
struct runner;

/* Called for every line, with or without "ev":"rendezvous". */
struct runner_hooks {
    void (*line)(void *arg, int rank, const json_t *line);
    void (*output)(void *arg, int rank, const char *bytes, size_t size);
    void *arg;
};

/* What to start. `old` are the memory files of the last generation, `snapshot` is its own (-1:
 * none); the environment has their descriptor numbers for a new process. */
struct runner_role {
    const struct launch_env *env;
    const struct ranks_job  *job;
    int                      rank;
    int                      group; /* the control group that it enters; -1: none */
    int                      snapshot;
    const int               *old;
    int                      n_old;
};

/* Read-only outside runner.c. */
struct runner {
    struct runner_hooks hooks;
    int            rank;
    pid_t pid;                        /* 0: never started, or already reaped */
    pid_t was;                        /* its pid, kept after it was reaped */
    bool held;                        /* reaped with `status`, but others in its session are still ending */
    int  status;
    bool watched;                     /* the poll handles belong to the loop */
    int open;                         /* handles that the loop still holds after release */
    uint64_t started_ns;              /* start of the process, or of its participation in this generation */
    int out_fd, event_fd, control_fd; /* this process's ends; -1 = closed */
    uv_poll_t      out_poll, event_poll;
    struct capture *capture; /* NULL: not open */
    char container[96];      /* name of the container, if its processes are not below `pid`; "" = they are */
    pid_t inner;             /* the first process in the container, once known, pinned by inner_fd */
    int inner_fd;            /* -1: not known */
    char python[300];        /* its interpreter, once a module is missing; "" = none */
    char guess[300];         /* ... judged by the command alone */
    char output[600];        /* the file to which the command sends its output (agent/os/shell_text.h); "" = none */
    uint64_t out_bytes;      /* bytes of its output so far */
    struct buf lines;        /* partial line from the event pipe */
    struct flight *flight;   /* NULL: none */
};

/* 0 and the process runs. -1: *out is the partial runner (or NULL), to be released. */
int runner_start(struct runner **out, uv_loop_t *loop, const struct runner_role *role,
                 const struct runner_hooks *hooks, struct err *err);

/* Makes a live, detached process part of the next generation. -1: the message cannot be sent. */
int runner_join(struct runner *r, const struct runner_role *role, struct err *err);

/* Releases a runner whose process was reaped. Memory is freed once the loop has closed the
 * handles. */
void runner_forget(struct runner *r);

/* Its process was reaped with `status`: reads its remaining output and fills *e except the
 * generation. */
void runner_reaped(struct runner *r, int status, struct agent_exit *e);

/* The topmost process that the rank runs: in its container, else its own. 0: none. */
pid_t runner_root(struct runner *r);

/* Its time in this generation by phase, from its flight page. */
void runner_phases(const struct runner *r, struct agent_exit *e);

/* Writes one line to its control pipe; the line is lost if the pipe is full or closed. */
void runner_say(const struct runner *r, const char *line, size_t size);

#endif
