/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - see lease.h */
#include "agent/mirror/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/clock.h"
#include "engine/contract/err.h"
#include "engine/contract/safe_open.h"
#include "engine/contract/scratch.h"

enum { SCHEMA = 1, LOOK_MS = 100 };

/* The contents of the lease file. */
struct holder {
    char            origin[LEASE_ORIGIN], host[LEASE_HOST];
    struct identity who;
    int64_t         token, beat;
    bool            released;
};

static int path_of(char *out, const struct lease *l, struct err *err)
{
    if (snprintf(out, LEASE_PATH, "%s/lease.json", l->dir) >= LEASE_PATH)
        return err_set(err, ERR_USAGE, "the mirror's path is too long: %s", l->dir);
    return 0;
}

static void take_text(char *out, size_t size, const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    snprintf(out, size, "%s", text ? text : "");
}

/* 1 and *h; 0: no holder so far; -1: error. */
static int read_holder(struct holder *h, const struct lease *l, struct err *err)
{
    char path[LEASE_PATH];
    struct err why = {0};
    if (path_of(path, l, err) < 0)
        return -1;
    json_t *o = safe_open_json(path, 0, &why);
    if (!o && access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    if (!o)
        return err_set(err, ERR_DATA, "'%s' cannot be read: %s", path, why.text);
    *h = (struct holder){.token = json_integer_value(json_object_get(o, "token")),
                         .beat = json_integer_value(json_object_get(o, "beat")),
                         .released = json_is_true(json_object_get(o, "released")),
                         .who.pid = json_integer_value(json_object_get(o, "pid")),
                         .who.start_time = json_integer_value(json_object_get(o, "start_time"))};
    take_text(h->origin, sizeof(h->origin), o, "origin");
    take_text(h->host, sizeof(h->host), o, "host");
    take_text(h->who.boot_id, sizeof(h->who.boot_id), o, "boot_id");
    const bool schema = json_integer_value(json_object_get(o, "schema")) == SCHEMA;
    json_decref(o);
    if (!schema || h->token < 1)
        return err_set(err, ERR_DATA, "'%s' is not a lease file of this version of jobctl", path);
    return 1;
}

static int write_holder(const struct lease *l, bool released, struct err *err)
{
    char path[LEASE_PATH], tmp[SCRATCH_PATH];
    if (path_of(path, l, err) < 0 || scratch_name(tmp, path, err) < 0)
        return -1;
    json_t *o = json_pack("{s:i, s:s, s:I, s:I, s:b, s:s, s:s, s:I, s:I}", "schema", SCHEMA, "origin",
                          l->origin, "token", (json_int_t)l->token, "beat", (json_int_t)l->beat,
                          "released", released, "host", l->host, "boot_id", l->owner.boot_id, "pid",
                          (json_int_t)l->owner.pid, "start_time", (json_int_t)l->owner.start_time);
    int fd = o ? safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL) : -1;
    int rc = fd >= 0 && json_dumpfd(o, fd, JSON_COMPACT) == 0 && fsync(fd) == 0 ? 0 : -1;
    if (fd >= 0 && close(fd) < 0)
        rc = -1;
    if (rc == 0 && rename(tmp, path) < 0)
        rc = -1;
    if (rc < 0)
        err_set(err, ERR_SYSTEM, "cannot write '%s': %s", path, strerror(errno));
    if (rc < 0 && fd >= 0)
        unlink(tmp);
    json_decref(o);
    return rc;
}

static int held(const struct holder *h, struct err *err)
{
    return err_set(err, ERR_CONFLICT,
                   "the job is running on %s (process %lld); stop it there "
                   "first",
                   h->host[0] ? h->host : "another machine", (long long)h->who.pid);
}

/* Watches a holder of another boot: dead if its lease does not change for wait_ms. */
static int watch(const struct lease *l, const struct holder *before, int64_t wait_ms,
                 struct err *err)
{
    const int64_t until = clock_ms() + wait_ms;
    while (clock_ms() < until) {
        struct holder now;
        clock_wait(-1, LOOK_MS);
        int rc = read_holder(&now, l, err);
        if (rc < 0)
            return -1;
        if (rc == 0 && before->token == 0)
            continue;
        if (rc == 0 || (now.released && !before->released))
            return 0;
        if (now.token != before->token || now.beat != before->beat)
            return held(&now, err);
    }
    return 0;
}

