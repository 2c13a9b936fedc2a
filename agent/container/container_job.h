/* SPDX-License-Identifier: Apache-2.0 */
/* container_job.h - the containers of one job on one node: from spec and plan to command lines
 *
 * The job's directory, its workdir, the directories of checkpoints and of the mirror, and the NCCL plugin appear in the
 * container at the same paths, along with the spec's mounts; user and groups are the agent's.
 */
#ifndef AGENT_CONTAINER_CONTAINER_JOB_H
#define AGENT_CONTAINER_CONTAINER_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct container_job;
struct container_words;
struct err;

/* The texts must outlive it; it takes references to spec and plan. */
struct container_place {
    const json_t *spec, *plan; /* plan: this node's, with "container" (agent/plan/plan.h) */
    const char *run_dir, *ckpt_dir, *nonce;
    int64_t job, attempt;
    int node;
};

/* -1: a directory is missing on this node, or cannot be mounted. */
int container_job_create(struct container_job **out, const struct container_place *place, struct err *err);
void container_job_destroy(struct container_job *j); /* accepts NULL */

enum { CONTAINER_NAME = 96 };
void container_job_name(const struct container_job *j, char out[CONTAINER_NAME], int generation, int rank);

/* The container's processes are not descendants of the command. */
bool container_job_is_apart(const struct container_job *j);

struct container_start {
    const char *name;
    const char *const *argv; /* environment in the container */
    char *const *env;        /* the rank's environment without a container */
    char *const *node_env;   /* the environment from which `env` was made */
    const char *cpus;        /* the CPUs that the plan binds the rank to, or NULL */
    int descriptors;
};

/* Builds the command line and its environment, both initially empty. -1: no memory. */
int container_job_command(const struct container_job *j, const struct container_start *s, struct container_words *argv,
                          struct container_words *env, struct err *err);

/* The same for pulling the image, and for removing all containers of the agent; no words: nothing to do. */
int container_job_pull(const struct container_job *j, const struct container_start *s, struct container_words *argv,
                       struct container_words *env, struct err *err);
void container_job_remove(const struct container_job *j, bool all, struct container_words *argv);

#endif
