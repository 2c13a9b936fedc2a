/* SPDX-License-Identifier: Apache-2.0 */
/* remote_link.h - what all ways to an agent share (remote.h): one stream, one timer, one end
 *
 * Each remote_*.c begins its own structure with a struct remote_link. What it does next is a step
 * that the timer calls, so that no hook is called from within a function of the table.
 */
#ifndef CONTROLLER_REMOTE_REMOTE_LINK_H
#define CONTROLLER_REMOTE_REMOTE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent/os/identity.h"
#include "controller/remote/remote.h"

struct agent_stream;

typedef void (*remote_link_step)(struct remote_link *link);

struct remote_link {
    uv_loop_t               *loop;
    uv_timer_t               timer;
    remote_link_step         step;
    struct remote_link_hooks hooks;
    struct agent_stream     *stream;    /* NULL: nobody is connected */
    bool                     closed;
    bool                     may_start, dismiss;
    int64_t                  job, attempt;
    char                     nonce[NONCE_CHARS + 1];
    char                     tag[48];   /* "job.attempt", for logs */
    char                     text[400]; /* why it is lost */
    char                     unreadable[200]; /* why its agent cannot be understood; "" = it can */
    char                    *run_dir;
};

/* `size`: of the structure that begins with the link; all else in it is zero. NULL: no memory. */
struct remote_link *remote_link_create(size_t size, uv_loop_t *loop,
                                       const struct remote_link_spec *spec,
                                       const struct remote_link_hooks *hooks, struct err *err);

void remote_link_later(struct remote_link *link, uint64_t ms, remote_link_step step);

/* As in the table. */
void remote_link_send(struct remote_link *link, enum wire_message number, json_t *body);
void remote_link_close(struct remote_link *link); /* frees it, later */

/* Ends the conversation: what was sent still goes out, nothing is heard any more. */
void remote_link_hang_up(struct remote_link *link);

struct wire_id remote_link_id(const struct remote_link *link);

/* Its agent cannot be understood: says so to the job, and to the log where that is news. */
void remote_link_unreadable(struct remote_link *link, const char *text);

/* How long to wait before the next try: `ms`, longer while its agent cannot be understood. */
uint64_t remote_link_pause_ms(const struct remote_link *link, uint64_t ms);

/* Nothing of the attempt lives: gives what its agent had spooled, and says lost with link->text. */
void remote_link_read_spool(struct remote_link *link);

#endif
