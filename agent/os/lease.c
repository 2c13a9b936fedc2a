/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - see lease.h */
#include "agent/os/lease.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/identity.h"
#include "agent/os/process.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/json_seal.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

enum { SCHEMA = 1, LOOK_MS = 100 };

/* --- the file --------------------------------------------------------------------------- */

static void path_of(char out[LEASE_PATH], const struct lease *l)
{
    snprintf(out, LEASE_PATH, "%.4064s/lease.json", l->dir);
}

static void claim_of(char out[LEASE_PATH], const struct lease *l, int64_t token)
{
    snprintf(out, LEASE_PATH, "%.4064s/lease-%lld", l->dir, (long long)token);
}

static json_t *to_json(const struct lease_record *r)
{
    return json_make("{s:i, s:s, s:s, s:I, s:s, s:I, s:I, s:b, s:s, s:s, s:I, s:I, s:I}", "schema", SCHEMA,
                     "origin", r->origin, "name", r->name, "job", (json_int_t)r->job, "home", r->home, "token",
                     (json_int_t)r->token, "beat", (json_int_t)r->beat, "released", r->released, "host", r->host,
                     "boot_id", r->boot_id, "pid_ns", (json_int_t)r->pid_ns, "pid", (json_int_t)r->pid, "start_time",
                     (json_int_t)r->start_time);
}

static void from_json(struct lease_record *r, const json_t *o)
{
    *r = (struct lease_record){.token = field_int(o, "token", 0),
                               .beat = field_int(o, "beat", 0),
                               .released = field_true(o, "released"),
                               .job = field_int(o, "job", 0),
                               .pid_ns = field_int(o, "pid_ns", 0),
                               .pid = field_int(o, "pid", 0),
                               .start_time = field_int(o, "start_time", 0)};
    snprintf(r->origin, sizeof(r->origin), "%s", field_text(o, "origin"));
    snprintf(r->name, sizeof(r->name), "%s", field_text(o, "name"));
    snprintf(r->host, sizeof(r->host), "%s", field_text(o, "host"));
    snprintf(r->home, sizeof(r->home), "%s", field_text(o, "home"));
    snprintf(r->boot_id, sizeof(r->boot_id), "%s", field_text(o, "boot_id"));
}

/* r->token is 0 if there is no holder so far. */
static int read_record(struct lease_record *r, const struct lease *l, struct err *err)
{
    char path[LEASE_PATH];
    struct err why = {0};
    path_of(path, l);
    *r = (struct lease_record){.token = 0};
    json_t *o = safe_open_json(path, 0, &why);
    if (!o && why.code == ERR_NOT_FOUND)
        return 0;
    if (!o)
        return err_set(err, ERR_DATA, "'%s' cannot be read: %s", path, why.text);
    from_json(r, o);
    const bool schema = field_int(o, "schema", 0) == SCHEMA, broken = json_seal_broken(o);
    json_decref(o);
    if (broken)
        return err_set(err, ERR_DATA, "'%s' cannot be read: it is damaged", path);
    return schema && r->token >= 1
               ? 0
               : err_set(err, ERR_DATA, "'%s' is not a lease file of this version of jobctl", path);
}

static int cannot_write(const char *path, struct err *err)
{
    return err_set_errno(err, errno, "cannot write '%s'", path);
}

static int write_record(const struct lease *l, struct err *err)
{
    char path[LEASE_PATH], tmp[SCRATCH_PATH];
    path_of(path, l);
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    json_t *o = to_json(&l->own);
    int fd = o ? safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL) : -1;
    int rc = fd >= 0 && json_seal(o) == 0 && json_file_put(o, fd, JSON_COMPACT) == 0 && fsync(fd) == 0 ? 0 : -1;
    if (fd >= 0 && close(fd) < 0)
        rc = -1;
    if (rc < 0 || rename(tmp, path) < 0)
        rc = cannot_write(path, err);
    if (rc < 0 && fd >= 0)
        unlink(tmp);
    json_decref(o);
    return rc;
}

/* --- damage ----------------------------------------------------------------------------- */

/* The largest token whose claim is there; 0: none, so nobody holds the lease. */
static int64_t newest_claim(const struct lease *l)
{
    int64_t newest = 0;
    DIR *dir = opendir(l->dir);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char *end = NULL;
        const long long token = strncmp(e->d_name, "lease-", 6) == 0 ? strtoll(e->d_name + 6, &end, 10) : 0;
        if (token > newest && token < INT64_MAX / 2 && !*end)
            newest = token;
    }
    if (dir)
        closedir(dir);
    return newest;
}

