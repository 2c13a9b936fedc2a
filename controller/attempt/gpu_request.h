/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_request.h - asks agents on other machines for the load of their GPUs while somebody watches (gpu_figures.h) */
#ifndef CONTROLLER_ATTEMPT_GPU_REQUEST_H
#define CONTROLLER_ATTEMPT_GPU_REQUEST_H

#include <jansson.h>
#include <stdint.h>

#include "agent/wire/wire.h"

struct job;
struct remote_link;

/* Handles a message of the agent at `link`, on the host `node` of launch: ssh: takes a GPU_LOAD, and answers with
 * WATCH_GPUS if somebody watches. *asked_ms: 0 after HELLO, then kept here. Does nothing for agents on this machine. */
void gpu_request_hear(struct job *job, struct remote_link *link, const char *node, int64_t *asked_ms,
                      enum wire_message number, const json_t *body);

#endif
