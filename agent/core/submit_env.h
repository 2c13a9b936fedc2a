/* SPDX-License-Identifier: Apache-2.0 */
/* submit_env.h - which variables of the submitter's environment a job takes, and which of them are secret
 *
 * Pure: no clock, no I/O.
 * A job runs in its submitter's environment: PATH, a virtual environment, conda, modules, locale and the user's own
 * variables come from the submitting shell. Variables that belong to that shell's session or to another job are left
 * out (the table is in submit_env.c). Variables whose names look secret are kept in a separate file, which is deleted
 * when the job ends.
 */
#ifndef AGENT_CORE_SUBMIT_ENV_H
#define AGENT_CORE_SUBMIT_ENV_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum submit_env_fate { SUBMIT_ENV_LEFT, SUBMIT_ENV_TAKEN, SUBMIT_ENV_SECRET };

/* Limits: the kernel's for one entry NAME=value with its NUL, and half of the kernel's usual limit for all entries,
 * which leaves space for jobctl's own variables. */
enum { SUBMIT_ENV_ENTRY_MAX = 128 * 1024, SUBMIT_ENV_MAX = 1024 * 1024 };

/* `in_job`: the submitter is a rank of a job, whose devices and threads are not those of the new job.
 * why: the reason for SUBMIT_ENV_LEFT, or NULL if it is not wanted. */
enum submit_env_fate submit_env_fate(const char *name, bool in_job, const char **why);

/* Is the submitter with this environment {NAME: value} a rank of a job? */
bool submit_env_in_job(const json_t *environment);

/* Where ranks run. */
enum submit_env_place {
    SUBMIT_ENV_HERE,    /* on this machine: everything is taken from the submitter */
    SUBMIT_ENV_GRANTED, /* in a Slurm allocation, or in a share of this machine: the devices are the node's */
    SUBMIT_ENV_HOST,    /* on an SSH host: the environment of that host; nothing of the submitter's is sent */
};

/* "here", "granted", "host"; an unknown word counts as host. */
const char *submit_env_place_name(enum submit_env_place place);
enum submit_env_place submit_env_place_of(const char *word);

/* Does this variable (a name, or NAME=value) stay as the agent found it on the node? */
bool submit_env_is_nodes(enum submit_env_place place, const char *name);

/* Both {NAME: value}, or NULL. ERR_USAGE: the kernel would refuse it; the sentence names the largest variable and what
 * to do. */
int submit_env_check(const json_t *environment, const json_t *secrets, struct err *err);

#endif
