/* SPDX-License-Identifier: Apache-2.0 */
/* launch_env.c - see launch_env.h */
#include "agent/ranks/launch_env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "agent/os/env_file.h"
#include "agent/ranks/snapshot_memfds.h"
#include "engine/checkpoint/snapshot.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Variables of other launchers, which ranks must not inherit. */
static const char *const foreign[] = {
    "RANK",        "WORLD_SIZE",       "LOCAL_RANK",   "LOCAL_WORLD_SIZE", "NODE_RANK",
    "GROUP_RANK",  "GROUP_WORLD_SIZE", "ROLE_RANK",    "ROLE_WORLD_SIZE",  "ROLE_NAME",
    "MASTER_ADDR", "MASTER_PORT",      "NCCL_COMM_ID", "NCCL_HOSTID",
};
static const char *const foreign_prefix[] = {
    "JOBCTL_", "TORCHELASTIC_", "OMPI_COMM_WORLD_", "PMI_", "PMIX_",
};

static bool is_foreign(const char *entry)
{
    size_t len = strcspn(entry, "=");
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        if (strlen(foreign[i]) == len && strncmp(entry, foreign[i], len) == 0)
            return true;
    /* a rank that calls jobctl must reach this daemon, and the locks of this machine */
    if (strncmp(entry, "JOBCTL_HOME=", 12) == 0 || strncmp(entry, "JOBCTL_MACHINE_DIR=", 19) == 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(foreign_prefix); i++)
        if (strncmp(entry, foreign_prefix[i], strlen(foreign_prefix[i])) == 0)
            return true;
    return false;
}

/* NUL-terminated entries, one after another. */
struct entries {
    struct buf text;
    bool failed;
};

/* Removes an earlier entry of the same name. */
static void forget(struct entries *e, const char *name)
{
    size_t len = strlen(name);
    for (size_t at = 0; at < e->text.size;) {
        char *p = e->text.data + at;
        size_t n = strlen(p) + 1;
        if (strncmp(p, name, len) == 0 && p[len] == '=') {
            memmove(p, p + n, e->text.size - at - n);
            e->text.size -= n;
        } else {
            at += n;
        }
    }
}

static void put(struct entries *e, const char *name, const char *value)
{
    forget(e, name);
    if (buf_print(&e->text, "%s=%s", name, value) < 0 || buf_append(&e->text, "", 1) < 0)
        e->failed = true;
}

static void put_int(struct entries *e, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    put(e, name, text);
}

/* The maximum number of entries. */
static void put_rows(struct entries *e, const json_t *plan, const char *list, size_t most)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(plan, list), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        const char *value = json_string_value(json_object_get(row, "value"));
        if (name && value && i < most)
            put(e, name, value);
    }
}

/* An inherited or planned value takes precedence. */
static bool has(const struct entries *e, const char *name)
{
    const size_t len = strlen(name);
    for (size_t at = 0; at < e->text.size; at += strlen(e->text.data + at) + 1)
        if (strncmp(e->text.data + at, name, len) == 0 && e->text.data[at + len] == '=')
            return true;
    return false;
}

/* NCCL's RAS needs a port per job; on a shared default port it would report ranks of other jobs. */
static void put_ras(struct entries *e, const struct launch_env *l)
{
    char address[32];
    if (l->ras_port <= 0 || has(e, "NCCL_RAS_ADDR") || has(e, "NCCL_RAS_ENABLE"))
        return;
    snprintf(address, sizeof(address), "localhost:%d", l->ras_port);
    put(e, "NCCL_RAS_ADDR", address);
}

const json_t *launch_env_row(const struct launch_env *e, int rank)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(e->plan, "ranks"), i, row)
    {
        if (json_integer_value(json_object_get(row, "rank")) == rank)
            return row;
    }
    return NULL;
}

void launch_env_recall(struct launch_env *e, const struct snapshot_memfds_claim *claims, int n)
{
    const struct snapshot_memfds_claim newest = snapshot_memfds_newest(claims, n);
    const bool good = !e->forget && newest.step > 0 && newest.step >= e->resume_step;
    e->from = good ? newest.generation : 0;
    e->snapshot_step = good ? newest.step : 0;
}

int launch_env_local(const struct launch_env *e)
{
    return e->local_ranks > 0 ? e->local_ranks : e->world_size;
}

/* The variables that torchrun sets. */
static void put_torchrun(struct entries *e, const struct launch_env *l, int rank)
{
    char id[96];
    snprintf(id, sizeof(id), "jobctl-%lld.%lld", (long long)l->job, (long long)l->attempt);
    put(e, "MASTER_ADDR", l->master_addr ? l->master_addr : "127.0.0.1");
    put_int(e, "MASTER_PORT", l->master_port);
    put_int(e, "RANK", rank);
    put_int(e, "LOCAL_RANK", rank - l->first_rank);
    put_int(e, "ROLE_RANK", rank);
    put_int(e, "WORLD_SIZE", l->world_size);
    put_int(e, "LOCAL_WORLD_SIZE", launch_env_local(l));
    put_int(e, "ROLE_WORLD_SIZE", l->world_size);
    put_int(e, "NODE_RANK", l->node_rank);
    put_int(e, "GROUP_RANK", l->node_rank);
    put_int(e, "GROUP_WORLD_SIZE", l->nodes > 1 ? l->nodes : 1);
    put(e, "ROLE_NAME", "default");
    put(e, "TORCHELASTIC_RUN_ID", id);
    put_int(e, "TORCHELASTIC_RESTART_COUNT", l->generation - 1);
    put_int(e, "TORCHELASTIC_MAX_RESTARTS", l->restarts);
}

