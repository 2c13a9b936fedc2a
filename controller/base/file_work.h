/* SPDX-License-Identifier: Apache-2.0 */
/* file_work.h - file operations in threads of their own, so that no file can stop the event loop
 *
 * A path may lie on a file system that no longer answers: each call on it then waits, perhaps for ever, and
 * cannot be interrupted. The loop never makes such a call itself; it describes it as a task.
 *
 * A task has a lane, such as "logs of 7". Tasks of one lane run one after another, in their order. Four tasks
 * run at once. One that has not ended after a fifth of the patience is set aside: it keeps its thread and its lane,
 * and another thread takes its place, up to FILE_WORK_THREADS. When the patience is over, late() tells.
 *
 * libuv's pool is not used: it has four threads, and four calls that hang would end all work in it.
 * What still runs in the loop, in the daemon's home: the events beside a job (controller/job/job_history.h), which are
 * to be there before their effect, the check that a job's directory is its own before each attempt (fleet.c), copies of
 * logs of other machines (log_copy.h), the look for an agent of Slurm and its script (remote_slurm.c; fence and lock
 * have a thread), keys for agents (agent_listener.h), the watch of a directory for `logs -f`, and all that is read at
 * the start of the daemon (survey.h, replay.h).
 * The store (sqlite) remains in the loop: its file is the daemon's own, each answer depends on it, and where
 * its disk hangs there is nothing true to answer.
 */
#ifndef CONTROLLER_BASE_FILE_WORK_H
#define CONTROLLER_BASE_FILE_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct file_work;

enum { FILE_WORK_BUSY = 4, FILE_WORK_THREADS = 64, FILE_WORK_PATIENCE_MS = 5000 };

/* The first member of the caller's structure, zeroed, on the heap. */
struct file_task {
    void (*work)(struct file_task *task);       /* in a thread; accesses only the task */
    void (*done)(struct file_task *task);       /* in the loop, once it has ended: the caller's again */
    void (*late)(struct file_task *task);       /* or NULL; in the loop, once, if it does not end in time */
    void (*destroy)(struct file_task *task);    /* of a dropped one; in the loop, or after its end */
    void *owner;                                /* for the caller; not accessed here */
    int64_t patience_ms;                        /* before late(), if longer than usual; 0: the usual one */
    /* private: */
    struct file_task *next;
    char             *lane, *what;
    int64_t           asked_ms, begun_ms;
    bool              running, dropped, told;
};

/* FILE_WORK_PATIENCE_MS, less in tests. NULL if there is no memory. */
struct file_work *file_work_open(uv_loop_t *loop, int64_t patience_ms, struct err *err);

/* Drops all tasks; waits for running ones, but not for those that are set aside: these keep their memory until
 * they end. Accepts NULL. The loop must run afterwards, to close handles. */
void file_work_close(struct file_work *w);

/* `what` describes it for people: "reading /a/b". -1: no memory; the task remains the caller's. */
int file_work_begin(struct file_work *w, struct file_task *task, const char *lane, const char *what,
                    struct err *err);

/* Nobody waits for it any more: neither done() nor late() is called. */
void file_work_drop(struct file_work *w, struct file_task *task);

/* True if a task of this lane runs longer than its patience, so that another would have to wait; err tells. */
bool file_work_stuck(struct file_work *w, const char *lane, struct err *err);

/* Why a task that is late has not ended: "reading /a/b has not answered for 7 s: ...". */
void file_work_why(struct file_work *w, const struct file_task *task, struct err *err);

#endif
