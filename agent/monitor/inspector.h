/* SPDX-License-Identifier: Apache-2.0 */
/* inspector.h - runs `jobctl-agent inspect` on hung ranks, with a time limit
 *
 * Appends the output to a file. The process ends by itself or is killed at the limit; either way
 * done() is called exactly once.
 */
#ifndef AGENT_MONITOR_INSPECTOR_H
#define AGENT_MONITOR_INSPECTOR_H

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct inspector;

typedef void (*inspector_done_fn)(void *arg, int generation, json_t *body);

int inspector_create(struct inspector **out, uv_loop_t *loop, inspector_done_fn done, void *arg, struct err *err);
/* Closes its handles; run the loop once more before inspector_destroy().  Both accept NULL. */
void inspector_close(struct inspector *i);
void inspector_destroy(struct inspector *i);

/* body: that of the incident, with the path of the file; taken, and passed to done(). If the
 * process cannot start, done() is called at once. */
void inspector_begin(struct inspector *i, int generation, json_t *body, const int64_t *pids, int n);

#endif
