/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_client.h - the daemon's end of jobctl-slurm: asynchronous requests and answers
 *
 * One helper serves all attempts and lives as long as one of them uses it.  If
 * it dies (libslurm may abort), pending requests are answered with "away", and
 * the next request starts another helper.
 */
#ifndef CONTROLLER_REMOTE_SLURM_CLIENT_H
#define CONTROLLER_REMOTE_SLURM_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

struct err;

/* {"ok":true, ...} or {"ok":false, "away", "error"}, with "unconfigured":true if Slurm is not configured here
 * (controller/slurm/main.c); borrowed. */
typedef void (*slurm_answer_fn)(void *arg, const json_t *answer);

/* True if the helper was built with this program. */
bool slurm_client_there(void);

/* True, or false with err set if Slurm is not configured on this machine. May wait for another machine: call it in a
 * thread. */
bool slurm_client_configured(struct err *err);

void slurm_client_use(uv_loop_t *loop);
void slurm_client_leave(void);

/* Takes the request. Pending requests for the list of jobs share one. */
void slurm_client_ask(json_t *request, slurm_answer_fn answer, void *arg);
void slurm_client_forget(const void *arg);     /* cancels its callbacks */

#endif
