/* SPDX-License-Identifier: Apache-2.0 */
/* container_job.c - see container_job.h */
#include "agent/container/container_job.h"

#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/container/container_command.h"
#include "agent/container/container_env.h"
#include "agent/container/container_image.h"
#include "agent/container/container_kind.h"
#include "agent/container/container_mounts.h"
#include "agent/container/container_process.h"
#include "agent/container/container_sweep.h"
#include "agent/container/container_words.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

extern char **environ;

enum { GPUS = 64, GROUPS = 32, OPTIONS = 64, LIMITS = 3, LIMIT = 64 };

struct container_job {
    struct container c;
    struct container_mounts mounts;
    struct container_place p;
    char workdir[PATH_MAX], file[PATH_MAX], home[PATH_MAX + 8];
    const char *gpus[GPUS + 1], *options[OPTIONS + 1], *limits[LIMITS + 1];
    char limit[LIMITS][LIMIT], gpu_list[GPUS * 48];
    gid_t groups[GROUPS];
};

/* --- what a node has ------------------------------------------------------------------------------- */

/* Each GPU of the job once: every rank sees them all, as without a container. */
static void take_gpus(struct container_job *j)
{
    size_t i, at = 0;
    int n = 0;
    const json_t *rank;
    json_array_foreach (json_object_get(j->p.plan, "ranks"), i, rank) {
        const char *gpu = field_text(rank, "gpu");
        bool known = !gpu[0];
        for (int k = 0; k < n; k++)
            known = known || strcmp(j->gpus[k], gpu) == 0;
        if (known || n >= GPUS)
            continue;
        at += (size_t)snprintf(j->gpu_list + at, sizeof(j->gpu_list) - at, "%s%.44s", n ? "," : "", gpu);
        j->gpus[n++] = gpu;
    }
    j->c.gpus = j->gpus;
}

static void take_options(struct container_job *j)
{
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get(json_object_get(j->p.spec, "image"), "options"), i, one)
        if (i < OPTIONS)
            j->options[i] = json_string_value(one);
    j->c.options = j->options;
}

