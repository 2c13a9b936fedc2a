/* SPDX-License-Identifier: Apache-2.0 */
/* file_work.h - file operations in separate threads, so that no file can block the event loop
 *
 * A path may lie on a file system that no longer answers: each call on it then waits, perhaps forever, and cannot be
 * interrupted. The loop never makes such a call itself; it submits a task.
 *
 * A task has a lane, such as "logs of 7". Tasks of one lane run one after another, in their order. Four tasks
 * run at once. A task still running after a fifth of its time limit is set aside: it keeps its thread and its lane, and
 * another thread replaces it, up to FILE_WORK_THREADS. When the time limit passes, late() is called.
 *
 * libuv's pool is not used: it has four threads, and four calls that hang would end all work in it.
 * tests/rooms.txt lists each source of the daemon that names files by a path, and why the loop does not wait for a file
 * system that others can make slow ("files"); tests/check_opens.sh refuses any other. What the loop itself does:
 *   job.json of a job       job_file.h: it must be written before an effect. Neither through a link nor on another
 *                           file system (safe_open_dir()): they wait no longer than the store, which lies beside them
 *   spec.json of a job      before each attempt (fleet.c), and at its end (job_env.h): the same way
 *   files of an attempt     its key (agent_listener.h), the list of nodes and the spec of Slurm's script (placement.h,
 *                           remote_slurm.c), copies of logs of other machines (log_copy.h), the watch for `logs -f`: in
 *                           a directory that a thread has just created or read, for an attempt that runs elsewhere
 *   environment of a job    job_env.h: written once, in the directory that the submit makes; its secrets are read
 *                           before an attempt and deleted at its end
 *   all that is read at the start of the daemon (takeover.h, replay.h), before it serves requests
 * The store (sqlite) remains in the loop: its file is the daemon's own, each answer depends on it, and where
 * its disk hangs no correct answer is possible.
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
    void (*work)(struct file_task *task);       /* runs in a thread; accesses only the task */
    void (*done)(struct file_task *task);       /* in the loop, once the task has ended: it belongs to the caller
                                                 * again */
    void (*late)(struct file_task *task);       /* or NULL; in the loop, once, if the task does not end in time */
    void (*destroy)(struct file_task *task);    /* for a dropped task; in the loop, or after its end */
    void *owner;                                /* for the caller; not used here */
    int64_t patience_ms;                        /* time before late(), if longer than usual; 0: the usual time */
    /* private: */
    struct file_task *next;
    char             *lane, *what;
    int64_t           asked_ms, begun_ms;
    bool              running, dropped, told;
};

/* Time limit: FILE_WORK_PATIENCE_MS, less in tests. NULL: no memory. */
struct file_work *file_work_open(uv_loop_t *loop, int64_t patience_ms, struct err *err);

/* Drops all tasks; waits for running ones, but not for those that are set aside: these keep their memory until
 * they end. Accepts NULL. The loop must run afterwards, to close handles. */
void file_work_close(struct file_work *w);

/* `what` describes the task to users: "reading /a/b". -1: no memory; the caller keeps the task. */
int file_work_begin(struct file_work *w, struct file_task *task, const char *lane, const char *what, struct err *err);

/* The caller no longer waits: neither done() nor late() is called. */
void file_work_drop(struct file_work *w, struct file_task *task);

/* True, with err set, if a task in this lane has exceeded its limit, so that another task would have to wait. */
bool file_work_stuck(struct file_work *w, const char *lane, struct err *err);

/* Why a task is late: "reading /a/b has not answered for 7 s: ...". */
void file_work_why(struct file_work *w, const struct file_task *task, struct err *err);

#endif
