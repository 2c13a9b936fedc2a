/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_client.h - the daemon's end of jobctl-slurm: requests, and answers in their time
 *
 * One helper serves all attempts, and lives as long as one of them uses it.
 * When it ends by itself (libslurm may), whoever waits is answered that Slurm
 * is away, and the next request starts another.
 */
#ifndef CONTROLLER_REMOTE_SLURM_CLIENT_H
#define CONTROLLER_REMOTE_SLURM_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

/* {"ok":true, ...} or {"ok":false, "away", "error"} (controller/slurm/main.c); borrowed. */
typedef void (*slurm_answer_fn)(void *arg, const json_t *answer);

/* Was the helper built, with this very program? */
bool slurm_client_there(void);

void slurm_client_use(uv_loop_t *loop);
void slurm_client_leave(void);

/* Takes the request. Requests for the list of jobs that nobody has answered yet share one. */
void slurm_client_ask(json_t *request, slurm_answer_fn answer, void *arg);
void slurm_client_forget(const void *arg);     /* no answer to it any more */

#endif
