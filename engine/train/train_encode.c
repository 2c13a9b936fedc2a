/* SPDX-License-Identifier: Apache-2.0 */
/* train_encode.c - see train_encode.h */
#include "engine/train/train_encode.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/contract/fence.h"
#include "engine/contract/flight.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/data/dataset.h"
#include "engine/encode/encode.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"

enum { ENCODE_HOLDER = 400 };

struct err;

static void sign(int fd)
{
    char host[256] = "";
    const char *job = getenv("JOBCTL_JOB_ID"), *name = getenv("JOBCTL_JOB_NAME");
    gethostname(host, sizeof(host) - 1);
    json_t *who = json_make("{s:I, s:s, s:s, s:i}", "job", (json_int_t)(job ? strtoll(job, NULL, 10) : 0), "name",
                            name ? name : "", "host", host, "pid", (int)getpid());
    if (ftruncate(fd, 0) == 0)
        json_file_put(who, fd, JSON_COMPACT); /* without it, waiters know less */
    json_decref(who);
}

static int encode_lock_take(int *fd, char *holder, const char *dir, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.4000s/lock", dir);
    *fd = safe_open(path, O_RDWR | O_CREAT, err);
    if (*fd < 0)
        return -1;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        sign(*fd);
        return 0;
    }
    close(*fd);
    *fd = -1;
    json_t *who = safe_open_json(path, 0, NULL);
    if (who)
        fence_holder(holder, ENCODE_HOLDER, who);
    else
        snprintf(holder, ENCODE_HOLDER, "another job");
    json_decref(who);
    return 0;
}

/* *fd >= 0: taken. *fd -1: another has it, holder[ENCODE_HOLDER] names it: "job 3 (sana) on gpu1". */
static void encode_lock_release(int fd)
{
    if (fd >= 0)
        close(fd);
}

enum { ROUNDS = 3, WAIT_MS = 500 };

struct phase {
    struct train      *t;
    struct encode     *e;
    struct encode_need need;
    int                lock;      /* of rank 0; -1: not held */
    double             since_s;   /* of this stage */
    double             told_s, told_share; /* when the agent was told, and how much was done then */
    enum encode_stage  stage;
    bool               told;      /* that the phase has begun */
};

/* --- what people see ------------------------------------------------------------------------ */

static const char *const things[] = {[ENCODE_KEYS] = "pictures read", [ENCODE_PICTURES] = "pictures",
                                     [ENCODE_CAPTIONS] = "captions"};

static void duration(char *out, size_t size, double s)
{
    if (s < 120)
        snprintf(out, size, "%.0f s", s);
    else if (s < 7200)
        snprintf(out, size, "%.0f min", s / 60);
    else
        snprintf(out, size, "%.1f h", s / 3600);
}

static void tell(struct phase *p, const struct progress_encoding *e)
{
    progress_encoding(p->t->progress, e);
    printf("data: %s\n", e->text);
    p->told_s = train_clock();
    p->told = true;
}

/* Of all ranks, as if each had done as much of its share as rank 0. */
static void tell_progress(struct phase *p, const struct encode_progress *now)
{
    const double share = (double)now->done / (double)now->total, took = train_clock() - p->since_s;
    const int64_t all = p->stage == ENCODE_PICTURES ? p->need.no_pictures
                        : p->stage == ENCODE_CAPTIONS ? p->need.no_captions : now->total;
    const int64_t so_far = (int64_t)(share * (double)all);
    char text[200], left[40];
    struct progress_encoding e = {.done = so_far, .total = all, .saved = now->saved, .text = text};
    e.per_s = took > 0 ? (double)so_far / took : 0;
    e.left_s = share > 0 ? took / share - took : -1;
    duration(left, sizeof(left), e.left_s);
    int n = snprintf(text, sizeof(text), "encoding data: %lld of %lld %s, %.3g per s, about %s left", (long long)so_far,
                     (long long)all, things[p->stage], e.per_s, left);
    if (p->stage == ENCODE_PICTURES && p->need.no_captions > 0 && n < (int)sizeof(text))
        snprintf(text + n, sizeof(text) - (size_t)n, ", then %lld captions", (long long)p->need.no_captions);
    p->told_share = share;
    tell(p, &e);
}