/* May the lease of `h` be taken over? */
static int vacant(const struct lease *l, const struct holder *h, int64_t wait_ms,
                  lease_waits_fn waits, struct err *err)
{
    char text[LEASE_HOST + 128];
    if (strcmp(h->origin, l->origin) != 0)
        return err_set(err, ERR_CONFLICT, "'%s' is the mirror of another job: give this job another "
                       "name or another checkpoint.mirror, or continue that one with `jobctl adopt "
                       "%s`", l->dir, l->dir);
    if (h->released)
        return 0;
    if (strcmp(h->who.boot_id, l->owner.boot_id) == 0)
        return identity_alive(&h->who) ? held(h, err) : 0;
    snprintf(text, sizeof(text),
             "%s held this job last; it resumes here unless that holder shows "
             "activity within %.3g s",
             h->host[0] ? h->host : "another machine", (double)wait_ms / 1000);
    waits(text);
    return watch(l, h, wait_ms, err);
}

/* Of several takers of a free lease, only one can create the file of the next token. A taker
 * that created it and died is waited for like a holder, then skipped. */
static int claim(struct lease *l, const struct holder *h, int64_t wait_ms, struct err *err)
{
    char path[LEASE_PATH + 32];
    for (l->token = h->token + 1;; l->token++) {
        snprintf(path, sizeof(path), "%s/lease-%lld", l->dir, (long long)l->token);
        int fd = safe_open(path, O_WRONLY | O_CREAT | O_EXCL, NULL);
        if (fd >= 0)
            return close(fd);
        if (errno != EEXIST)
            return err_set(err, ERR_SYSTEM, "cannot write '%s': %s", path, strerror(errno));
        if (watch(l, h, wait_ms, err) < 0)
            return -1;
    }
}

static void forget_claim(const struct lease *l, int64_t token)
{
    char path[LEASE_PATH + 32];
    snprintf(path, sizeof(path), "%s/lease-%lld", l->dir, (long long)token);
    unlink(path);
}

int lease_take(struct lease *l, const char *dir, const char *origin, int64_t wait_ms,
               lease_waits_fn waits, struct err *err)
{
    struct holder h = {.token = 0};
    *l = (struct lease){.beat = 0};
    if (snprintf(l->dir, sizeof(l->dir), "%s", dir) >= LEASE_PATH - 64 ||
        snprintf(l->origin, sizeof(l->origin), "%s", origin) >= LEASE_ORIGIN)
        return err_set(err, ERR_USAGE, "the mirror's path is too long: %s", dir);
    gethostname(l->host, sizeof(l->host) - 1);
    if (identity_self(&l->owner, err) < 0)
        return -1;
    int rc = read_holder(&h, l, err);
    if (rc < 0 || (rc > 0 && vacant(l, &h, wait_ms, waits, err) < 0) ||
        claim(l, &h, wait_ms, err) < 0)
        return -1;
    if (write_holder(l, false, err) < 0) {
        forget_claim(l, l->token);
        return -1;
    }
    forget_claim(l, h.token);
    return 0;
}

int lease_beat(struct lease *l, struct err *err)
{
    struct holder h;
    int rc = read_holder(&h, l, err);
    if (rc < 0)
        return -1;
    if (rc > 0 && h.token != l->token)
        return err_set(
            err, ERR_CONFLICT, "the job was taken over by %s (lease %lld, this one had %lld)",
            h.host[0] ? h.host : "another machine", (long long)h.token, (long long)l->token);
    l->beat++;
    return write_holder(l, false, err);
}

int lease_release(struct lease *l, struct err *err)
{
    struct holder h;
    int rc = read_holder(&h, l, err);
    if (rc < 0 || (rc > 0 && h.token != l->token))
        return rc < 0 ? -1 : 0;
    rc = write_holder(l, true, err);
    if (rc == 0)
        forget_claim(l, l->token);
    return rc;
}
