/* SPDX-License-Identifier: Apache-2.0 */
/* machine_lease.c - see machine_lease.h */
#include "agent/machine/machine_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/machine/machine_claims.h"
#include "agent/machine/machine_dir.h"
#include "agent/machine/machine_lease_internal.h"
#include "agent/os/lock_bundle.h"
#include "agent/os/log.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

enum { RELEASE_TRIES = 200 };

static int bits_of(const struct machine_set *s)
{
    return machine_set_gpus(s) + machine_set_cpus(s);
}

/* ---- the claim ---- */

static void list_set(const struct machine_lease *l, const struct machine_set *s, json_t *gpus, json_t *cpus)
{
    for (int i = 0; i < MACHINE_GPUS + MACHINE_CPUS; i++)
        if (machine_set_has(s, i))
            json_array_append_new(i < MACHINE_GPUS ? gpus : cpus, i < MACHINE_GPUS ? json_text(l->ask.gpus[i].uuid)
                                                                                   : json_integer(i - MACHINE_GPUS));
}

static char *claim_text(const struct machine_lease *l)
{
    json_t *gpus = json_array(), *cpus = json_array(), *any_gpus = json_array(), *any_cpus = json_array();
    const struct machine_set any = machine_lease_any(l);
    list_set(l, &l->has, gpus, cpus);
    list_set(l, &any, any_gpus, any_cpus);
    json_t *o = json_make("{s:i, s:I, s:I, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:i, s:i}", "schema", 1,
                          "pid", (json_int_t)getpid(), "job", (json_int_t)l->ask.job, "state",
                          l->holds ? "holds" : "waits", "arrived_ms", (json_int_t)l->arrived_ms, "arrived_s",
                          (json_int_t)l->arrived_s, "since_s",
                          (json_int_t)l->since_s, "gpus", gpus, "cpus", cpus, "any_gpus", any_gpus, "any_cpus",
                          any_cpus, "need_gpus", l->ask.need_gpus, "need_cpus", l->ask.need_cpus);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

/* Over its own old text. */
static int rewrite(const struct machine_lease *l)
{
    char *text = claim_text(l);
    const size_t n = text ? strlen(text) : 0;
    const int rc = n > 0 && pwrite(l->claim, text, n, 0) == (ssize_t)n && ftruncate(l->claim, (off_t)n) == 0 ? 0 : -1;
    free(text);
    return rc;
}

/* Before the claim, so that whoever may know the name never sees a claim without it. */
static void make_name(const struct machine_lease *l)
{
    struct err err = {0};
    const struct group *group = l->ask.names_to[0] ? getgrnam(l->ask.names_to) : NULL;
    json_t *name = json_text(l->ask.name);
    char *text = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    if (l->ask.names_to[0] && !group)
        log_warn(NULL, "there is no group %s, so other users do not see the name of the job", l->ask.names_to);
    const int64_t readers = group ? (int64_t)group->gr_gid : MACHINE_DIR_OWNER;
    const int fd = text ? machine_dir_make(l->dir, l->name_file, text, true, false, readers, &err) : -1;
    if (fd < 0)
        log_warn(NULL, "the name of the job is not shown: %s", err.text);
    if (fd >= 0)
        close(fd);
    free(text);
    json_decref(name);
}

static int make_claim(struct machine_lease *l, struct err *err)
{
    unsigned random = (unsigned)clock_boot_ms();
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random ^= (unsigned)getpid();
    snprintf(l->file, sizeof(l->file), "claim-%lld-%ld-%08x", (long long)geteuid(), (long)getpid(), random);
    snprintf(l->name_file, sizeof(l->name_file), "name-%s", l->file + strlen("claim-"));
    l->arrived_ms = clock_boot_ms();
    l->arrived_s = (int64_t)time(NULL);
    make_name(l);
    char *text = claim_text(l);
    l->claim = text ? machine_dir_make(l->dir, l->file, text, false, true, MACHINE_DIR_ALL, err)
                    : err_set(err, ERR_MEMORY, "no memory for a claim");
    free(text);
    return l->claim < 0 ? -1 : 0;
}

int machine_lease_open(struct machine_lease **out, const char *dir, const struct machine_ask *ask,
                       const struct lock_bundle *bundle, struct err *err)
{
    struct machine_lease *l = *out = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_MEMORY, "no memory for a lease");
    *l = (struct machine_lease){.ask = *ask, .bundle = bundle, .claim = -1};
    snprintf(l->dir, sizeof(l->dir), "%s", dir);
    if (make_claim(l, err) == 0)
        return 0;
    machine_lease_close(l);
    *out = NULL;
    return -1;
}

