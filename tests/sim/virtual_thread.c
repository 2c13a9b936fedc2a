/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_thread.c - threads of a virtual process, and chance, in place of the C library's
 *
 * The linker sends the calls of agent and controller here (--wrap=pthread_create and so on; SIM_WRAPS in
 * tests/tests.mk). A thread runs until it waits for a condition, so that mutexes are never contended.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "tests/sim/virtual_process.h"

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags);
time_t __wrap_time(time_t *out);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);

/* One that waits, of the process that runs. */
struct waiter {
    struct waiter        *next;
    const pthread_cond_t *cond;
    bool                  woken;
};

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    struct sim_thread *t = sim_thread_start(run, arg);
    (void)attr;
    if (!t)
        return EAGAIN;
    memcpy(out, &t, sizeof(t));
    return 0;
}

static bool has_ended(void *arg)
{
    return sim_thread_ended(arg);
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    struct sim_thread *t;
    memcpy(&t, &thread, sizeof(t));
    sim_wait(has_ended, t, INT64_MAX);
    if (result)
        *result = NULL;
    return 0;
}

int __wrap_pthread_detach(pthread_t thread)
{
    (void)thread;
    return 0;
}

static bool was_woken(void *arg)
{
    return ((struct waiter *)arg)->woken;
}

static int wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns)
{
    void **at = sim_waiters(sim_current());
    struct waiter w = { .next = *at, .cond = cond };
    *at = &w;
    pthread_mutex_unlock(lock);
    const bool woken = sim_wait(was_woken, &w, until_ns);
    pthread_mutex_lock(lock);
    while (*at != &w)
        at = (void **)&((struct waiter *)*at)->next;
    *at = w.next;
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    return wait_until(cond, lock, INT64_MAX);
}

/* All conditions of ours use the monotonic clock. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *until)
{
    return wait_until(cond, lock, (int64_t)until->tv_sec * 1000000000 + until->tv_nsec);
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    struct waiter *w = *sim_waiters(sim_current());
    while (w && (w->cond != cond || w->woken))
        w = w->next;
    if (w)
        w->woken = true;
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    for (struct waiter *w = *sim_waiters(sim_current()); w; w = w->next)
        if (w->cond == cond)
            w->woken = true;
    return 0;
}

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)out)[i] = (unsigned char)sim_chance();
    return (ssize_t)size;
}

time_t __wrap_time(time_t *out)
{
    const time_t now = (time_t)(sim_wall_ns() / 1000000000);
    if (out)
        *out = now;
    return now;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    sim_wait(NULL, NULL, sim_now() + (int64_t)pause->tv_sec * 1000000000 + pause->tv_nsec);
    if (left)
        memset(left, 0, sizeof(*left));
    return 0;
}
