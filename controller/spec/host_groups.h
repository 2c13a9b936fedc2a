/* SPDX-License-Identifier: Apache-2.0 */
/* host_groups.h - names for lists of hosts, from the user's configuration (config.h)
 *
 * `hosts: [gpus]` in a spec is replaced by the members of the group at submit time; "@gpus" (quoted
 * in YAML) always means a group.
 */
#ifndef CONTROLLER_SPEC_HOST_GROUPS_H
#define CONTROLLER_SPEC_HOST_GROUPS_H

#include <jansson.h>

struct err;

/* Replaces group names in a list by their members; drops resulting duplicates. */
int host_groups_expand(json_t *hosts, struct err *err);

#endif