void machine_lease_set_gpus(struct machine_lease *l, const struct machine_gpu *gpus, int count)
{
    for (int i = 0; i < l->ask.ngpus; i++)
        for (int k = 0; k < count; k++)
            if (strcmp(l->ask.gpus[i].uuid, gpus[k].uuid) == 0)
                snprintf(l->ask.gpus[i].foreign, sizeof(l->ask.gpus[i].foreign), "%s", gpus[k].foreign);
}

/* ---- taking ---- */

static bool choose_first(const struct machine_lease *l, const struct machine_set *left, struct machine_set *take)
{
    int more = l->ask.need_gpus;
    for (int i = 0; i < l->ask.ngpus && more > 0; i++)
        if (machine_set_has(left, i) && l->ask.gpus[i].would_do) {
            machine_set_add(take, i);
            more--;
        }
    return more == 0;
}

static void choose_cpus(const struct machine_lease *l, const struct machine_set *left, struct machine_set *take)
{
    int more = l->ask.need_cpus;
    for (int i = MACHINE_GPUS; i < MACHINE_GPUS + MACHINE_CPUS && more > 0; i++)
        if (machine_set_has(left, i) && machine_set_has(&l->ask.cpus, i)) {
            machine_set_add(take, i);
            more--;
        }
}

/* 0: locked, in fds[*n]; 1: somebody without a claim has it, who is noted; -1: it cannot be opened, which is noted
 * too. */
static int lock_one(struct machine_lease *l, int resource, int *fds, int *n)
{
    char name[MACHINE_DIR_NAME], who[MACHINE_TEXT];
    struct err err = {0};
    machine_lease_lock_name(name, l, resource);
    const int fd = machine_dir_open(l->dir, name, &err);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        fds[(*n)++] = fd;
        return 0;
    }
    if (fd >= 0) {
        close(fd);
        machine_dir_locker(who, sizeof(who), l->dir, name);
    }
    json_object_set_new(l->busy, name, json_text(fd >= 0 ? who : err.text));
    return fd >= 0 ? 1 : -1;
}

/* All or nothing; *busy: what could not be had. */
static int lock_all(struct machine_lease *l, const struct machine_set *take, struct machine_set *busy)
{
    int *fds = calloc((size_t)bits_of(take) + 1, sizeof(*fds)), n = 0, rc = fds ? 0 : -1;
    struct err err = {0};
    for (int i = 0; fds && i < MACHINE_GPUS + MACHINE_CPUS; i++)
        if (machine_set_has(take, i) && lock_one(l, i, fds, &n) != 0) {
            machine_set_add(busy, i);
            rc = -1;
        }
    if (rc == 0) {
        l->has = *take;
        l->holds = true;
        l->since_s = (int64_t)time(NULL);
        fds[n++] = l->claim;
        if ((rc = rewrite(l)) == 0)
            rc = lock_bundle_add(l->bundle, fds, n, &err);
        n--;
    }
    if (rc < 0) {
        l->holds = false;
        l->has = (struct machine_set){{0}};
        if (err.text[0] || bits_of(busy) == 0) {
            log_warn(NULL, "%s", err.text[0] ? err.text : "the claim could not be written");
            rewrite(l);
        }
    }
    for (int i = 0; i < n; i++)
        close(fds[i]);
    free(fds);
    return rc;
}

