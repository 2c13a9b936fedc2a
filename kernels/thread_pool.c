/* SPDX-License-Identifier: Apache-2.0 */
/* thread_pool.c - run one loop on all cores; see thread_pool.h
 *
 * Each thread has a slot: one word that holds the number of the loop, the
 * next part, and the end of the thread's parts.  A thread takes a part by a
 * compare-and-exchange to next + 1: a worker that slept through a
 * whole loop and wakes in a later one cannot take a stale part, because its
 * exchange fails.  A thread takes its own parts first, then those of others.
 * So the same rows go to the same core from loop to loop and are still in its
 * cache, unless that core is busy with another process.
 */
#include "kernels/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS_MAX = 1024,
    LOOKS = 64,         /* polls between two reads of the clock */
    SPIN_NS = 20000,    /* after this time a waiting thread yields its processor at each poll */
    WATCH_NS = 400000,  /* then a worker sleeps: longer than a gap in a step */
    RANGE_WORK = 8192,  /* least numbers per part */
    RANGE_PARTS = 4     /* parts per thread: the last one to finish delays the loop little */
};

struct slot {
    _Alignas(64) _Atomic uint64_t word; /* loop << 32 | end << 16 | next */
};

static struct {
    int              size;      /* threads, the caller included: it is thread 0 */
    atomic_flag      busy;
    uint32_t         loop;      /* number of loops so far, written by the caller */
    _Atomic uint32_t done;      /* parts of this loop */
    _Atomic uint32_t bell;      /* increased once per loop; workers sleep on it (futex) */
    _Atomic uint32_t asleep;
    _Atomic(thread_pool_part_fn) fn;
    _Atomic(const void *) arg;
    struct slot      slot[THREADS_MAX];
} pool = {.busy = ATOMIC_FLAG_INIT};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Takes and runs one part of a slot; false when none is left. */
static bool take_part(struct slot *slot)
{
    uint64_t w = atomic_load_explicit(&slot->word, memory_order_acquire);
    for (;;) {
        const uint32_t next = w & 0xFFFF, end = w >> 16 & 0xFFFF;
        if (next >= end)
            return false;
        const thread_pool_part_fn fn = atomic_load_explicit(&pool.fn, memory_order_relaxed);
        const void *arg = atomic_load_explicit(&pool.arg, memory_order_relaxed);
        if (!atomic_compare_exchange_weak_explicit(&slot->word, &w, w + 1, memory_order_acq_rel, memory_order_acquire))
            continue;
        fn(arg, (int)next);
        atomic_fetch_add_explicit(&pool.done, 1, memory_order_release);
        return true;
    }
}

/* All parts left in the loop, its own first. */
static void take_parts(int self)
{
    for (int i = 0; i < pool.size; i++)
        while (take_part(&pool.slot[(self + i) % pool.size]))
            continue;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Polls until *value equals, or no longer equals, `other`; gives up after `limit` nanoseconds. */
static bool await_value(const _Atomic uint32_t *value, uint32_t other, bool equal, int64_t limit)
{
    int64_t start = 0;
    for (;;) {
        for (int i = 0; i < LOOKS; i++) {
            if ((atomic_load_explicit(value, memory_order_acquire) == other) == equal)
                return true;
            relax();
        }
        const int64_t now = now_ns();
        start = start ? start : now;
        const int64_t waited = now - start;
        if (waited > limit)
            return false;
        if (waited > SPIN_NS)
            sched_yield(); /* the thread that we wait for may need this processor */
    }
}

/* Until the bell differs from the value `heard` that the worker read before. */
static void await_bell(uint32_t heard)
{
    if (await_value(&pool.bell, heard, false, WATCH_NS))
        return;
    atomic_fetch_add(&pool.asleep, 1);
    while (atomic_load(&pool.bell) == heard)
        syscall(SYS_futex, &pool.bell, FUTEX_WAIT_PRIVATE, heard, NULL, NULL, 0);
    atomic_fetch_sub(&pool.asleep, 1);
}

static void *work(void *arg)
{
    const int self = (int)(intptr_t)arg;
    uint32_t heard = 0;
    for (;;) {
        await_bell(heard);
        heard = atomic_load(&pool.bell);
        take_parts(self);
    }
    return NULL;
}

static int threads_wanted(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    char *end = NULL;
    long n = text ? strtol(text, &end, 10) : 0;
    cpu_set_t set;
    if (!text || end == text || n < 1)
        n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int)n;
}

