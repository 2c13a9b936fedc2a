/* SPDX-License-Identifier: Apache-2.0 */
/* container_command.h - the command lines of each container runtime: run, pull and remove
 *
 * Pure: no clock, no I/O.
 * A container shares the host's network, process ids, IPC and host name: NCCL needs them between ranks in separate
 * containers, and the pid that a rank writes into its flight page is the one that the agent knows. Secrets never appear
 * on a command line: variables are passed by name, their values in the runtime's environment.
 *
 * In podman and docker, processes are not children of the command; a job's containers carry its labels. apptainer
 * replaces itself with the program; enroot runs as a step of Slurm (pyxis).
 */
#ifndef AGENT_CONTAINER_CONTAINER_COMMAND_H
#define AGENT_CONTAINER_CONTAINER_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

struct container_kind;
struct container_words;

struct container_mount {
    const char *from, *to;
    bool read_only;
};

/* A container on a node; absent texts are NULL, lists end with NULL. */
struct container {
    const struct container_kind *kind;
    const char *program;           /* path of the runtime; of srun for enroot */
    const char *image;             /* as in the spec */
    const char *file;              /* apptainer, enroot: file of the pulled image; NULL: the image is a file */
    bool rootless;                 /* the runtime runs without root on this node */
    unsigned uid, gid;
    const unsigned *groups;        /* supplementary groups */
    int n_groups;
    int64_t job;
    const char *nonce, *run_dir;   /* labels: the attempt, and its agent */
    const char *name;              /* name of the container */
    const char *node;              /* enroot: Slurm's name for this node */
    const char *workdir;
    const struct container_mount *mounts;
    int n_mounts;
    const char *const *gpus;       /* UUIDs */
    const char *cpus;              /* docker: "0-3,8", because its processes do not inherit them; NULL: all */
    const char *const *limits;     /* "nofile=1024:4096" */
    const char *const *options;    /* the spec's options, one word each */
    const char *const *env;        /* "NAME": value taken from the environment; "NAME=value" */
    int descriptors;               /* descriptors from 3 on that the program inherits if the runtime supports it */
};

/* The command line that runs `argv` in a new container; argv[0] is a path in the image. */
void container_run(struct container_words *out, const struct container *c, const char *const *argv);

/* Looks for the image on this node, and pulls it if it is missing. No words: nothing to do. */
void container_pull(struct container_words *out, const struct container *c);

/* Stops and removes all containers of the attempt, or only this agent's if run_dir is set. The last line of its output
 * is CONTAINER_REMOVED if none is left. No words if the runtime's containers are only processes. */
#define CONTAINER_REMOVED "no container is left"
void container_remove(struct container_words *out, const struct container *c);

#endif
