/* SPDX-License-Identifier: Apache-2.0 */
/* file_work.c - see file_work.h
 *
 * Under the lock: the three lists and the numbers of threads. A task is in one list: queued, running or ended. The
 * loop takes ended ones when a thread has sent `wake`, and looks for late ones LOOKS times in its patience.
 */
#include "controller/base/file_work.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"

enum { LOOKS = 5, STACK_BYTES = 512 * 1024, CLOSE_LOOK_MS = 5 };

struct list {
    struct file_task *first, **last;
};

struct file_work {
    pthread_mutex_t lock;
    pthread_cond_t  more;               /* a task may begin, or all threads shall end */
    struct list     queued, running, ended;
    int             threads, idle, allowed;
    int64_t         patience_ms;
    bool            closing;
    uv_async_t      wake;
    uv_timer_t      look;
    int             handles;            /* to be closed */
};

static void list_init(struct list *l)
{
    *l = (struct list){ .last = &l->first };
}

static void list_append(struct list *l, struct file_task *t)
{
    t->next = NULL;
    *l->last = t;
    l->last = &t->next;
}

static void list_remove(struct list *l, struct file_task *t)
{
    struct file_task **at = &l->first;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (l->last == &t->next)
        l->last = at;
}

static struct file_task *find_lane(const struct list *l, const char *lane)
{
    struct file_task *t = l->first;
    while (t && strcmp(t->lane, lane) != 0)
        t = t->next;
    return t;
}

static void destroy(struct file_task *t)
{
    free(t->lane);
    free(t->what);
    t->lane = t->what = NULL;
    t->destroy(t);
}

static void drop_list(struct list *l)
{
    for (struct file_task *t; (t = l->first);) {
        list_remove(l, t);
        destroy(t);
    }
}

/* A thread in a call that hangs outlives the close: whoever comes last frees what remains. */
static void unlock_last(struct file_work *w)
{
    const bool last = w->closing && w->handles == 0 && w->threads == 0;
    pthread_mutex_unlock(&w->lock);
    if (!last)
        return;
    drop_list(&w->ended);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    free(w);
}

/* ---- the threads ---- */

/* The first queued task whose lane is free. */
static struct file_task *next_task(const struct file_work *w)
{
    struct file_task *t = w->queued.first;
    while (t && find_lane(&w->running, t->lane))
        t = t->next;
    return t;
}

static void more_threads(struct file_work *w);

static void run_task(struct file_work *w, struct file_task *t)
{
    list_remove(&w->queued, t);
    list_append(&w->running, t);
    t->running = true;
    t->begun_ms = clock_ms();
    more_threads(w);
    pthread_mutex_unlock(&w->lock);
    t->work(t);
    pthread_mutex_lock(&w->lock);
    list_remove(&w->running, t);
    t->running = false;
    list_append(&w->ended, t);
    if (!w->closing)
        uv_async_send(&w->wake);
}

static void *serve(void *arg)
{
    struct file_work *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->closing && w->threads <= w->allowed) {
        struct file_task *t = next_task(w);
        if (t) {
            run_task(w, t);
            continue;
        }
        w->idle++;
        pthread_cond_wait(&w->more, &w->lock);
        w->idle--;
    }
    w->threads--;
    unlock_last(w);
    return NULL;
}

/* Signals are the loop's: a thread in a call that hangs would never take one. */
static bool start_thread(struct file_work *w)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, old;
    if (pthread_attr_init(&attr) != 0)
        return false;
    sigfillset(&all);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const bool started = pthread_create(&thread, &attr, serve, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return started;
}

/* For the next task, if there is one. */
static void more_threads(struct file_work *w)
{
    if (w->closing || !next_task(w))
        return;
    if (w->idle > 0)
        pthread_cond_signal(&w->more);
    else if (w->threads < w->allowed && start_thread(w))
        w->threads++;
}

/* ---- the loop ---- */

static bool set_aside(const struct file_work *w, const struct file_task *t)
{
    return t->running && clock_ms() - t->begun_ms >= w->patience_ms / LOOKS;
}

/* Of the tasks that have ended: one, or NULL. */
static struct file_task *take_ended(struct file_work *w)
{
    pthread_mutex_lock(&w->lock);
    struct file_task *t = w->ended.first;
    if (t)
        list_remove(&w->ended, t);
    pthread_mutex_unlock(&w->lock);
    return t;
}

static void woken(uv_async_t *wake)
{
    struct file_work *w = wake->data;
    for (struct file_task *t; (t = take_ended(w));) {
        if (t->dropped) {
            destroy(t);
            continue;
        }
        free(t->lane);
        free(t->what);
        t->lane = t->what = NULL;
        t->done(t);
    }
}

static int64_t patience_of(const struct file_work *w, const struct file_task *t)
{
    return t->patience_ms ? t->patience_ms : w->patience_ms;
}

/* A task of the list that is late, and was not told so yet. */
static struct file_task *find_late(const struct file_work *w, const struct list *l)
{
    struct file_task *t = l->first;
    while (t && (t->told || t->dropped || clock_ms() - t->asked_ms < patience_of(w, t)))
        t = t->next;
    if (t)
        t->told = true;
    return t;
}