/* Only with the lock `turn`. *place: of its claim; *left: what was left for it. */
static bool take(struct machine_lease *l, struct machine_view *v, machine_choose_fn choose, void *arg, int *place,
                 struct machine_set *left)
{
    const struct machine_need need = {.any = machine_lease_any(l), .gpus = l->ask.need_gpus, .cpus = l->ask.need_cpus};
    for (;;) {
        struct machine_set picked = {{0}}, busy = {{0}};
        *place = machine_turn_left(left, &v->state, &v->free, v->id);
        if (*place < 0 || !machine_turn_fits(&need, left))
            return false;
        if (need.gpus > 0 && !(choose ? choose(arg, left, &picked) : choose_first(l, left, &picked)))
            return false;
        choose_cpus(l, left, &picked);
        if (lock_all(l, &picked, &busy) == 0)
            return true;
        if (bits_of(&busy) == 0)
            return false;
        machine_view_remove(&v->free, &busy); /* others may do */
    }
}

/* ---- the life of a lease ---- */

/* The descriptor, or -1: *busy says whether another process has the lock. */
static int take_turn(const struct machine_lease *l, bool *busy, struct err *err)
{
    const int fd = machine_dir_open(l->dir, "turn", err);
    *busy = fd >= 0;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static enum machine_lease_state look(struct machine_lease *l, machine_choose_fn choose, void *arg, char *text)
{
    struct machine_view v;
    struct machine_set left;
    int place = 0;
    json_decref(l->claims);
    json_decref(l->busy);
    machine_claims_sweep(l->dir);
    l->claims = machine_claims_read(l->dir);
    l->busy = json_object();
    const bool seen = machine_view_init(&v, l) == 0;
    const bool got = seen && take(l, &v, choose, arg, &place, &left);
    text[0] = '\0';
    if (!seen)
        text_append(text, MACHINE_TEXT, "waiting: its claim %s/%s cannot be read", l->dir, l->file);
    else if (!got)
        machine_lease_explain(text, l, &v, place);
    machine_view_fini(&v);
    if (got)
        close(l->claim); /* the bundle has it */
    if (got)
        l->claim = -1;
    return got ? MACHINE_HOLDS : MACHINE_WAITS;
}

enum machine_lease_state machine_lease_try(struct machine_lease *l, machine_choose_fn choose, void *arg,
                                           char text[MACHINE_TEXT])
{
    struct err err = {0};
    char who[240];
    bool busy;
    futimens(l->claim, NULL);
    const int turn = take_turn(l, &busy, &err);
    if (turn >= 0) {
        const enum machine_lease_state state = look(l, choose, arg, text);
        close(turn);
        return state;
    }
    machine_dir_locker(who, sizeof(who), l->dir, "turn");
    text[0] = '\0';
    if (busy)
        text_append(text, MACHINE_TEXT, "waiting: the lock %s/turn is held by %s", l->dir, who);
    else
        text_append(text, MACHINE_TEXT, "waiting: %s", err.text);
    return busy ? MACHINE_BUSY : MACHINE_WAITS;
}

bool machine_lease_has(const struct machine_lease *l, int gpu)
{
    return machine_set_has(&l->has, gpu);
}

int machine_lease_cpus(const struct machine_lease *l)
{
    return machine_set_cpus(&l->has);
}

/* The locks end at once; the claim, which is dead then, goes with the lock `turn`, or with this user's next look. */
void machine_lease_release(struct machine_lease *l)
{
    bool busy = true;
    if (!l)
        return;
    if (l->holds)
        lock_bundle_empty(l->bundle);
    if (l->claim >= 0)
        close(l->claim);
    l->claim = -1;
    for (int tries = 0, turn; busy && tries < RELEASE_TRIES; tries++) {
        if ((turn = take_turn(l, &busy, NULL)) >= 0) {
            machine_claims_sweep(l->dir);
            close(turn);
            break;
        }
        clock_wait(-1, 1);
    }
    machine_lease_close(l);
}

void machine_lease_close(struct machine_lease *l)
{
    if (!l)
        return;
    if (l->claim >= 0)
        close(l->claim);
    json_decref(l->claims);
    json_decref(l->busy);
    free(l);
}
