/* SPDX-License-Identifier: Apache-2.0 */
/* remote_link.h - the common part of all launchers (remote.h): one stream, one timer, one end
 *
 * Each remote_*.c begins its own structure with a struct remote_link. The timer calls its next
 * step, so that no hook is called from within a function of the table.
 */
#ifndef CONTROLLER_REMOTE_REMOTE_LINK_H
#define CONTROLLER_REMOTE_REMOTE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent/os/identity.h"
#include "controller/base/file_work.h"
#include "controller/remote/remote.h"

struct agent_stream;

typedef void (*remote_link_step)(struct remote_link *link);

struct remote_link {
    uv_loop_t               *loop;
    struct file_work        *files;     /* NULL: files are accessed in the loop */
    struct file_task        *task;      /* an access still running; NULL: none */
    uv_timer_t               timer;
    remote_link_step         step;
    struct remote_link_hooks hooks;
    struct agent_stream     *stream;    /* NULL: not connected */
    bool                     closed;
    bool                     may_start, dismiss, forget;
    int64_t                  job, attempt;
    char                     nonce[NONCE_CHARS + 1], origin[40];
    char                     tag[48];   /* "job.attempt", for logs */
    char                     text[400]; /* why the attempt is lost */
    enum cause               cause;     /* why its agent could not be started; CAUSE_NONE: none known */
    char                     unreadable[200]; /* why the agent's messages cannot be read; "" = they can */
    char                    *run_dir;
};

/* `size`: of the structure that begins with the link; zero-filled. NULL: out of memory. */
struct remote_link *remote_link_create(size_t size, uv_loop_t *loop, const struct remote_link_spec *spec,
                                       const struct remote_link_hooks *hooks, struct err *err);

void remote_link_later(struct remote_link *link, uint64_t ms, remote_link_step step);

/* For the table's entries of the same name. */
void remote_link_send(struct remote_link *link, enum wire_message number, json_t *body);
void remote_link_close(struct remote_link *link); /* frees it, later */

/* Ends the session: pending output is still sent, nothing more is received. */
void remote_link_hang_up(struct remote_link *link);

struct wire_id remote_link_id(const struct remote_link *link);

/* The agent's messages cannot be read: reports it to the job, and to the log once. */
void remote_link_unreadable(struct remote_link *link, const char *text);

/* Pause before the next connection attempt: `ms`, longer while the agent's messages cannot be read. */
uint64_t remote_link_pause_ms(const struct remote_link *link, uint64_t ms);

/* An access to files of the run directory, and the step that follows; the caller's structure begins with this. */
struct remote_link_task {
    struct file_task base;              /* work() and destroy() */
    void           (*then)(struct remote_link *link, struct remote_link_task *task);
};

/* Starts the access, one at a time, and takes ownership. Nothing follows after a close. `what`: "looking for the
 * agent". */
void remote_link_access(struct remote_link *link, struct remote_link_task *task, const char *what);

/* No process of the attempt is alive: delivers its spooled events, then reports lost with link->text. */
void remote_link_read_spool(struct remote_link *link);

#endif
