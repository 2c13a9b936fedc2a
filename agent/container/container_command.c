/* SPDX-License-Identifier: Apache-2.0 */
/* container_command.c - see container_command.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_command.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/container/container_image.h"
#include "agent/container/container_words.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const names[CONTAINER_RUNTIMES] = {
    [CONTAINER_PODMAN] = "podman",           [CONTAINER_DOCKER] = "docker", [CONTAINER_APPTAINER] = "apptainer",
    [CONTAINER_SINGULARITY] = "singularity", [CONTAINER_ENROOT] = "enroot",
};

const char *container_runtime_name(enum container_runtime runtime)
{
    return (unsigned)runtime < CONTAINER_RUNTIMES ? names[runtime] : "?";
}

enum container_runtime container_runtime_of(const char *name)
{
    int i = 0;
    while (i < CONTAINER_RUNTIMES && strcmp(names[i], name) != 0)
        i++;
    return (enum container_runtime)i;
}

static bool is_engine(enum container_runtime runtime)
{
    return runtime == CONTAINER_PODMAN || runtime == CONTAINER_DOCKER;
}

bool container_runtime_is_apart(enum container_runtime runtime)
{
    return is_engine(runtime) || runtime == CONTAINER_ENROOT;
}

bool container_keeps_descriptors(enum container_runtime runtime)
{
    return runtime == CONTAINER_PODMAN || runtime == CONTAINER_APPTAINER || runtime == CONTAINER_SINGULARITY;
}

/* --- options of the user ------------------------------------------------------------------------ */

/* Options that stand before the subcommand; all others belong to `run` or `exec`. */
static const char *const globals_of_podman[] = {
    "--root", "--runroot", "--runtime", "--runtime-flag", "--storage-driver", "--storage-opt", "--cgroup-manager",
    "--conmon", "--log-level", "--tmpdir", "--hooks-dir", "--module", "--url", "--connection", "--identity",
    "--imagestore", "--events-backend", "--network-config-dir", "--network-cmd-path", "--volumepath", "--remote", NULL,
};
static const char *const globals_of_docker[] = {
    "--config", "--context", "--host", "--log-level", "--tls", "--tlscacert", "--tlscert", "--tlskey", "--tlsverify",
    NULL,
};
static const char *const globals_of_apptainer[] = {"--debug", "--quiet", "--silent", "--verbose", "--nocolor",
                                                   "--config", NULL};
static const char *const no_globals[] = {NULL};

static const char *const *globals_of(enum container_runtime runtime)
{
    switch (runtime) {
    case CONTAINER_PODMAN: return globals_of_podman;
    case CONTAINER_DOCKER: return globals_of_docker;
    case CONTAINER_APPTAINER:
    case CONTAINER_SINGULARITY: return globals_of_apptainer;
    default: return no_globals;
    }
}

static bool is_global(enum container_runtime runtime, const char *option)
{
    const size_t n = strcspn(option, "=");
    for (const char *const *g = globals_of(runtime); *g; g++)
        if (strlen(*g) == n && strncmp(*g, option, n) == 0)
            return true;
    return false;
}

static void add_options(struct container_words *out, const struct container *c, bool global)
{
    for (size_t i = 0; c->options && c->options[i]; i++)
        if (is_global(c->runtime, c->options[i]) == global)
            container_words_add(out, c->options[i]);
}

static void begin(struct container_words *out, const struct container *c)
{
    container_words_add(out, c->program);
    add_options(out, c, true);
}

/* Does the user set this limit? Twice the same is an error of the runtime. */
static bool sets_limit(const struct container *c, const char *limit)
{
    const size_t n = strcspn(limit, "=") + 1, prefix = strlen("--ulimit=");
    for (size_t i = 0; c->options && c->options[i]; i++)
        if (strncmp(c->options[i], "--ulimit=", prefix) == 0 && strncmp(c->options[i] + prefix, limit, n) == 0)
            return true;
    return false;
}

/* --- podman and docker --------------------------------------------------------------------------- */

/* The user of the agent, with the same number inside and outside. */
static void add_user(struct container_words *out, const struct container *c)
{
    if (c->rootless && c->runtime == CONTAINER_PODMAN) {
        container_words_add(out, "--userns=keep-id");
        return;
    }
    if (c->rootless) { /* of docker: its root is the user */
        container_words_add(out, "--user=0:0");
        return;
    }
    container_words_print(out, "--user=%u:%u", c->uid, c->gid);
    for (int i = 0; i < c->n_groups; i++)
        container_words_print(out, "--group-add=%u", c->groups[i]);
}

static void add_gpus_of_podman(struct container_words *out, const struct container *c)
{
    for (size_t i = 0; c->gpus && c->gpus[i]; i++)
        container_words_print(out, "--device=nvidia.com/gpu=%s", c->gpus[i]);
}