static struct file_task *take_late(struct file_work *w)
{
    pthread_mutex_lock(&w->lock);
    struct file_task *t = find_late(w, &w->running);
    if (!t)
        t = find_late(w, &w->queued);
    pthread_mutex_unlock(&w->lock);
    return t;
}

static void look(uv_timer_t *timer)
{
    struct file_work *w = timer->data;
    int aside = 0;
    pthread_mutex_lock(&w->lock);
    for (const struct file_task *t = w->running.first; t; t = t->next)
        aside += set_aside(w, t);
    w->allowed = FILE_WORK_BUSY + aside < FILE_WORK_THREADS ? FILE_WORK_BUSY + aside : FILE_WORK_THREADS;
    more_threads(w);
    if (!w->running.first && !w->queued.first)
        uv_timer_stop(timer);
    pthread_mutex_unlock(&w->lock);
    for (struct file_task *t; (t = take_late(w));)
        if (t->late)
            t->late(t);
}

/* ---- tasks ---- */

int file_work_begin(struct file_work *w, struct file_task *task, const char *lane, const char *what, struct err *err)
{
    task->lane = strdup(lane);
    task->what = strdup(what);
    if (!task->lane || !task->what) {
        free(task->lane);
        free(task->what);
        task->lane = task->what = NULL;
        return err_set(err, ERR_MEMORY, "out of memory for %s", what);
    }
    task->running = task->dropped = task->told = false;
    task->asked_ms = clock_ms();
    pthread_mutex_lock(&w->lock);
    list_append(&w->queued, task);
    more_threads(w);
    pthread_mutex_unlock(&w->lock);
    if (!uv_is_active((uv_handle_t *)&w->look))
        uv_timer_start(&w->look, look, (uint64_t)w->patience_ms / LOOKS, (uint64_t)w->patience_ms / LOOKS);
    return 0;
}

void file_work_drop(struct file_work *w, struct file_task *task)
{
    pthread_mutex_lock(&w->lock);
    struct file_task *t = w->queued.first;
    while (t && t != task)
        t = t->next;
    if (t)
        list_remove(&w->queued, t);
    task->dropped = true;
    pthread_mutex_unlock(&w->lock);
    if (t)
        destroy(t);
}

static void tell(const struct file_work *w, const struct file_task *task, struct err *err)
{
    const struct file_task *blocks = task->running ? task : find_lane(&w->running, task->lane);
    if (!blocks)
        err_set(err, ERR_SYSTEM, "%s has to wait for other file operations, such as %s", task->what,
                w->running.first ? w->running.first->what : "one that has just ended");
    else
        err_set(err, ERR_SYSTEM, "%s has not answered for %lld s: its file system hangs or is very slow; "
                "everything else continues", blocks->what, (long long)(clock_ms() - blocks->begun_ms) / 1000);
}

void file_work_why(struct file_work *w, const struct file_task *task, struct err *err)
{
    pthread_mutex_lock(&w->lock);
    tell(w, task, err);
    pthread_mutex_unlock(&w->lock);
}

bool file_work_stuck(struct file_work *w, const char *lane, struct err *err)
{
    pthread_mutex_lock(&w->lock);
    const struct file_task *t = find_lane(&w->running, lane);
    const bool stuck = t && clock_ms() - t->begun_ms >= patience_of(w, t);
    if (stuck)
        tell(w, t, err);
    pthread_mutex_unlock(&w->lock);
    return stuck;
}

/* ---- open, close ---- */

struct file_work *file_work_open(uv_loop_t *loop, int64_t patience_ms, struct err *err)
{
    struct file_work *w = calloc(1, sizeof(*w));
    if (!w || uv_async_init(loop, &w->wake, woken) != 0) {
        free(w);
        err_set(err, ERR_MEMORY, "out of memory for file work");
        return NULL;
    }
    uv_timer_init(loop, &w->look);
    w->wake.data = w->look.data = w;
    w->handles = 2;
    w->allowed = FILE_WORK_BUSY;
    w->patience_ms = patience_ms;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    list_init(&w->queued);
    list_init(&w->running);
    list_init(&w->ended);
    return w;
}

/* Tasks that run and are not set aside. */
static bool busy(struct file_work *w)
{
    bool some = false;
    pthread_mutex_lock(&w->lock);
    for (const struct file_task *t = w->running.first; t; t = t->next)
        some |= !set_aside(w, t);
    some |= !w->running.first && w->threads > 0;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    return some;
}

static void closed(uv_handle_t *handle)
{
    struct file_work *w = handle->data;
    pthread_mutex_lock(&w->lock);
    w->handles--;
    unlock_last(w);
}

void file_work_close(struct file_work *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    drop_list(&w->queued);
    pthread_mutex_unlock(&w->lock);
    while (busy(w))
        clock_wait(-1, CLOSE_LOOK_MS);
    uv_close((uv_handle_t *)&w->wake, closed);
    uv_close((uv_handle_t *)&w->look, closed);
}