static void put_snapshots(struct entries *e, const struct launch_env *l)
{
    char list[SNAPSHOT_RANKS * 12] = "";
    size_t at = 0;
    if (l->snapshot_fd > 0)
        put_int(e, "JOBCTL_SNAPSHOT_FD", l->snapshot_fd);
    for (int i = 0; i < l->old_fds && at < sizeof(list) - 12; i++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%d", i ? "," : "", l->old_fd + i);
    if (at)
        put(e, "JOBCTL_SNAPSHOT_OLD", list);
}

static void put_ours(struct entries *e, const struct launch_env *l, int rank)
{
    put_int(e, "JOBCTL_JOB_ID", l->job);
    put(e, "JOBCTL_JOB_NAME", l->name);
    put_int(e, "JOBCTL_ATTEMPT", l->attempt);
    put_int(e, "JOBCTL_GENERATION", l->generation);
    put(e, "JOBCTL_NONCE", l->nonce);
    put(e, "JOBCTL_RUN_DIR", l->run_dir);
    put(e, "JOBCTL_CKPT_DIR", l->ckpt_dir);
    if (l->workdir && l->workdir[0])
        put(e, "JOBCTL_WORKDIR", l->workdir);
    if (l->fence && l->fence[0])
        put(e, "JOBCTL_LEASE", l->fence);
    if (l->deadline_s > 0)
        put_int(e, "JOBCTL_DEADLINE", l->deadline_s);
    if (l->node_ranks)
        put(e, "JOBCTL_NODE_RANKS", l->node_ranks);
    if (l->node_addr)
        put(e, "JOBCTL_NODE_ADDR", l->node_addr);
    if ((l->generation > 0 || l->fetch) && l->event_fd >= 0)
        put_int(e, "JOBCTL_EVENT_FD", l->event_fd);
    if (l->generation == 0)
        return;
    char flight[4096];
    snprintf(flight, sizeof(flight), "%s/rank%d.flight", l->run_dir, rank);
    put(e, "JOBCTL_FLIGHT", flight);
    if (l->control_fd >= 0)
        put_int(e, "JOBCTL_CONTROL_FD", l->control_fd);
    if (l->resume_step >= 0)
        put_int(e, "JOBCTL_RESUME_STEP", l->resume_step);
    if (l->skip_step >= 0)
        put_int(e, "JOBCTL_SKIP_STEP", l->skip_step);
    if (l->rejoin)
        put(e, "JOBCTL_REJOIN", "1");
    put_snapshots(e, l);
}

/* Python then prints all stacks before it dies (agent/ranks/stack_dump.h). */
static void put_faulthandler(struct entries *e, const struct launch_env *l)
{
    if (l->generation > 0 && !json_is_true(json_object_get(l->plan, "engine")) &&
        !has(e, "PYTHONFAULTHANDLER"))
        put(e, "PYTHONFAULTHANDLER", "1");
}

/* Pointers and text in one block. */
static char **pack(const struct entries *e)
{
    size_t n = 0;
    for (size_t at = 0; at < e->text.size; at += strlen(e->text.data + at) + 1)
        n++;
    char **out = malloc((n + 1) * sizeof(*out) + e->text.size);
    if (!out)
        return NULL;
    char *text = (char *)(out + n + 1);
    memcpy(text, e->text.data, e->text.size);
    for (size_t i = 0; i < n; i++) {
        out[i] = text;
        text += strlen(text) + 1;
    }
    out[n] = NULL;
    return out;
}

static void keep(struct entries *e, const char *entry)
{
    if (buf_append(&e->text, entry, strlen(entry) + 1) < 0)
        e->failed = true;
}

char **launch_env_base(enum submit_env_place place, char *const *own, const struct buf *entries)
{
    struct entries e = {0};
    for (size_t i = 0; own[i]; i++)
        if (submit_env_is_nodes(place, own[i]))
            keep(&e, own[i]);
    for (const char *at = NULL; (at = env_file_next(entries, at));)
        if (strchr(at, '=') && !submit_env_is_nodes(place, at))
            keep(&e, at);
    char **out = e.failed ? NULL : pack(&e);
    buf_fini(&e.text);
    return out;
}

char **launch_env_make(const struct launch_env *l, int rank, char *const *inherited, struct err *err)
{
    struct entries e = {0};
    for (size_t i = 0; inherited[i]; i++)
        if (!is_foreign(inherited[i]))
            keep(&e, inherited[i]);
    put_rows(&e, l->plan, "env", SIZE_MAX);
    const char *uuids = json_string_value(json_object_get(l->plan, "uuids"));
    if (uuids && l->gpus_moved)
        put(&e, "CUDA_VISIBLE_DEVICES", uuids);
    put_rows(&e, l->plan, "fallbacks", (size_t)l->fallbacks);
    if (l->generation > 0) {
        put_torchrun(&e, l, rank);
        put_ras(&e, l);
    }
    put_ours(&e, l, rank);
    put_faulthandler(&e, l);
    put_rows(&e, l->plan, "user_env", SIZE_MAX);
    const char *name;
    json_t *value;
    json_t *secrets = (json_t *)(uintptr_t)l->secrets; /* iterating does not modify it */
    json_object_foreach(secrets, name, value) if (json_is_string(value))
        put(&e, name, json_string_value(value));
    char **out = e.failed ? NULL : pack(&e);
    if (!out)
        err_set(err, ERR_MEMORY, "no memory for the environment of rank %d", rank);
    buf_fini(&e.text);
    return out;
}

int launch_env_free_port(struct err *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
        getsockname(fd, (struct sockaddr *)&a, &size) == 0)
        port = ntohs(a.sin_port);
    else
        err_set(err, ERR_SYSTEM, "no free TCP port: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return port;
}
