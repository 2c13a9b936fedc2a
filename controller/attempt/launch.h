/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - builds the body of LAUNCH (agent/wire/wire.h), with which an agent runs an attempt
 *
 * The leader of an attempt gets the data of earlier attempts and the secrets; the followers get
 * them from the leader (agent/nodes/leader.h).
 */
#ifndef CONTROLLER_ATTEMPT_LAUNCH_H
#define CONTROLLER_ATTEMPT_LAUNCH_H

#include <jansson.h>

struct err;
struct job;

/* The body for the agent of node 0. */
json_t *launch_leader(const struct job *job, struct err *err);
/* The body for a follower. Takes `group`. */
json_t *launch_follower(const struct job *job, const char *run_dir, json_t *group, struct err *err);

#endif
