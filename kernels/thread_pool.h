/* SPDX-License-Identifier: Apache-2.0 */
/* thread_pool.h - run one loop on all cores
 *
 * The caller works too, and waits only for parts that a thread has begun: a
 * worker that the system has descheduled delays nothing, so a step on a busy
 * machine takes its share of the time instead of waiting for the slowest thread in
 * each of some hundred loops.  Workers poll for the next loop for a fraction of
 * a millisecond, yielding the processor, then sleep.
 *
 * Threads: $OMP_NUM_THREADS if it is a number, else the processors that this process
 * may use.  One loop at a time: a nested loop, or a loop of another thread
 * meanwhile, runs in its caller alone.  Safe after fork(): the child has no
 * workers and runs its loops alone.
 */
#ifndef KERNELS_THREAD_POOL_H
#define KERNELS_THREAD_POOL_H

#include <stddef.h>

typedef void (*thread_pool_part_fn)(const void *arg, int part);
typedef void (*thread_pool_range_fn)(const void *arg, size_t from, size_t to);

int thread_pool_size(void);

/* Calls fn(arg, 0) ... fn(arg, parts - 1), each once, in any order; returns when all are done. */
void thread_pool_run(int parts, thread_pool_part_fn fn, const void *arg);

/* 0..n in pieces that begin at multiples of `unit`. `work`: cost of one item, in numbers accessed;
 * a loop with too little work stays with the caller. */
void thread_pool_range(size_t n, size_t unit, size_t work, thread_pool_range_fn fn, const void *arg);

/* Several independent loops as one, without a barrier between them. */
struct thread_pool_loop {
    size_t               n, work;
    thread_pool_range_fn fn;
    const void          *arg;
};

enum { THREAD_POOL_LOOPS = 4 };

void thread_pool_loops(const struct thread_pool_loop *loops, int count);

/* Interleaves several lists of parts evenly into one, so that the first half of each list is in the
 * first half of the whole: which list part `part` belongs to, and its index there. */
int thread_pool_merge(int part, const int *parts, int count, int *index);

/* Piece `part` of `parts` of 0..n, cut at multiples of `unit`. */
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
