/* SPDX-License-Identifier: Apache-2.0 */
/* dist.c - all-reduce of N ranks on this machine, beside N processes that each only copy
 *
 * dist [RANKS...]: a table for each number of ranks.  "copy" is the time in which each of
 * the same processes copies 1.25 times the bytes with memcpy(), in the same run, turn
 * by turn.  Medians; the fastest in brackets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/dist.h"
#include "engine/err.h"

enum { MOST = 2001 };

static const size_t sizes[] = {4, 4096, 65536, 1 << 20, 64 << 20};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void must(int rc, const struct err *err)
{
    if (rc < 0) {
        fprintf(stderr, "%s\n", err->text);
        _exit(1);
    }
}

static void meet(struct dist *d)
{
    struct err err = {0};
    must(dist_barrier(d, &err), &err);
    must(dist_wait(d, &err), &err);
}

static void measure(struct dist *d, size_t bytes)
{
    static double reduce[MOST], copy[MOST];
    struct err err = {0};
    size_t n = bytes / sizeof(float), more = bytes + bytes / 4;
    int times = bytes > 1 << 20 ? 15 : bytes > 65536 ? 101 : MOST;
    float *x = aligned_alloc(64, bytes + 64);
    char *from = aligned_alloc(64, more + 64), *to = aligned_alloc(64, more + 64);
    for (size_t i = 0; i < n; i++)
        x[i] = 1e-6f;
    memset(from, 1, more);
    memset(to, 1, more);
    for (int i = -2; i < times; i++) {
        meet(d);
        double start = now();
        must(dist_all_reduce(d, x, n, DIST_F32, DIST_SUM, &err), &err);
        must(dist_wait(d, &err), &err);
        double mid = now();
        meet(d);
        double again = now();
        memcpy(to, from, more);
        meet(d);
        if (i >= 0) {
            reduce[i] = mid - start;
            copy[i] = now() - again;
        }
        from[0] ^= to[more - 1]; /* both are used */
        for (size_t k = 0; i % 8 == 0 && k < n; k++)
            x[k] = 1e-6f;
    }
    qsort(reduce, (size_t)times, sizeof(*reduce), by_size);
    qsort(copy, (size_t)times, sizeof(*copy), by_size);
    double r = reduce[times / 2], c = copy[times / 2];
    if (dist_rank(d) == 0)
        printf("  %9zu bytes: %10.1f us (%.1f), %6.2f GB/s; copy %10.1f us (%.1f): %.2f times\n",
               bytes, 1e6 * r, 1e6 * reduce[0], (double)bytes / r * 1e-9, 1e6 * c, 1e6 * copy[0],
               r / c);
    free(x);
    free(from);
    free(to);
}

static _Noreturn void be(int rank, int world, const char *name)
{
    struct err err = {0};
    struct dist *d;
    struct dist_config c = {.rank = rank, .world = world, .name = name, .init_ms = 30000,
                            .wait_ms = 30000};
    must(dist_connect(&d, &c, NULL, &err), &err);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure(d, sizes[i]);
    dist_destroy(d);
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    static const int standard[] = {2, 4};
    int bad = 0, n = argc > 1 ? argc - 1 : 2;
    for (int i = 0; i < n; i++) {
        int world = argc > 1 ? atoi(argv[i + 1]) : standard[i], status;
        char name[64];
        if (world < 1 || world > 64)
            return 2;
        printf("%d ranks, all-reduce of float32\n", world);
        fflush(stdout);
        snprintf(name, sizeof(name), "bench.%d.%d", (int)getpid(), i);
        for (int r = 0; r < world; r++)
            if (fork() == 0)
                be(r, world, name);
        while (wait(&status) > 0)
            bad |= status != 0;
    }
    return bad;
}
