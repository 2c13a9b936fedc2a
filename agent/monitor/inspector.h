/* SPDX-License-Identifier: Apache-2.0 */
/* inspector.h - a process that looks into ranks that hang, for a short time
 *
 * Runs `jobctl-agent inspect` on them; what it prints is appended to a file.  Ends by itself
 * or is ended at the limit; either way it tells, once.
 */
#ifndef AGENT_MONITOR_INSPECTOR_H
#define AGENT_MONITOR_INSPECTOR_H

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct inspector;

typedef void (*inspector_done_fn)(void *arg, int generation, json_t *body);

int inspector_create(struct inspector **out, uv_loop_t *loop, inspector_done_fn done, void *arg,
                     struct err *err);
/* Closes its handles; run the loop once more before inspector_destroy().  NULL is fine for both. */
void inspector_close(struct inspector *i);
void inspector_destroy(struct inspector *i);

/* body: that of the incident, with the path of the file; taken, and given to done().  When nothing
 * can be started done() is called at once. */
void inspector_begin(struct inspector *i, int generation, json_t *body, const int64_t *pids, int n);

#endif