/* A list with commas is in quotes, for docker's own reader. */
static void add_gpus_of_docker(struct container_words *out, const struct container *c)
{
    char list[64 * 48] = "";
    size_t at = 0;
    for (size_t i = 0; c->gpus && c->gpus[i] && at < sizeof(list); i++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", i ? "," : "", c->gpus[i]);
    if (list[0])
        container_words_print(out, "--gpus=\"device=%s\"", list);
}

static void add_mounts_of_engine(struct container_words *out, const struct container *c)
{
    for (int i = 0; i < c->n_mounts; i++)
        container_words_print(out, "--mount=type=bind,source=%s,target=%s%s", c->mounts[i].from, c->mounts[i].to,
                              c->mounts[i].read_only ? ",readonly" : "");
}

static void add_env(struct container_words *out, const struct container *c)
{
    for (size_t i = 0; c->env && c->env[i]; i++)
        container_words_print(out, "--env=%s", c->env[i]);
}

static void add_limits(struct container_words *out, const struct container *c)
{
    container_words_add(out, "--pids-limit=-1");
    for (size_t i = 0; c->limits && c->limits[i]; i++)
        if (!sets_limit(c, c->limits[i]))
            container_words_print(out, "--ulimit=%s", c->limits[i]);
}

static void run_engine(struct container_words *out, const struct container *c, const char *const *argv)
{
    static const char *const shared[] = {"--network=host", "--ipc=host", "--pid=host", "--uts=host",
                                         "--security-opt=label=disable", NULL};
    const bool podman = c->runtime == CONTAINER_PODMAN;
    begin(out, c);
    container_words_add_all(out, (const char *const[]){"run", "--rm", "--pull=never", NULL});
    container_words_print(out, "--name=%s", c->name);
    container_words_print(out, "--label=jobctl.job=%lld", (long long)c->job);
    container_words_print(out, "--label=jobctl.nonce=%s", c->nonce);
    container_words_print(out, "--label=jobctl.run_dir=%s", c->run_dir);
    container_words_add_all(out, shared);
    if (podman)
        container_words_add(out, "--stop-timeout=0"); /* of rm --force, which comes when its processes had their grace */
    add_limits(out, c);
    add_user(out, c);
    if (podman)
        add_gpus_of_podman(out, c);
    else
        add_gpus_of_docker(out, c);
    if (!podman && c->cpus)
        container_words_print(out, "--cpuset-cpus=%s", c->cpus);
    add_mounts_of_engine(out, c);
    container_words_print(out, "--workdir=%s", c->workdir);
    add_env(out, c);
    if (podman && c->descriptors > 0)
        container_words_print(out, "--preserve-fds=%d", c->descriptors);
    add_options(out, c, false);
    container_words_print(out, "--entrypoint=%s", argv[0]);
    container_words_add(out, container_image_short(c->image));
    container_words_add_all(out, argv + 1);
}

/* --- apptainer, singularity ------------------------------------------------------------------------ */

static const char *image_file(const struct container *c)
{
    return c->file ? c->file : c->image;
}

static void run_apptainer(struct container_words *out, const struct container *c, const char *const *argv)
{
    begin(out, c);
    container_words_add(out, "exec");
    if (c->gpus && c->gpus[0])
        container_words_add(out, "--nv");
    for (int i = 0; i < c->n_mounts; i++)
        container_words_print(out, "--bind=%s:%s%s", c->mounts[i].from, c->mounts[i].to,
                              c->mounts[i].read_only ? ":ro" : "");
    container_words_print(out, "--pwd=%s", c->workdir);
    for (size_t i = 0; c->env && c->env[i]; i++)
        if (strchr(c->env[i], '='))
            container_words_print(out, "--env=%s", c->env[i]);
    add_options(out, c, false);
    container_words_add(out, image_file(c));
    container_words_add_all(out, argv);
}

/* --- enroot, by pyxis ------------------------------------------------------------------------------- */

static void join_mounts(char *list, size_t size, const struct container *c)
{
    size_t at = 0;
    list[0] = '\0';
    for (int i = 0; i < c->n_mounts && at < size; i++)
        at += (size_t)snprintf(list + at, size - at, "%s%s:%s%s", i ? "," : "", c->mounts[i].from, c->mounts[i].to,
                               c->mounts[i].read_only ? ":ro" : "");
}

/* The names, which override those of the image; `with`: those with a value, which srun is to set. */
static void join_env(char *list, size_t size, const struct container *c, bool with)
{
    size_t at = 0;
    list[0] = '\0';
    for (size_t i = 0; c->env && c->env[i] && at < size; i++)
        if (!with || strchr(c->env[i], '='))
            at += (size_t)snprintf(list + at, size - at, "%s%.*s", at ? "," : "",
                                   with ? (int)strlen(c->env[i]) : (int)strcspn(c->env[i], "="), c->env[i]);
}

static void run_enroot(struct container_words *out, const struct container *c, const char *const *argv)
{
    char list[32768];
    begin(out, c);
    container_words_add_all(out, (const char *const[]){"--overlap", "--nodes=1", "--ntasks=1", "--mem=0",
                                                       "--cpu-bind=none", "--unbuffered", NULL});
    container_words_print(out, "--nodelist=%s", c->node ? c->node : "");
    container_words_print(out, "--job-name=%s", c->name);
    join_env(list, sizeof(list), c, true);
    container_words_print(out, "--export=ALL%s%s", list[0] ? "," : "", list);
    container_words_print(out, "--container-image=%s", image_file(c));
    join_mounts(list, sizeof(list), c);
    container_words_print(out, "--container-mounts=%s", list);
    container_words_print(out, "--container-workdir=%s", c->workdir);
    join_env(list, sizeof(list), c, false);
    if (list[0])
        container_words_print(out, "--container-env=%s", list);
    container_words_add_all(out, (const char *const[]){"--no-container-mount-home", "--no-container-entrypoint", NULL});
    add_options(out, c, false);
    container_words_add_all(out, argv);
}

void container_run(struct container_words *out, const struct container *c, const char *const *argv)
{
    if (is_engine(c->runtime))
        run_engine(out, c, argv);
    else if (c->runtime == CONTAINER_ENROOT)
        run_enroot(out, c, argv);
    else
        run_apptainer(out, c, argv);
}

/* --- pulling ------------------------------------------------------------------------------------------ */

/* $1: the image, $2: the same with its registry; then the runtime. podman ends with 0 when SIGTERM ends a pull. */
static const char pull_of_engine[] =
    "image=$1 full=$2; shift 2\n"
    "\"$@\" image inspect \"$image\" >/dev/null 2>&1 && { echo \"image $image is on this node\"; exit 0; }\n"
    "echo \"pulling $full\"\n"
    "\"$@\" pull \"$full\" && \"$@\" image inspect \"$full\" >/dev/null\n";

/* $1: the file; then a command that makes a file from an image, which two `@` stand for.  One job at a time pulls. */
static const char pull_of_file[] =
    "file=$1 from=$2; shift 2\n"
    "[ -e \"$file\" ] && { echo \"image $file is on this node\"; exit 0; }\n"
    "mkdir -p \"${file%/*}\" || exit\n"
    "exec 9>\"$file.lock\" && flock 9\n"
    "[ -e \"$file\" ] && exit 0\n"
    "rm -f \"$file.part\"\n"
    "echo \"pulling $from\"\n"
    "\"$@\" \"$file.part\" \"$from\" && mv \"$file.part\" \"$file\"\n";

void container_pull(struct container_words *out, const struct container *c)
{
    char name[CONTAINER_IMAGE_NAME + 16];
    if (!is_engine(c->runtime) && !c->file)
        return;
    container_words_add_all(out, (const char *const[]){"/bin/sh", "-c", NULL});
    container_words_add(out, is_engine(c->runtime) ? pull_of_engine : pull_of_file);
    container_words_add(out, "jobctl");
    container_words_add(out, is_engine(c->runtime) ? container_image_short(c->image) : c->file);
    if (c->runtime == CONTAINER_ENROOT)
        container_image_enroot(name, c->image);
    else
        container_image_full(name, c->image);
    container_words_print(out, "%s%s", is_engine(c->runtime) || c->runtime == CONTAINER_ENROOT ? "" : "docker://", name);
    if (c->runtime == CONTAINER_ENROOT) {
        container_words_add_all(out, (const char *const[]){"enroot", "import", "--output", NULL});
        return;
    }
    begin(out, c);
    if (!is_engine(c->runtime))
        container_words_add(out, "pull");
}

/* --- what is left ---------------------------------------------------------------------------------------- */

/* $1: the nonce, $2: the run directory or ""; then the runtime. */
static const char remove_all[] =
    "nonce=$1 dir=$2; shift 2\n"
    "ids=$(\"$@\" ps --all --quiet --no-trunc --filter=\"label=jobctl.nonce=$nonce\" "
    "${dir:+\"--filter=label=jobctl.run_dir=$dir\"}) || exit\n"
    "[ -z \"$ids\" ] || \"$@\" rm --force $ids || exit\n"
    "echo '" CONTAINER_REMOVED "'\n";

void container_remove(struct container_words *out, const struct container *c)
{
    if (!is_engine(c->runtime))
        return;
    container_words_add_all(out, (const char *const[]){"/bin/sh", "-c", remove_all, "jobctl", c->nonce,
                                                       c->run_dir ? c->run_dir : "", NULL});
    begin(out, c);
}
