/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - the body of LAUNCH (agent/wire/wire.h): all that an agent is told of what it is to run
 *
 * The head of an attempt learns what earlier attempts have learned, and has the secrets; the agents
 * beside it learn from it (agent/nodes/leader.h).
 */
#ifndef CONTROLLER_ATTEMPT_LAUNCH_H
#define CONTROLLER_ATTEMPT_LAUNCH_H

#include <jansson.h>

struct err;
struct job;

/* For the agent of node 0. */
json_t *launch_leader(const struct job *job, struct err *err);
/* For an agent beside the head's. Takes `crew`. */
json_t *launch_follower(const struct job *job, const char *run_dir, json_t *group, struct err *err);

#endif
