/* SPDX-License-Identifier: Apache-2.0 */
/* orphan.c - see orphan.h */
#include "controller/nodes/orphan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/job_dir.h"
#include "controller/remote/remote.h"
#include "db/attempts.h"
#include "engine/contract/err.h"

enum { FIRST_CALL_MS = 1000 };

struct orphan {
    struct daemon       *daemon;
    const struct remote *remote;
    struct remote_link  *link;
    int                  node;
    struct attempt_row   attempt;       /* `node` and `run_dir` are the orphan's */
    struct orphan       *next;
};

static void folder(char *out, size_t size, const struct daemon *d)
{
    snprintf(out, size, "%.3900s/orphans", d->home);
}

/* JOB.ATTEMPT; for nodes 1, 2, ... JOB.ATTEMPT.NODE */
static void path_of(char *out, size_t size, const struct orphan *s)
{
    char node[16] = "";
    if (s->node > 0)
        snprintf(node, sizeof(node), ".%d", s->node);
    snprintf(out, size, "%.3900s/orphans/%lld.%lld%s", s->daemon->home, (long long)s->attempt.job,
             (long long)s->attempt.attempt, node);
}

static void let_go(struct orphan *s)
{
    struct orphan **at = &s->daemon->orphans;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->remote->close(s->link);
    free(s);
}

static void forget(struct orphan *s)
{
    char path[PATH_MAX];
    path_of(path, sizeof(path), s);
    unlink(path);
    let_go(s);
}

/* The remote helper ends the agent and its processes before it reports. */
static void hear(void *arg, enum wire_message number, const json_t *body)
{
    (void)arg;
    (void)number;
    (void)body;
}

static void proven_gone(void *arg, const char *text)
{
    const struct orphan *s = arg;
    log_info(NULL, "job %lld: the orphaned attempt %lld on %s has ended: %s",
             (long long)s->attempt.job,
             (long long)s->attempt.attempt, s->attempt.node, text);
    forget(arg);
}

static int64_t acked(void *arg)
{
    const struct orphan *s = arg;
    return s->attempt.acked;
}

/* Takes ownership. */
static void call(struct orphan *s)
{
    struct err err = { 0 };
    char key[48];
    remote_key(key, sizeof(key), s->daemon->instance, s->attempt.job);
    const struct remote_link_spec spec = { .job = s->attempt.job, .attempt = s->attempt.attempt,
                                    .nonce = s->attempt.nonce, .run_dir = s->attempt.run_dir,
                                    .host = s->attempt.node, .key = key, .dismiss = true,
                                    .node = s->node, .nodes = s->node + 1,
                                    .delay_ms = FIRST_CALL_MS };
    const struct remote_link_hooks hooks = { .message = hear, .lost = proven_gone, .acked = acked,
                                      .arg = s };
    if (s->remote->open(&s->link, &s->daemon->loop, &spec, &hooks, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        free(s);
        return;
    }
    s->next = s->daemon->orphans;
    s->daemon->orphans = s;
}

static struct orphan *orphan_make(struct daemon *d, const struct attempt_row *row,
                                  const struct remote *remote, int node, const char *host)
{
    struct orphan *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->daemon = d;
    s->remote = remote;
    s->node = node;
    s->attempt = *row;
    snprintf(s->attempt.node, sizeof(s->attempt.node), "%s", host);
    job_dir_node(s->attempt.run_dir, sizeof(s->attempt.run_dir), row->run_dir, node);
    return s;
}

void orphan_add(struct daemon *d, const struct attempt_row *row, const struct remote *remote,
                int node,
                const char *host)
{
    char path[PATH_MAX];
    struct orphan *s = orphan_make(d, row, remote, node, host);
    if (!s)
        return;
    folder(path, sizeof(path), d);
    mkdir(path, 0700);
    path_of(path, sizeof(path), s);
    FILE *f = fopen(path, "we");
    if (!f || fprintf(f, "%s %s\n", remote->name, host) < 0)
        log_error(NULL, "cannot record an orphaned agent in %s: %m", path);
    if (f)
        fclose(f);
    call(s);
}

const char *orphan_of(const struct daemon *d, int64_t job)
{
    for (const struct orphan *s = d->orphans; s; s = s->next)
        if (s->attempt.job == job)
            return s->attempt.node;
    return NULL;
}

/* Reads launcher and host; files of older controllers lack them: launch: ssh. */
static const struct remote *read_file(char host[128], const char *path)
{
    char name[16] = "";
    FILE *f = fopen(path, "re");
    host[0] = 0;
    if (f && fscanf(f, "%15s %127s", name, host) < 1)
        name[0] = 0;
    if (f)
        fclose(f);
    return strcmp(name, remote_local.name) == 0 ? &remote_local : &remote_ssh;
}

/* Older controllers kept the files in `strays`. */
static void take_over(const struct daemon *d, const char *to)
{
    char from[PATH_MAX], was[PATH_MAX], is[PATH_MAX];
    snprintf(from, sizeof(from), "%.3900s/strays", d->home);
    DIR *dir = opendir(from);
    if (dir)
        mkdir(to, 0700);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(was, sizeof(was), "%.3900s/%.100s", from, e->d_name);
        snprintf(is, sizeof(is), "%.3900s/%.100s", to, e->d_name);
        if (e->d_name[0] != '.' && rename(was, is) < 0)
            log_error(NULL, "cannot move %s to %s: %m", was, is);
    }
    if (dir)
        closedir(dir);
    rmdir(from);
}

void orphan_open(struct daemon *d)
{
    char path[PATH_MAX];
    folder(path, sizeof(path), d);
    take_over(d, path);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long long job, attempt;
        int node = 0;
        struct attempt_row row;
        if (sscanf(e->d_name, "%lld.%lld.%d", &job, &attempt, &node) < 2 ||
            attempts_get(&row, d->store, job, attempt, NULL) < 0)
            continue;
        char file[PATH_MAX], host[128];
        snprintf(file, sizeof(file), "%.3900s/%.100s", path, e->d_name);
        const struct remote *remote = read_file(host, file);
        struct orphan *s = orphan_make(d, &row, remote, node, host[0] ? host : row.node);
        if (s)
            call(s);
    }
    if (dir)
        closedir(dir);
}

void orphan_close(struct daemon *d)
{
    while (d->orphans)
        let_go(d->orphans);
}
