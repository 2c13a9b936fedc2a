/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - see team.h
 *
 * One word says everything about the loop in hand: its number, how many parts
 * it has, which part is next.  A part is taken by exchanging the word for the
 * same with next + 1, so a worker that was asleep through a whole loop and wakes
 * in the next one takes nothing that is not there: its exchange fails.
 */
#include "kernels/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    THREADS_MAX = 1024,
    WATCH = 3000,       /* looks of a worker, some ten microseconds, before it sleeps */
    RANGE_WORK = 8192,  /* least numbers worth a part */
    RANGE_PARTS = 4     /* parts per thread: the last to finish holds little */
};

static struct {
    int              size;      /* threads, the caller included */
    atomic_flag      busy;
    _Atomic uint64_t word;      /* loop << 32 | parts << 16 | next */
    _Atomic uint32_t done;      /* parts of this loop */
    _Atomic uint32_t bell;      /* rung once per loop; workers sleep on it */
    _Atomic uint32_t asleep;
    _Atomic(team_part_fn) fn;
    _Atomic(const void *) arg;
} team = {.busy = ATOMIC_FLAG_INIT};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Takes and does one part; false when there is none. */
static bool take_part(void)
{
    uint64_t w = atomic_load_explicit(&team.word, memory_order_acquire);
    for (;;) {
        const uint32_t next = w & 0xFFFF, parts = w >> 16 & 0xFFFF;
        if (next >= parts)
            return false;
        const team_part_fn fn = atomic_load_explicit(&team.fn, memory_order_relaxed);
        const void *arg = atomic_load_explicit(&team.arg, memory_order_relaxed);
        if (!atomic_compare_exchange_weak_explicit(&team.word, &w, w + 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        fn(arg, (int)next);
        atomic_fetch_add_explicit(&team.done, 1, memory_order_release);
        return true;
    }
}

/* Until the bell has been rung since it read `heard`. */
static void await_bell(uint32_t heard)
{
    for (int i = 0; i < WATCH; i++) {
        if (atomic_load_explicit(&team.bell, memory_order_acquire) != heard)
            return;
        relax();
    }
    atomic_fetch_add(&team.asleep, 1);
    while (atomic_load(&team.bell) == heard)
        syscall(SYS_futex, &team.bell, FUTEX_WAIT_PRIVATE, heard, NULL, NULL, 0);
    atomic_fetch_sub(&team.asleep, 1);
}

static void *work(void *arg)
{
    uint32_t heard = 0;
    (void)arg;
    for (;;) {
        await_bell(heard);
        heard = atomic_load(&team.bell);
        while (take_part())
            continue;
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

/* Workers take no signals: those belong to the program's own threads. */
static void start(void)
{
    sigset_t all, was;
    pthread_attr_t attr;
    team.size = threads_wanted();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (int i = 1; i < team.size; i++) {
        pthread_t t;
        if (pthread_create(&t, &attr, work, NULL) != 0)
            break; /* fewer hands; the parts are the same */
    }
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
}

int team_size(void)
{
    pthread_once(&once, start);
    return team.size;
}

static void publish(int parts, team_part_fn fn, const void *arg)
{
    const uint64_t loop = (atomic_load_explicit(&team.word, memory_order_relaxed) >> 32) + 1;
    atomic_store_explicit(&team.fn, fn, memory_order_relaxed);
    atomic_store_explicit(&team.arg, arg, memory_order_relaxed);
    atomic_store_explicit(&team.done, 0, memory_order_relaxed);
    atomic_store_explicit(&team.word, loop << 32 | (uint64_t)parts << 16, memory_order_release);
    atomic_fetch_add(&team.bell, 1);
    if (atomic_load(&team.asleep) > 0)
        syscall(SYS_futex, &team.bell, FUTEX_WAKE_PRIVATE, parts - 1, NULL, NULL, 0);
}

void team_run(int parts, team_part_fn fn, const void *arg)
{
    if (parts <= 1 || team_size() == 1 || atomic_flag_test_and_set(&team.busy)) {
        for (int i = 0; i < parts; i++)
            fn(arg, i);
        return;
    }
    publish(parts, fn, arg);
    while (take_part())
        continue;
    for (int i = 0;
         atomic_load_explicit(&team.done, memory_order_acquire) != (uint32_t)parts; i++) {
        if (i < WATCH)
            relax();
        else
            sched_yield(); /* who has the last part may need this processor */
    }
    atomic_flag_clear(&team.busy);
}

/* A loop and how it is cut. */
struct range {
    struct team_loop loop;
    size_t           unit;
    int              parts;
};

static int range_parts(size_t n, size_t unit, size_t work_each)
{
    const size_t units = (n + unit - 1) / unit, most = (size_t)team_size() * RANGE_PARTS;
    size_t parts = n * work_each / RANGE_WORK;
    parts = parts < most ? parts : most;
    parts = parts < units ? parts : units;
    return team_size() == 1 || parts < 1 ? 1 : (int)parts;
}

static void range_run(const struct range *r, int part)
{
    size_t from, to;
    team_slice(&from, &to, r->loop.n, r->unit, part, r->parts);
    if (to > from)
        r->loop.fn(r->loop.arg, from, to);
}

static void range_part(const void *arg, int part)
{
    range_run(arg, part);
}

void team_range(size_t n, size_t unit, size_t work_each, team_range_fn fn, const void *arg)
{
    const struct range r = {{n, work_each, fn, arg}, unit, range_parts(n, unit, work_each)};
    team_run(r.parts, range_part, &r);
}

struct ranges {
    struct range range[TEAM_LOOPS];
};

static void ranges_part(const void *arg, int part)
{
    const struct range *r = ((const struct ranges *)arg)->range;
    while (part >= r->parts)
        part -= r++->parts;
    range_run(r, part);
}

void team_loops(const struct team_loop *loops, int count)
{
    struct ranges all;
    int parts = 0;
    for (int i = 0; i < count; i++) {
        all.range[i] =
            (struct range){loops[i], 1, range_parts(loops[i].n, 1, loops[i].work)};
        parts += all.range[i].parts;
    }
    if (parts > count) {
        team_run(parts, ranges_part, &all);
        return;
    }
    for (int i = 0; i < parts; i++) /* too little work for anybody else */
        ranges_part(&all, i);
}