/* What is known of the holder whose record is damaged: its token, or that there is none. Then the next token must only
 * be above all earlier ones. A mirror's owner is in the record alone. */
static int guess_record(struct lease_record *r, const struct lease *l)
{
    const int64_t token = newest_claim(l);
    if (l->mirror)
        return -1;
    *r = (struct lease_record){.token = token ? token : clock_unix_ms(), .released = token == 0, .damaged = true,
                               .host = "an unknown machine (lease.json is damaged)"};
    return 0;
}

/* As read_record(), also of a damaged file. */
static int know_record(struct lease_record *r, const struct lease *l, struct err *err)
{
    struct err why = {0};
    if (read_record(r, l, &why) == 0)
        return 0;
    if (why.code == ERR_DATA && guess_record(r, l) == 0)
        return 0;
    return err_set(err, why.code, "%s%s", why.text, why.code == ERR_DATA ? "; if no other machine runs this job, remove "
                   "the file and retry the job" : "");
}

/* --- its holder ------------------------------------------------------------------------- */

static void describe(char *out, size_t size, const struct lease_record *r)
{
    json_t *o = to_json(r);
    fence_holder(out, size, o);
    json_decref(o);
}

static int held(const struct lease *l, const struct lease_record *h, struct err *err)
{
    char who[512];
    describe(who, sizeof(who), h);
    if (l->mirror)
        return err_set(err, ERR_CONFLICT, "the job is running on %s (process %lld); stop it there first", who,
                       (long long)h->pid);
    return err_set(err, ERR_CONFLICT, "%s writes into %s", who, l->dir);
}

static int foreign(const struct lease *l, struct err *err)
{
    return err_set(err, ERR_CONFLICT, "'%s' is the mirror of another job: give this job another "
                   "name or another checkpoint.mirror, or continue that one with `jobctl adopt "
                   "%s`", l->dir, l->dir);
}

static void say_wait(const struct lease *l, const struct lease_record *h, int64_t wait_ms, lease_waits_fn waits,
                     void *arg)
{
    char who[512], text[LEASE_PATH + 640];
    describe(who, sizeof(who), h);
    if (l->mirror)
        snprintf(text, sizeof(text), "%s held this job last; it resumes on this machine unless that holder shows "
                 "activity within %.3g s", who, (double)wait_ms / 1000);
    else
        snprintf(text, sizeof(text), "%s wrote into %s last; this job takes the directory over unless the former "
                 "holder shows activity within %.3g s", who, l->dir, (double)wait_ms / 1000);
    waits(arg, text);
}

static bool is_here(const struct lease *l, const struct lease_record *h)
{
    return strcmp(h->boot_id, l->own.boot_id) == 0 && (!h->pid_ns || h->pid_ns == l->own.pid_ns);
}

static struct lease_look look_at(const struct lease *l, const struct lease_record *h)
{
    struct identity who = {.pid = h->pid, .start_time = h->start_time};
    snprintf(who.boot_id, sizeof(who.boot_id), "%s", h->boot_id);
    const char state = process_state(h->pid);
    return (struct lease_look){.holder = h,
                               .here = is_here(l, h),
                               .alive = identity_alive(&who),
                               .stopped = state == 'T' || state == 't',
                               .now_ms = clock_ms()};
}

static bool is_over(const struct lease_taker *by)
{
    return by->over && atomic_load(by->over);
}

/* 0: the lease of *h may be taken; *h is as last seen. */
static int await_vacancy(const struct lease *l, struct lease_record *h, const struct lease_taker *by, int64_t wait_ms,
                         lease_waits_fn waits, void *arg, struct err *err)
{
    struct lease_watch w = {.token = 0};
    for (;;) {
        const struct lease_look look = look_at(l, h);
        const bool first = w.token == 0;
        switch (lease_rule(&w, &look, by->mirror ? by->origin : NULL, wait_ms)) {
        case LEASE_FOREIGN:
            return foreign(l, err);
        case LEASE_HELD:
            return held(l, h, err);
        case LEASE_WATCH:
            if (is_over(by))
                return err_set(err, ERR_CONFLICT, "the job was stopped before it had %s", l->dir);
            if (first)
                say_wait(l, h, wait_ms, waits, arg);
            clock_wait(-1, LOOK_MS);
            if (know_record(h, l, err) < 0)
                return -1;
            break;
        default:
            return 0;
        }
    }
}