/* Workers block all signals: those belong to the program's own threads. */
static void start(void)
{
    sigset_t all, was;
    pthread_attr_t attr;
    pool.size = threads_wanted();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (int i = 1; i < pool.size; i++) {
        pthread_t t;
        if (pthread_create(&t, &attr, work, (void *)(intptr_t)i) != 0)
            break; /* fewer threads; the parts are the same */
    }
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
}

int thread_pool_size(void)
{
    pthread_once(&once, start);
    return pool.size;
}

/* Neighbouring parts go to one thread; if parts are fewer than threads, the first threads
 * get them. */
static void publish(int parts, thread_pool_part_fn fn, const void *arg)
{
    const int active = parts < pool.size ? parts : pool.size;
    const uint64_t loop = (uint64_t)++pool.loop << 32;
    atomic_store_explicit(&pool.fn, fn, memory_order_relaxed);
    atomic_store_explicit(&pool.arg, arg, memory_order_relaxed);
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    for (int i = 0; i < active; i++) {
        const uint64_t next = (uint64_t)parts * (uint64_t)i / (uint64_t)active;
        const uint64_t end = (uint64_t)parts * (uint64_t)(i + 1) / (uint64_t)active;
        atomic_store_explicit(&pool.slot[i].word, loop | end << 16 | next, memory_order_release);
    }
    atomic_fetch_add(&pool.bell, 1);
    if (atomic_load(&pool.asleep) > 0)
        syscall(SYS_futex, &pool.bell, FUTEX_WAKE_PRIVATE, parts - 1, NULL, NULL, 0);
}

void thread_pool_run(int parts, thread_pool_part_fn fn, const void *arg)
{
    if (parts <= 1 || thread_pool_size() == 1 || atomic_flag_test_and_set(&pool.busy)) {
        for (int i = 0; i < parts; i++)
            fn(arg, i);
        return;
    }
    publish(parts, fn, arg);
    take_parts(0);
    await_value(&pool.done, (uint32_t)parts, true, INT64_MAX);
    atomic_flag_clear(&pool.busy);
}

int thread_pool_merge(int part, const int *parts, int count, int *index)
{
    int at[THREAD_POOL_LOOPS] = {0}, which = 0;
    for (int p = 0; p <= part; p++) {
        which = -1;
        for (int i = 0; i < count; i++) {
            /* the smallest (at + 1/2) / parts comes next */
            if (at[i] < parts[i] && (which < 0 || (2 * at[i] + 1) * parts[which] < (2 * at[which] + 1) * parts[i]))
                which = i;
        }
        at[which]++;
    }
    *index = at[which] - 1;
    return which;
}

/* A loop and how it is cut. */
struct range {
    struct thread_pool_loop loop;
    size_t                  unit;
    int                     parts;
};

static int range_parts(size_t n, size_t unit, size_t work_each)
{
    const size_t units = (n + unit - 1) / unit, most = (size_t)thread_pool_size() * RANGE_PARTS;
    size_t parts = n * work_each / RANGE_WORK;
    parts = parts < most ? parts : most;
    parts = parts < units ? parts : units;
    return thread_pool_size() == 1 || parts < 1 ? 1 : (int)parts;
}

static void range_run(const struct range *r, int part)
{
    size_t from, to;
    thread_pool_slice(&from, &to, r->loop.n, r->unit, part, r->parts);
    if (to > from)
        r->loop.fn(r->loop.arg, from, to);
}

static void range_part(const void *arg, int part)
{
    range_run(arg, part);
}

void thread_pool_range(size_t n, size_t unit, size_t work_each, thread_pool_range_fn fn, const void *arg)
{
    const struct range r = {{n, work_each, fn, arg}, unit, range_parts(n, unit, work_each)};
    thread_pool_run(r.parts, range_part, &r);
}

struct ranges {
    struct range range[THREAD_POOL_LOOPS];
    int          parts[THREAD_POOL_LOOPS];
    int          count;
};

static void ranges_part(const void *arg, int part)
{
    const struct ranges *r = arg;
    int index;
    const int which = thread_pool_merge(part, r->parts, r->count, &index);
    range_run(&r->range[which], index);
}

void thread_pool_loops(const struct thread_pool_loop *loops, int count)
{
    struct ranges all = {.count = count};
    int parts = 0;
    for (int i = 0; i < count; i++) {
        all.parts[i] = range_parts(loops[i].n, 1, loops[i].work);
        all.range[i] = (struct range){loops[i], 1, all.parts[i]};
        parts += all.parts[i];
    }
    if (parts > count) {
        thread_pool_run(parts, ranges_part, &all);
        return;
    }
    for (int i = 0; i < parts; i++) /* too little work for a second thread */
        ranges_part(&all, i);
}
