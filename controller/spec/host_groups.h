/* SPDX-License-Identifier: Apache-2.0 */
/* host_groups.h - names for lists of hosts, from the user's configuration (config.h)
 *
 * `hosts: [gpus]` in a spec means the members of the group as they are when the job is submitted;
 * "@gpus", which YAML wants in quotes, can mean nothing but a group.
 */
#ifndef CONTROLLER_SPEC_HOST_GROUPS_H
#define CONTROLLER_SPEC_HOST_GROUPS_H

#include <jansson.h>

struct err;

/* Puts the members of groups in their place in a list of names; what stands there twice by that
 * stays once. */
int host_groups_expand(json_t *hosts, struct err *err);

#endif
