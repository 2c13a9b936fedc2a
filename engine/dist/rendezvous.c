/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.c - see rendezvous.h */
#include "engine/dist/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/env.h"
#include "engine/base/err.h"
#include "engine/base/json_text.h"
#include "engine/contract/progress.h"
#include "engine/base/write_all.h"
#include "engine/dist/dist.h"

enum { VALUE = 1024, PATH = 4096 };

struct rendezvous {
    struct dist_bootstrap bootstrap;
    struct progress      *progress; /* or NULL */
    const char           *dir;      /* or NULL */
    json_t               *read;     /* key: value, of files already read */
    int                  *first;
};

static const char *env_text(const char *name, const char *none)
{
    const char *text = getenv(name);
    return text && *text ? text : none;
}

/* --- through files -------------------------------------------------------------------------- */

static int file_of(const struct rendezvous *r, char path[PATH], const char *key, const char *suffix)
{
    int n = snprintf(path, PATH, "%s/%.20s.%.20s.%.20s.%.40s%s", r->dir, env_text("JOBCTL_JOB_ID", "0"),
                     env_text("JOBCTL_ATTEMPT", "1"), env_text("JOBCTL_GENERATION", "1"), key, suffix);
    return n < PATH ? 0 : -1;
}

static int put_file(const struct rendezvous *r, const char *key, const char *value, struct err *err)
{
    char path[PATH], whole[PATH], mine[32];
    snprintf(mine, sizeof(mine), ".%d", (int)getpid());
    if (file_of(r, path, key, mine) < 0 || file_of(r, whole, key, "") < 0)
        return err_set(err, ERR_USAGE, "JOBCTL_RENDEZVOUS is too long");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, value, strlen(value)) < 0 || close(fd) < 0 || rename(path, whole) < 0)
        return err_set_errno(err, errno, "cannot write %.200s, from which the ranks of other nodes "
                       "read this rank's address", whole);
    return 0;
}

static const char *get_file(struct rendezvous *r, const char *key)
{
    char path[PATH], value[VALUE];
    const char *known = json_string_value(json_object_get(r->read, key));
    if (known || file_of(r, path, key, "") < 0)
        return known;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t n = read(fd, value, sizeof(value));
    close(fd);
    if (n > 0 && n < (ssize_t)sizeof(value))
        json_object_set_new(r->read, key, json_text_n(value, (size_t)n));
    return json_string_value(json_object_get(r->read, key));
}

/* --- through the agent or files ------------------------------------------------------------ */

static int put(void *arg, const char *key, const char *value, struct err *err)
{
    struct rendezvous *r = arg;
    if (r->dir)
        return put_file(r, key, value, err);
    if (!r->progress || !progress_has_agent(r->progress))
        return err_set(err, ERR_USAGE, "the ranks have no way to exchange addresses: set "
                       "JOBCTL_RENDEZVOUS to a directory that all nodes share");
    progress_rendezvous(r->progress, key, value);
    return 0;
}

static const char *get(void *arg, const char *key)
{
    struct rendezvous *r = arg;
    return r->dir ? get_file(r, key) : r->progress ? progress_rendezvous_find(r->progress, key)
                                                   : NULL;
}

/* --- ranks per node ------------------------------------------------------------------------ */

static int count_nodes(struct rendezvous *r, const char *list, int world, struct err *err)
{
    int at = 0;
    for (const char *text = list; at < world;) {
        char *end;
        long n = strtol(text, &end, 10);
        if (n < 1 || n > world - at || (*end && *end != ','))
            break;
        r->first[r->bootstrap.nodes++] = at;
        at += (int)n;
        if (!*end)
            break;
        text = end + 1;
    }
    r->first[r->bootstrap.nodes] = world;
    if (at == world)
        return 0;
    return err_set(err, ERR_USAGE, "JOBCTL_NODE_RANKS is \"%.60s\"; it must be the number of ranks "
                   "on each node, like 4,4, and their sum must be WORLD_SIZE (%d)", list, world);
}

static int find_nodes(struct rendezvous *r, int world, struct err *err)
{
    const char *list = env_text("JOBCTL_NODE_RANKS", NULL);
    int each = world;
    if (list)
        return count_nodes(r, list, world, err);
    if (env_int("LOCAL_WORLD_SIZE", 1, &each, err) < 0)
        return -1;
    if (each < 1 || each > world || world % each)
        return err_set(err, ERR_USAGE, "LOCAL_WORLD_SIZE %d and WORLD_SIZE %d do not determine the "
                       "ranks of each node: set JOBCTL_NODE_RANKS, like 4,4,2", each, world);
    r->bootstrap.nodes = world / each;
    for (int i = 0; i <= r->bootstrap.nodes; i++)
        r->first[i] = i * each;
    return 0;
}

/* --- create, destroy ----------------------------------------------------------------------- */

int rendezvous_open(struct rendezvous **out, struct progress *progress, int world, struct err *err)
{
    struct rendezvous *r = calloc(1, sizeof(*r));
    if (r)
        r->first = calloc((size_t)world + 1, sizeof(*r->first));
    if (!r || !r->first || !(r->read = json_object())) {
        rendezvous_close(r);
        return err_set(err, ERR_MEMORY, "out of memory for %d ranks", world);
    }
    r->progress = progress;
    r->dir = env_text("JOBCTL_RENDEZVOUS", NULL);
    r->bootstrap.first = r->first;
    r->bootstrap.interface = env_text("JOBCTL_INTERFACE", NULL);
    r->bootstrap.address = env_text("JOBCTL_NODE_ADDR", NULL);
    r->bootstrap.put = put;
    r->bootstrap.get = get;
    r->bootstrap.arg = r;
    if (find_nodes(r, world, err) < 0) {
        rendezvous_close(r);
        return -1;
    }
    *out = r;
    return 0;
}

void rendezvous_close(struct rendezvous *r)
{
    if (!r)
        return;
    json_decref(r->read);
    free(r->first);
    free(r);
}

const struct dist_bootstrap *rendezvous_exchange(const struct rendezvous *r)
{
    return &r->bootstrap;
}
