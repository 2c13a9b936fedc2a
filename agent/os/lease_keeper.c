/* SPDX-License-Identifier: Apache-2.0 */
/* lease_keeper.c - see lease_keeper.h
 *
 * The thread takes, beats and releases; what happened is in `news`, under the lock, and wakes the loop, which calls
 * the hooks. Both sides hold the struct: the last one frees it.
 */
#include "agent/os/lease_keeper.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"

struct news {
    bool waits, ready, lost, ended;
    char waits_text[LEASE_PATH + 640];
    struct err refusal, loss; /* NULL of ready(): code ERR_NONE */
};

struct lease_keeper {
    struct lease_keeper_hooks hooks;
    uv_async_t wake;
    uv_timer_t limit;
    int handles; /* open ones */
    bool finishing, told_end;
    char fence[FENCE_TEXT];

    char dir[LEASE_PATH], origin[LEASE_ORIGIN], name[LEASE_NAME], home[LEASE_HOME];
    struct lease_taker by;
    struct lease lease; /* the thread's */
    int64_t wait_ms;
    atomic_bool over;

    pthread_mutex_t lock;
    pthread_cond_t stir;
    struct news news;      /* under the lock */
    bool closed;           /* under the lock: nobody listens any more */
    bool loop_done, thread_done; /* under the lock: with this struct */
};

/* --- the thread ------------------------------------------------------------------------- */

static void post(struct lease_keeper *k)
{
    if (!k->closed)
        uv_async_send(&k->wake);
}

static void on_waits(void *arg, const char *text)
{
    struct lease_keeper *k = arg;
    pthread_mutex_lock(&k->lock);
    k->news.waits = true;
    snprintf(k->news.waits_text, sizeof(k->news.waits_text), "%s", text);
    post(k);
    pthread_mutex_unlock(&k->lock);
}

static int take(struct lease_keeper *k)
{
    struct err err = {0};
    int rc = scratch_mkdirs(k->dir, &err);
    if (rc == 0)
        rc = lease_take(&k->lease, k->dir, &k->by, k->wait_ms, on_waits, k, &err);
    pthread_mutex_lock(&k->lock);
    k->news.ready = true;
    k->news.refusal = err;
    memcpy(k->fence, k->lease.fence, sizeof(k->fence));
    post(k);
    pthread_mutex_unlock(&k->lock);
    return rc;
}

/* Until the next beat; false: it is over. */
static bool rest(struct lease_keeper *k)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t ns = until.tv_nsec + k->wait_ms * 1000000 / LEASE_BEATS;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&k->lock);
    while (!atomic_load(&k->over) && pthread_cond_timedwait(&k->stir, &k->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&k->lock);
    return !atomic_load(&k->over);
}

/* -1: another has it. A directory that does not respond proves nothing. */
static int beat(struct lease_keeper *k)
{
    struct err err = {0};
    if (lease_beat(&k->lease, &err) == 0 || err.code != ERR_CONFLICT)
        return 0;
    pthread_mutex_lock(&k->lock);
    k->news.lost = true;
    k->news.loss = err;
    post(k);
    pthread_mutex_unlock(&k->lock);
    return -1;
}

static void *keep(void *arg)
{
    struct lease_keeper *k = arg;
    if (take(k) == 0) {
        while (rest(k) && beat(k) == 0)
            continue;
        lease_release(&k->lease, NULL); /* a lease that is lost is left alone */
    }
    pthread_mutex_lock(&k->lock);
    k->news.ended = true;
    post(k);
    k->thread_done = true;
    const bool last = k->loop_done;
    pthread_mutex_unlock(&k->lock);
    if (last)
        free(k);
    return NULL;
}

/* --- the loop ---------------------------------------------------------------------------- */

static void tell_end(struct lease_keeper *k)
{
    if (!k->finishing || k->told_end)
        return;
    k->told_end = true;
    uv_timer_stop(&k->limit);
    k->hooks.ended(k->hooks.arg);
}

static void on_news(uv_async_t *wake)
{
    struct lease_keeper *k = wake->data;
    pthread_mutex_lock(&k->lock);
    struct news *now = malloc(sizeof(*now));
    if (now) {
        *now = k->news;
        k->news.waits = k->news.ready = k->news.lost = false;
    }
    pthread_mutex_unlock(&k->lock);
    if (!now)
        return;
    if (now->waits)
        k->hooks.waits(k->hooks.arg, now->waits_text);
    if (now->ready)
        k->hooks.ready(k->hooks.arg, now->refusal.code == ERR_NONE ? NULL : &now->refusal);
    if (now->lost)
        k->hooks.lost(k->hooks.arg, now->loss.text);
    if (now->ended)
        tell_end(k);
    free(now);
}

static void on_limit(uv_timer_t *timer)
{
    tell_end(timer->data);
}

static int start_thread(struct lease_keeper *k)
{
    pthread_t thread;
    pthread_condattr_t monotonic;
    sigset_t all, before;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->stir, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int rc = pthread_create(&thread, NULL, keep, k);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_detach(thread);
    return rc == 0 ? 0 : -1;
}

int lease_keeper_start(struct lease_keeper **out, uv_loop_t *loop, const char *dir, const struct lease_taker *by,
                       const struct lease_keeper_hooks *hooks, struct err *err)
{
    struct lease_keeper *k = calloc(1, sizeof(*k));
    if (!k)
        return err_set(err, ERR_MEMORY, "no memory for a lease");
    k->hooks = *hooks;
    k->wait_ms = lease_wait_ms();
    snprintf(k->dir, sizeof(k->dir), "%s", dir);
    snprintf(k->origin, sizeof(k->origin), "%s", by->origin);
    snprintf(k->name, sizeof(k->name), "%s", by->name);
    snprintf(k->home, sizeof(k->home), "%s", by->home);
    k->by = (struct lease_taker){.origin = k->origin, .name = k->name, .home = k->home, .job = by->job,
                                 .mirror = by->mirror, .over = &k->over};
    uv_async_init(loop, &k->wake, on_news);
    uv_timer_init(loop, &k->limit);
    k->wake.data = k->limit.data = k;
    k->handles = 2;
    *out = k;
    if (start_thread(k) == 0)
        return 0;
    k->thread_done = true;
    lease_keeper_close(k);
    *out = NULL;
    return err_set(err, ERR_SYSTEM, "cannot start a thread for the lease of %s", dir);
}

const char *lease_keeper_fence(const struct lease_keeper *k)
{
    return k ? k->fence : "";
}

static void tell_over(struct lease_keeper *k)
{
    pthread_mutex_lock(&k->lock);
    atomic_store(&k->over, true);
    pthread_cond_signal(&k->stir);
    pthread_mutex_unlock(&k->lock);
}

void lease_keeper_finish(struct lease_keeper *k, int64_t wait_ms)
{
    k->finishing = true;
    tell_over(k);
    uv_timer_start(&k->limit, on_limit, (uint64_t)wait_ms, 0);
    uv_async_send(&k->wake); /* the thread may have ended before */
}

static void on_closed(uv_handle_t *handle)
{
    struct lease_keeper *k = handle->data;
    if (--k->handles > 0)
        return;
    pthread_mutex_lock(&k->lock);
    k->loop_done = true;
    const bool last = k->thread_done;
    pthread_mutex_unlock(&k->lock);
    if (last)
        free(k);
}

void lease_keeper_close(struct lease_keeper *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->closed = true;
    pthread_mutex_unlock(&k->lock);
    uv_close((uv_handle_t *)&k->wake, on_closed);
    uv_close((uv_handle_t *)&k->limit, on_closed);
}