/* Each tenth, not more often than each second, and every five minutes at the latest. */
static bool is_due(const struct phase *p, const struct encode_progress *now)
{
    const double ago = train_clock() - p->told_s, share = (double)now->done / (double)now->total;
    return ago >= 300 || (ago >= 1 && share - p->told_share >= 0.1);
}

static bool on_tick(void *arg, const struct encode_progress *now)
{
    struct phase *p = arg;
    struct train *t = p->t;
    if (now->stage != p->stage || now->done <= 1) {
        p->since_s = p->told_s = train_clock();
        p->told_share = 0;
        p->stage = now->stage;
    }
    flight_work(t->flight, (uint64_t)now->done, (uint64_t)now->total);
    if (train_is_first(t) && is_due(p, now))
        tell_progress(p, now);
    if (!progress_stop_asked(t->progress))
        return true;
    t->code = EXIT_ABORTED;
    return false;
}

static void on_bad(void *arg, const char *path, const char *why)
{
    struct phase *p = arg;
    progress_warning(p->t->progress, "the cache of encoded data had a damaged file, which was removed and is being "
                     "recreated: %s: %s", path, why);
    fprintf(stderr, "jobctl-train: %s: %s; removed, its samples are encoded again\n", path, why);
}

/* --- agreement ------------------------------------------------------------------------------ */

static int broadcast(void *arg, void *data, size_t bytes)
{
    struct train *t = arg;
    if (t->env->world_size == 1 || bytes == 0)
        return 0;
    return train_ranks_broadcast(t, data, bytes);
}

static int identify(struct phase *p)
{
    struct train *t = p->t;
    if (train_is_first(t) && encode_identify(p->e, false, on_tick, p, &t->err) < 0)
        return -1;
    return encode_share(p->e, train_is_first(t), broadcast, t, &t->err);
}

static int survey(struct phase *p)
{
    struct train *t = p->t;
    int64_t missing;
    if (train_is_first(t) && encode_survey(p->e, true, on_bad, p, &p->need, &t->err) < 0)
        return -1;
    missing = p->need.no_pictures + p->need.no_captions;
    if (broadcast(t, &missing, sizeof(missing)) < 0)
        return -1;
    if (train_is_first(t))
        return 0;
    if (encode_survey(p->e, false, NULL, NULL, &p->need, &t->err) < 0)
        return -1;
    if (missing == p->need.no_pictures + p->need.no_captions)
        return 0;
    return err_set(&t->err, ERR_DATA, "rank %d finds %lld missing entries in %s, rank 0 %lld: all nodes must share the "
                   "cache; name a folder that they share in train.data.cache", t->env->rank,
                   (long long)(p->need.no_pictures + p->need.no_captions), encode_cache(p->e), (long long)missing);
}

static void tell_wait(struct phase *p, const char *holder)
{
    char text[ENCODE_HOLDER + 200];
    snprintf(text, sizeof(text), "waiting for %s, which is filling the cache %.120s", holder, encode_cache(p->e));
    tell(p, &(struct progress_encoding){.total = p->need.no_pictures + p->need.no_captions, .left_s = -1, .text = text});
}

/* Rank 0: whether the lock was got; ranks hear it often, so that none waits for long without a sign. */
static int try_lock(struct phase *p, int32_t *got, double since_s)
{
    char holder[ENCODE_HOLDER];
    *got = 1;
    if (!train_is_first(p->t) || p->lock >= 0)
        return 0;
    if (encode_lock_take(&p->lock, holder, encode_cache(p->e), &p->t->err) < 0)
        return -1;
    *got = p->lock >= 0;
    if (!*got && (!p->told || train_clock() - p->told_s >= 300))
        tell_wait(p, holder);
    flight_work(p->t->flight, (uint64_t)(1000 * (train_clock() - since_s)), 0);
    return 0;
}

