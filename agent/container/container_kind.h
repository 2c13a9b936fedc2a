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
    const char *word;  /* prefix of each word; NULL: the runtime needs no option */
    const char *join;  /* between the items of one word; NULL: a word for each */
    const char *end;   /* suffix of the one word; or NULL */
};

struct container_kind {
    const char *name;
    const char *program;              /* program in PATH that starts containers; NULL: named like the runtime */
    const char *beside;               /* another program that must exist, and that pulls images; or NULL */
    const char *file;                 /* suffix of an image file; ".sif": any but .sqsh; NULL: the runtime has a
                                       * store */
    bool apart;                       /* processes in containers are not descendants of the program that starts them */
    bool daemon;                      /* a daemon starts containers, with its own limits; without root, root in the
                                       * container is the user */
    const char *const *globals;       /* the user's options before the subcommand, ended by NULL; or NULL */
    const char *const *verb, *const *pull, *const *version; /* words, ended by NULL; pull may be NULL */
    struct container_form mounts, gpus, env;
    const char *mount_to, *mount_ro;  /* between source and target; suffix of a read-only mount */
    const char *gpu_flag;             /* one word that selects all GPUs instead; or NULL */
    const char *gpus_variable;        /* a variable that names the GPUs instead; or NULL */
    const char *env_names;            /* an extra word: all variable names, separated by commas; or NULL */
    bool env_values;                  /* only variables with a value get an option; the others are inherited */
    const char *workdir, *cpus, *descriptors; /* prefix of the value; for descriptors, "": inherited, NULL:
                                               * impossible */
    const char *rootless;             /* keeps the user in a runtime without root; NULL: the runtime does so by
                                       * default */
    const char *image;                /* words before the image */
};

/* NULL: no such runtime. */
const struct container_kind *container_kind_of(const char *name);

/* The rows, ended by one without a name. */
extern const struct container_kind container_kinds[];

/* Can it run this image, by name or as a file? */
bool container_kind_reads(const struct container_kind *k, const char *image);

#endif
