/* SPDX-License-Identifier: Apache-2.0 */
/* host_groups.h - names for lists of hosts, from the user's configuration
 *
 *   $XDG_CONFIG_HOME/jobctl/config.yaml, else ~/.config/jobctl/config.yaml
 *
 *     groups:
 *       gpus: [gpu1, gpu2]
 *
 * `hosts: [gpus]` in a spec means the members of the group as they are when the job is submitted;
 * "@gpus", which YAML wants in quotes, can mean nothing but a group. The file is checked as strictly
 * as a spec is, whenever a group may be meant; a missing one has no groups.
 */
#ifndef CONTROLLER_HOST_GROUPS_H
#define CONTROLLER_HOST_GROUPS_H

#include <jansson.h>

struct err;

/* {GROUP: [HOST...]}, the caller's. NULL: the sentence begins with FILE:LINE:COLUMN. */
json_t *host_groups_load(struct err *err);

/* Puts the members of groups in their place in a list of names; what stands there twice by that
 * stays once. */
int host_groups_expand(json_t *hosts, struct err *err);

#endif
