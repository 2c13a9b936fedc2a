/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - what a user has settled for all jobs
 *
 *   $XDG_CONFIG_HOME/jobctl/config.yaml, else ~/.config/jobctl/config.yaml
 *
 *     groups:
 *       gpus: [gpu1, gpu2]     names for lists of hosts (host_groups.h)
 *     host_lost: 2m            a host of launch: ssh that is not reached for so long is given up
 *     node_lost: 15s           a node of several that hears nothing for so long leaves (agent/nodes/leader.h)
 *     call_address: ib0        where agents of launch: slurm call this machine (agent_listener.h)
 *
 * The file is checked as strictly as a spec is, each time that something of it is wanted: a change
 * counts from then on. A missing one settles nothing.
 */
#ifndef CONTROLLER_SPEC_CONFIG_H
#define CONTROLLER_SPEC_CONFIG_H

#include <jansson.h>
#include <stdint.h>

struct err;

struct config {
    json_t *groups;                     /* {GROUP: [HOST...]} */
    int64_t host_lost_ms, node_lost_ms; /* 0: not said */
    char    call_address[256];          /* "": not said */
};

/* -1: the sentence begins with FILE:LINE:COLUMN, and *c is empty. */
int config_load(struct config *c, struct err *err);
void config_fini(struct config *c);

/* For the daemon, which cannot ask anybody: `unsaid` where the file does not say or is wrong. For tests
 * the variable, in seconds, wins. */
int64_t config_host_lost_ms(int64_t unsaid); /* $JOBCTL_HOST_LOST_S */
int64_t config_node_lost_ms(int64_t unsaid); /* the agents take $JOBCTL_NODE_LOST_S themselves */

/* $JOBCTL_CALL_ADDRESS, else what the file says; "": nothing. Returns which of the two, for messages. */
const char *config_call_address(char out[256]);

#endif