static int lock(struct phase *p)
{
    const double since_s = train_clock();
    for (int32_t got = 0; !got;) {
        if (try_lock(p, &got, since_s) < 0 || broadcast(p->t, &got, sizeof(got)) < 0)
            return -1;
        if (!got && progress_stop_asked(p->t->progress)) {
            p->t->code = EXIT_ABORTED;
            return err_set(&p->t->err, ERR_CONFLICT, "stopped on request while another job fills the cache");
        }
        if (!got)
            clock_wait(-1, WAIT_MS);
    }
    return 0;
}

/* --- the phase ------------------------------------------------------------------------------ */

static int fill(struct phase *p)
{
    struct train *t = p->t;
    if (t->env->world_size > 1 && train_ranks_barrier(t) < 0) /* all have counted what is missing */
        return -1;
    flight_enter(t->flight, 0, PHASE_DATA);
    const int rc = encode_fill(p->e, t->env->rank, t->env->world_size, on_tick, p, &t->err);
    flight_enter(t->flight, 0, PHASE_INIT);
    if (rc < 0)
        return -1;
    return t->env->world_size > 1 ? train_ranks_barrier(t) : 0;
}

static void tell_begin(struct phase *p)
{
    char text[160];
    snprintf(text, sizeof(text), "encoding data: %lld of %lld pictures and %lld of %lld captions are to be encoded",
             (long long)p->need.no_pictures, (long long)p->need.pictures, (long long)p->need.no_captions,
             (long long)p->need.captions);
    if (train_is_first(p->t))
        tell(p, &(struct progress_encoding){.total = p->need.no_pictures + p->need.no_captions, .left_s = -1,
                                            .text = text});
}

/* Until nothing is missing; a file that was damaged meanwhile is made in the next round. */
static int make_whole(struct phase *p)
{
    struct train *t = p->t;
    if (survey(p) < 0)
        return -1;
    for (int round = 0; p->need.no_pictures + p->need.no_captions > 0; round++) {
        if (round == ROUNDS)
            return err_set(&t->err, ERR_SYSTEM, "%s still lacks %lld entries after it was filled: its disk loses files",
                           encode_cache(p->e), (long long)(p->need.no_pictures + p->need.no_captions));
        if (lock(p) < 0 || (round == 0 && survey(p) < 0)) /* another job may have filled it */
            return -1;
        if (round == 0 && p->need.no_pictures + p->need.no_captions > 0)
            tell_begin(p);
        if (fill(p) < 0 || survey(p) < 0)
            return -1;
    }
    return 0;
}

static void tell_whole(struct phase *p)
{
    struct train *t = p->t;
    if (!train_is_first(t))
        return;
    if (p->told)
        progress_encoding(t->progress, &(struct progress_encoding){
            .over = true, .done = p->need.pictures + p->need.captions, .total = p->need.pictures + p->need.captions,
            .text = "all pictures and captions are encoded"});
    printf("data: %lld pictures and %lld captions in %s, %.1f MB\n", (long long)p->need.pictures,
           (long long)p->need.captions, encode_cache(p->e), 1e-6 * (double)(p->need.latent_bytes + p->need.text_bytes));
}

int train_encode(struct train *t)
{
    struct phase p = {.t = t, .lock = -1, .told_s = train_clock()};
    int rc = encode_open(&p.e, &t->spec, &t->err);
    if (rc == 0)
        rc = identify(&p);
    if (rc == 0)
        rc = make_whole(&p);
    encode_lock_release(p.lock);
    if (rc < 0) {
        encode_close(p.e);
        return -1;
    }
    tell_whole(&p);
    return encode_take(p.e, &t->data, &t->err);
}