static rlim_t pid_max(void)
{
    unsigned long long n = 0;
    FILE *f = fopen("/proc/sys/kernel/pid_max", "re");
    if (f && fscanf(f, "%llu", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n ? (rlim_t)n : RLIM_INFINITY;
}

static void put_limit(char out[LIMIT], const char *name, const struct rlimit *l)
{
    snprintf(out, LIMIT, "%s=%lld:%lld", name, l->rlim_cur == RLIM_INFINITY ? -1 : (long long)l->rlim_cur,
             l->rlim_max == RLIM_INFINITY ? -1 : (long long)l->rlim_max);
}

/* Those of the agent: podman's defaults are higher, and refused where root has not all rights.  podman lowers its own
 * limit of processes to kernel.pid_max.  The daemon of docker has its own, and may lock memory. */
static void take_limits(struct container_job *j)
{
    static const struct {
        const char *name;
        __rlimit_resource_t resource;
    } rows[LIMITS] = {{"memlock", RLIMIT_MEMLOCK}, {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}};
    const bool docker = j->c.kind->daemon;
    const rlim_t most = pid_max();
    for (int i = 0; i < (docker ? 1 : LIMITS); i++) {
        struct rlimit l = {RLIM_INFINITY, RLIM_INFINITY};
        if (!docker)
            getrlimit(rows[i].resource, &l);
        if (rows[i].resource == RLIMIT_NPROC) {
            l.rlim_max = l.rlim_max < most ? l.rlim_max : most;
            l.rlim_cur = l.rlim_cur < l.rlim_max ? l.rlim_cur : l.rlim_max;
        }
        put_limit(j->limit[i], rows[i].name, &l);
        j->limits[i] = j->limit[i];
    }
    j->c.limits = j->limits;
}

static void take_user(struct container_job *j)
{
    const int n = getgroups(GROUPS, j->groups);
    j->c.uid = geteuid();
    j->c.gid = getegid();
    j->c.groups = j->groups;
    j->c.n_groups = j->c.uid != 0 && n > 0 ? n : 0;
}

/* Pulled images of runtimes that have no store of their own. */
static int take_file(struct container_job *j, struct err *err)
{
    char name[CONTAINER_IMAGE_NAME];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool xdg = cache && cache[0] == '/';
    if (!j->c.kind->file || container_image_is_file(j->c.image))
        return 0;
    if (!xdg && (!home || home[0] != '/'))
        return err_set(err, ERR_SYSTEM, "image: HOME is not set on this node, so the pulled image cannot be stored");
    container_image_file_name(name, j->c.image);
    if (snprintf(j->file, sizeof(j->file), "%s%s/jobctl/images/%s%s", xdg ? cache : home, xdg ? "" : "/.cache", name,
                 j->c.kind->file) >= (int)sizeof(j->file))
        return err_set(err, ERR_SYSTEM, "image: the path of the cache directory is too long");
    j->c.file = j->file;
    return 0;
}

/* --- what the job has ------------------------------------------------------------------------------ */

static int take_workdir(struct container_job *j, struct err *err)
{
    const char *given = field_text(j->p.spec, "workdir");
    if (given[0])
        snprintf(j->workdir, sizeof(j->workdir), "%s", given);
    else if (!getcwd(j->workdir, sizeof(j->workdir)))
        return err_set(err, ERR_SYSTEM, "the working directory no longer exists on this node");
    j->c.workdir = j->workdir;
    return 0;
}

static const char *profiler_of(const json_t *plan)
{
    size_t i;
    const json_t *row;
    json_array_foreach (json_object_get(plan, "env"), i, row)
        if (strcmp(field_text(row, "name"), "NCCL_PROFILER_PLUGIN") == 0)
            return field_text(row, "value");
    return NULL;
}

/* The directory above the run directory is the job's own. */
static int mount_ours(struct container_job *j, struct err *err)
{
    char job_dir[PATH_MAX];
    const json_t *checkpoint = json_object_get(j->p.spec, "checkpoint");
    const char *resume = field_text(j->p.spec, "resume");
    snprintf(job_dir, sizeof(job_dir), "%s", j->p.run_dir);
    char *slash = strrchr(job_dir, '/');
    if (slash && slash > job_dir)
        *slash = '\0';
    if (container_mounts_add(&j->mounts, job_dir, false, err) < 0 ||
        container_mounts_add(&j->mounts, j->workdir, false, err) < 0 ||
        container_mounts_add(&j->mounts, j->p.ckpt_dir, false, err) < 0 ||
        container_mounts_add(&j->mounts, field_text(checkpoint, "mirror"), false, err) < 0 ||
        container_mounts_add(&j->mounts, resume[0] == '/' ? resume : NULL, true, err) < 0)
        return -1;
    return container_mounts_add(&j->mounts, profiler_of(j->p.plan), true, err);
}

static int mount_theirs(struct container_job *j, struct err *err)
{
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get(json_object_get(j->p.spec, "image"), "mounts"), i, one) {
        struct err why = {.code = ERR_NONE};
        if (container_mounts_parse(&j->mounts, json_string_value(one), &why) < 0)
            return err_set(err, why.code, "image.mounts: %s", why.text);
        if (access(j->mounts.all[j->mounts.n - 1].from, F_OK) < 0)
            return err_set(err, ERR_CONFLICT, "image.mounts: %.300s does not exist on this node",
                           j->mounts.all[j->mounts.n - 1].from);
    }
    return 0;
}

static int take_mounts(struct container_job *j, struct err *err)
{
    struct err why = {.code = ERR_NONE};
    if (mount_theirs(j, err) < 0)
        return -1;
    if (mount_ours(j, &why) < 0)
        return err_set(err, why.code, "image: %s", why.text);
    container_mounts_settle(&j->mounts);
    j->c.mounts = j->mounts.all;
    j->c.n_mounts = j->mounts.n;
    return 0;
}

/* A home that is not mounted is no place for caches of a user who is not root in the container. */
static void take_home(struct container_job *j)
{
    const char *home = getenv("HOME");
    if (j->c.kind->file || j->c.uid == 0 || (j->c.kind->daemon && j->c.rootless))
        return;
    const bool mounted = home && home[0] == '/' && container_mounts_cover(&j->mounts, home);
    snprintf(j->home, sizeof(j->home), "HOME=%s", mounted ? home : "/tmp");
}

/* --- creation ---------------------------------------------------------------------------------------- */

static int fill(struct container_job *j, struct err *err)
{
    const json_t *chosen = json_object_get(j->p.plan, "container");
    j->c.kind = container_kind_of(field_text(chosen, "runtime"));
    j->c.program = field_text(chosen, "path");
    j->c.rootless = field_true(chosen, "rootless");
    j->c.image = field_text(json_object_get(j->p.spec, "image"), "image");
    j->c.node = getenv("SLURMD_NODENAME");
    if (!j->c.kind || !j->c.program[0])
        return err_set(err, ERR_BUG, "the plan has no container runtime that this agent knows");
    take_gpus(j);
    take_options(j);
    take_limits(j);
    take_user(j);
    if (take_file(j, err) < 0 || take_workdir(j, err) < 0 || take_mounts(j, err) < 0)
        return -1;
    take_home(j);
    return container_sweep_note(&j->c, err);
}

int container_job_create(struct container_job **out, const struct container_place *place, struct err *err)
{
    struct container_job *j = calloc(1, sizeof(*j));
    if (!j)
        return err_set(err, ERR_MEMORY, "no memory for a container");
    j->p = *place;
    json_incref((json_t *)(uintptr_t)place->spec);
    json_incref((json_t *)(uintptr_t)place->plan);
    j->c.job = place->job;
    j->c.run_dir = place->run_dir;
    j->c.nonce = place->nonce;
    if (fill(j, err) < 0) {
        container_job_destroy(j);
        return -1;
    }
    *out = j;
    return 0;
}

void container_job_destroy(struct container_job *j)
{
    if (!j)
        return;
    container_mounts_fini(&j->mounts);
    json_decref((json_t *)(uintptr_t)j->p.spec);
    json_decref((json_t *)(uintptr_t)j->p.plan);
    free(j);
}

void container_job_name(const struct container_job *j, char out[CONTAINER_NAME], int generation, int rank)
{
    snprintf(out, CONTAINER_NAME, "jobctl-%lld.%lld-g%d-n%d-r%d-%.8s", (long long)j->c.job, (long long)j->p.attempt,
             generation, j->p.node, rank, j->p.nonce);
}

bool container_job_is_apart(const struct container_job *j)
{
    return j->c.kind->apart;
}

/* --- command lines ------------------------------------------------------------------------------------ */

/* Numbers of descriptors say nothing where none are handed on. */
static bool is_descriptor(const struct container_job *j, const char *entry)
{
    return !j->c.kind->descriptors &&
           (strncmp(entry, "JOBCTL_EVENT_FD=", 16) == 0 || strncmp(entry, "JOBCTL_CONTROL_FD=", 18) == 0);
}

static void split(const struct container_job *j, char *const *env, char *const *node, struct container_words *inside,
                  struct container_words *outside)
{
    for (size_t i = 0; env[i]; i++) {
        const enum container_env_way way = container_env_way(env[i], node);
        if (way == CONTAINER_ENV_PASS && !is_descriptor(j, env[i])) {
            container_words_print(inside, "%.*s", (int)strcspn(env[i], "="), env[i]);
            container_words_add(outside, env[i]);
        } else if (way == CONTAINER_ENV_SET) {
            container_words_add(inside, env[i]);
        }
    }
}

/* podman and docker are asked from here, from the guardian and by the controller: each time in the environment of the
 * agent, so that the same store or daemon answers. */
static void add_tools(const struct container_job *j, char *const *node, struct container_words *outside)
{
    char *const *from = j->c.kind->file ? node : environ;
    for (size_t i = 0; from[i]; i++)
        if (container_env_way(from[i], from) == CONTAINER_ENV_TOOL)
            container_words_add(outside, from[i]);
}

static void add_ours(const struct container_job *j, const char *name, struct container_words *inside,
                     struct container_words *outside)
{
    if (container_job_is_apart(j))
        container_words_print(inside, CONTAINER_MARK "=%s", name);
    bool home = j->home[0] == '\0';
    for (int i = 0; i < inside->n; i++)
        home = home || strncmp(inside->word[i], "HOME=", 5) == 0;
    if (!home)
        container_words_add(inside, j->home);
    if (!j->c.kind->gpus_variable)
        return;
    container_words_add(inside, j->c.kind->gpus_variable);
    container_words_print(outside, "%s=%s", j->c.kind->gpus_variable, j->gpu_list[0] ? j->gpu_list : "void");
}

/* srun separates the variables that it is to set by commas. */
static int check_values(const struct container_job *j, const struct container_words *inside, struct err *err)
{
    for (int i = 0; j->c.kind->env.join && i < inside->n; i++)
        if (strchr(inside->word[i], ',') && strchr(inside->word[i], '='))
            return err_set(err, ERR_CONFLICT, "env.%.*s: with %s, its value may not contain ','",
                           (int)strcspn(inside->word[i], "="), inside->word[i], j->c.kind->name);
    return 0;
}

static int end(struct container_words *argv, struct container_words *env, struct err *err)
{
    if (container_words_end(argv) && container_words_end(env))
        return 0;
    return err_set(err, ERR_MEMORY, "no memory for the command line of a container");
}

int container_job_command(const struct container_job *j, const struct container_start *s, struct container_words *argv,
                          struct container_words *env, struct err *err)
{
    struct container_words inside = {.word = NULL};
    struct container c = j->c;
    split(j, s->env, s->node_env, &inside, env);
    if (check_values(j, &inside, err) < 0) {
        container_words_fini(&inside);
        return -1;
    }
    add_tools(j, s->node_env, env);
    add_ours(j, s->name, &inside, env);
    c.name = s->name;
    c.env = container_words_end(&inside);
    c.descriptors = s->descriptors;
    c.cpus = s->cpus;
    if (!c.env)
        argv->failed = true;
    else
        container_run(argv, &c, s->argv);
    container_words_fini(&inside);
    return end(argv, env, err);
}

int container_job_pull(const struct container_job *j, const struct container_start *s, struct container_words *argv,
                       struct container_words *env, struct err *err)
{
    struct container_words inside = {.word = NULL};
    split(j, s->env, s->node_env, &inside, env);
    add_tools(j, s->node_env, env);
    container_words_fini(&inside);
    container_pull(argv, &j->c);
    return end(argv, env, err);
}

void container_job_remove(const struct container_job *j, bool all, struct container_words *argv)
{
    struct container c = j->c;
    if (all)
        c.run_dir = NULL;
    container_remove(argv, &c);
    if (argv->n)
        container_words_end(argv);
}
