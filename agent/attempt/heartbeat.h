/* SPDX-License-Identifier: Apache-2.0 */
/* heartbeat.h - body of a heartbeat: progress and speed of a run */
#ifndef AGENT_ATTEMPT_HEARTBEAT_H
#define AGENT_ATTEMPT_HEARTBEAT_H

#include <jansson.h>

struct agent_core;
struct leader;

/* A new object, or NULL when out of memory. */
json_t *heartbeat_body(const struct agent_core *core, const struct leader *leader);

#endif
