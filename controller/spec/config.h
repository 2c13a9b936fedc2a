/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the user's settings for all jobs
 *
 *   $XDG_CONFIG_HOME/jobctl/config.yaml, else ~/.config/jobctl/config.yaml
 *
 *     groups:
 *       gpus: [gpu1, gpu2]
 *     host_lost: 2m
 *     notify:
 *       team: {webhook: "${SLACK_URL}"}
 *
 * The file is checked as strictly as a spec and read on each use, so a change takes effect at once.
 * A missing file means defaults.
 */
#ifndef CONTROLLER_SPEC_CONFIG_H
#define CONTROLLER_SPEC_CONFIG_H

#include <jansson.h>
#include <stdint.h>

struct err;

struct config {
    json_t *groups;                     /* {GROUP: [HOST...]} */
    json_t *notify;                     /* [TARGET...], see notify_target.h */
    int64_t host_lost_ms, node_lost_ms; /* 0: not set */
    char    call_address[256];          /* "": not set */
    char    show_names_to[64];          /* a group of users; "": not set */
    char    metrics_listen[64];         /* the TCP address where the daemon serves its metrics; "": none */
};

/* A key of the file, its value in words, and its meaning. */
struct config_key {
    const char *name, *value, *help;
};

/* All keys, in the order of the manual; returns NULL after the last. */
const struct config_key *config_key_at(size_t i);

/* -1: the error begins with FILE:LINE:COLUMN, and *c is empty. */
int config_load(struct config *c, struct err *err);
void config_fini(struct config *c);

/* For the daemon: returns `unsaid` if the file has no value or is invalid. In tests the variable, in seconds, takes
 * precedence. */
int64_t config_host_lost_ms(int64_t unsaid); /* $JOBCTL_HOST_LOST_S */
int64_t config_node_lost_ms(int64_t unsaid); /* agents read $JOBCTL_NODE_LOST_S themselves */

/* The group whose members may see the names of jobs that hold part of a shared machine; "": none. */
void config_show_names_to(char out[64]);

/* The TCP address and port where the daemon serves its metrics; "": none. */
void config_metrics_listen(char out[64]);

/* $JOBCTL_CALL_ADDRESS, else the file's value; "": none. Returns the source for messages. */
const char *config_call_address(char out[256]);

#endif
