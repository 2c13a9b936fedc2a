/* SPDX-License-Identifier: Apache-2.0 */
/* container_env.h - which variables of a rank go into its container
 *
 * Pure: no clock, no I/O.
 * A rank's environment consists of the variables of the submitter or the node, and those that the job and jobctl set.
 * Of the former, variables that describe the node stay outside: PATH, HOME, LD_LIBRARY_PATH, an active venv,
 * certificates. Variables that the job sets always go in: `env: {PATH: ...}`.
 */
#ifndef AGENT_CONTAINER_CONTAINER_ENV_H
#define AGENT_CONTAINER_CONTAINER_ENV_H

#include <stdbool.h>

enum container_env_way {
    CONTAINER_ENV_PASS,  /* goes in */
    CONTAINER_ENV_SET,   /* goes in; outside the container it has the node's value, or is unset */
    CONTAINER_ENV_TOOL,  /* stays outside, where the runtime itself may need it */
    CONTAINER_ENV_LEAVE  /* stays outside */
};

/* How a rank's entry NAME=VALUE is handled; `node`: the environment before the job's own variables, ended by NULL. */
enum container_env_way container_env_way(const char *entry, char *const *node);

/* The entry of `env` with the same name as `entry`, or NULL. */
const char *container_env_find(char *const *env, const char *entry);

#endif
