/* SPDX-License-Identifier: Apache-2.0 */
/* container_kind.h - the container runtimes: the options of each for mounts, GPUs, variables, directory and user
 *
 * Pure: no clock, no I/O.
 * One row for each, in the order of `runtime: auto`. All that differs between runtimes is here; the command line is
 * made from it (container_command.h).
 */
#ifndef AGENT_CONTAINER_CONTAINER_KIND_H
#define AGENT_CONTAINER_CONTAINER_KIND_H

#include <stdbool.h>

/* How a list becomes words of a command line: a word for each item, or one for all. */
struct container_form {
    const char *word;  /* what each word begins with; NULL: the runtime is not told */
    const char *join;  /* between the items of one word; NULL: a word for each */
    const char *end;   /* of the one word; or NULL */
};

struct container_kind {
    const char *name;
    const char *program;              /* in PATH, that starts containers; NULL: of the same name */
    const char *beside;               /* another program that must be there, and that pulls; or NULL */
    const char *file;                 /* what the file of an image ends in, ".sif": any but .sqsh; NULL: it has a store */
    bool apart;                       /* its processes are not descendants of the one that starts them */
    bool daemon;                      /* a daemon starts them, with limits of its own; without root its root is the user */
    const char *const *globals;       /* options of the user that stand before the subcommand, ended by NULL; or NULL */
    const char *const *verb, *const *pull, *const *version; /* words, ended by NULL; pull may be NULL */
    struct container_form mounts, gpus, env;
    const char *mount_to, *mount_ro;  /* between source and target, and behind one that is read only */
    const char *gpu_flag;             /* one word for all GPUs instead; or NULL */
    const char *gpus_variable;        /* a variable that names the GPUs instead; or NULL */
    const char *env_names;            /* one more word: the names of all variables, with commas; or NULL */
    bool env_values;                  /* only variables with a value are told, the others come in by themselves */
    const char *workdir, *cpus, *descriptors; /* before the value; descriptors "": inherited; NULL: impossible */
    const char *rootless;             /* for the user of a runtime without root; NULL: it keeps the user by itself */
    const char *image;                /* before the image */
};

/* NULL: no such runtime. */
const struct container_kind *container_kind_of(const char *name);

/* The rows, ended by one without a name. */
extern const struct container_kind container_kinds[];

/* Can it run the image: by its name, or as such a file? */
bool container_kind_reads(const struct container_kind *k, const char *image);

#endif