/* Somebody has claimed the token after that of *h: does a lease follow? */
static int await_claimant(const struct lease *l, const struct lease_record *h, const struct lease_taker *by,
                          int64_t wait_ms, struct err *err)
{
    const int64_t until = clock_ms() + wait_ms;
    while (clock_ms() < until && !is_over(by)) {
        struct lease_record now;
        clock_wait(-1, LOOK_MS);
        if (know_record(&now, l, err) < 0)
            return -1;
        if (now.token != h->token && !now.damaged)
            return held(l, &now, err);
    }
    return 0;
}

/* Of several takers of a free lease, only one can create the file of the next token. A taker
 * that created it and died is waited for like a holder, then skipped. */
static int claim(struct lease *l, const struct lease_record *h, const struct lease_taker *by, int64_t wait_ms,
                 struct err *err)
{
    char path[LEASE_PATH];
    for (l->own.token = h->token + 1;; l->own.token++) {
        claim_of(path, l, l->own.token);
        int fd = safe_open(path, O_WRONLY | O_CREAT | O_EXCL, NULL);
        if (fd >= 0)
            return close(fd);
        if (errno != EEXIST)
            return cannot_write(path, err);
        if (await_claimant(l, h, by, wait_ms, err) < 0)
            return -1;
    }
}

static void forget_claim(const struct lease *l, int64_t token)
{
    char path[LEASE_PATH];
    claim_of(path, l, token);
    unlink(path);
}

/* --- the lease -------------------------------------------------------------------------- */

static int introduce(struct lease *l, const char *dir, const struct lease_taker *by, struct err *err)
{
    struct identity self = {0};
    struct stat st;
    *l = (struct lease){.mirror = by->mirror, .own = {.job = by->job}};
    if (snprintf(l->dir, sizeof(l->dir), "%s", dir) >= LEASE_PATH - 64 ||
        snprintf(l->own.origin, sizeof(l->own.origin), "%s", by->origin) >= LEASE_ORIGIN)
        return err_set(err, ERR_USAGE, "the path is too long: %s", dir);
    snprintf(l->own.name, sizeof(l->own.name), "%s", by->name);
    snprintf(l->own.home, sizeof(l->own.home), "%s", by->home);
    err_make_printable(l->own.home);
    gethostname(l->own.host, sizeof(l->own.host) - 1);
    if (identity_self(&self, err) < 0)
        return -1;
    memcpy(l->own.boot_id, self.boot_id, sizeof(l->own.boot_id));
    l->own.pid = self.pid;
    l->own.start_time = self.start_time;
    l->own.pid_ns = stat("/proc/self/ns/pid", &st) == 0 ? (int64_t)st.st_ino : 0;
    return 0;
}

static void note_fence(struct lease *l)
{
    json_t *o = to_json(&l->own);
    fence_of(l->fence, o);
    json_decref(o);
}

int lease_take(struct lease *l, const char *dir, const struct lease_taker *by, int64_t wait_ms,
               lease_waits_fn waits, void *arg, struct err *err)
{
    struct lease_record h;
    if (introduce(l, dir, by, err) < 0 || know_record(&h, l, err) < 0 ||
        await_vacancy(l, &h, by, wait_ms, waits, arg, err) < 0 || claim(l, &h, by, wait_ms, err) < 0)
        return -1;
    note_fence(l);
    if (write_record(l, err) < 0) {
        forget_claim(l, l->own.token);
        return -1;
    }
    if (h.token && !h.released) {
        scratch_sweep_all(l->dir);
        forget_claim(l, h.token);
    }
    return 0;
}

int lease_beat(struct lease *l, struct err *err)
{
    struct lease_record h;
    struct err why = {0};
    if ((read_record(&h, l, &why) < 0 && why.code != ERR_DATA) || fence_check(l->dir, l->fence, &why) < 0)
        return err_set(err, why.code, "%s", why.text);
    l->own.beat++;              /* a damaged file is written again */
    return write_record(l, err);
}

int lease_release(struct lease *l, struct err *err)
{
    struct err why = {0};
    if (fence_check(l->dir, l->fence, &why) < 0)
        return why.code == ERR_CONFLICT ? 0 : err_set(err, why.code, "%s", why.text);
    l->own.released = true;
    if (write_record(l, err) < 0)
        return -1;
    forget_claim(l, l->own.token);
    return 0;
}

int64_t lease_wait_ms(void)
{
    const char *ms = getenv("JOBCTL_LEASE_MS");
    return ms && atoi(ms) > 0 ? atoi(ms) : LEASE_WAIT_MS;
}
