/* SPDX-License-Identifier: Apache-2.0 */
/* thread_pool.h - all cores on one loop
 *
 * The caller works too, and waits only for parts that somebody has begun: a
 * worker that the system has put aside holds nothing up, so on a busy machine a
 * step takes its share of the time and not the wait for the slowest thread at
 * each of some hundred loops.  Workers watch for the next loop for a fraction of
 * a millisecond, politely, then sleep.
 *
 * Threads: $OMP_NUM_THREADS if it is a number, else the processors this process
 * may use.  One loop at a time: a loop inside a loop, or of another thread
 * meanwhile, runs in its caller alone.  Safe after fork(): the child has no
 * workers and does all itself.
 */
#ifndef KERNELS_THREAD_POOL_H
#define KERNELS_THREAD_POOL_H

#include <stddef.h>

enum { THREAD_POOL_PARTS_MAX = 65535 };

typedef void (*thread_pool_part_fn)(const void *arg, int part);
typedef void (*thread_pool_range_fn)(const void *arg, size_t from, size_t to);

int thread_pool_size(void);

/* fn(arg, 0) ... fn(arg, parts - 1), each once, in any order; back when all are done. */
void thread_pool_run(int parts, thread_pool_part_fn fn, const void *arg);

/* 0..n in pieces that begin at multiples of `unit`. `work`: what one costs, in numbers touched;
 * too little work stays with the caller. */
void thread_pool_range(size_t n, size_t unit, size_t work, thread_pool_range_fn fn,
                       const void *arg);

/* Loops that do not depend on each other, as one: nobody waits between them. */
struct thread_pool_loop {
    size_t               n, work;
    thread_pool_range_fn fn;
    const void          *arg;
};

enum { THREAD_POOL_LOOPS = 4 };

void thread_pool_loops(const struct thread_pool_loop *loops, int count);

/* Shuffles several lists of parts into one, evenly, so that the first half of each is in the first
 * half of all: which list the part-th is of, and where in it. */
int thread_pool_merge(int part, const int *parts, int count, int *index);

/* The part-th of `parts` pieces of 0..n, cut at multiples of `unit`. */
static inline __attribute__((unused)) void thread_pool_slice(size_t *from, size_t *to, size_t n,
                                                             size_t unit, int part, int parts)
{
    const size_t units = (n + unit - 1) / unit;
    *from = units * (size_t)part / (size_t)parts * unit;
    *to = units * ((size_t)part + 1) / (size_t)parts * unit;
    *from = *from < n ? *from : n;
    *to = *to < n ? *to : n;
}

#endif
