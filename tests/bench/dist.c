/* SPDX-License-Identifier: Apache-2.0 */
/* dist.c - all-reduce of N ranks on this machine, compared with N processes that only copy
 *
 * dist [RANKS | NODESxRANKS]...: a table for each.  4 is four ranks that share memory;
 * 2x2 are two "nodes" of two, between which it is TCP over the loopback interface.
 * "copy" is the time in which each of the same processes copies 1.25 times the bytes
 * with memcpy(), in the same run, turn by turn.  Medians; the fastest in brackets.  "wire"
 * is what a node sends to others, in bytes of the buffer; 2 (N - 1) / N is the least.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/dist/dist.h"

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

static void bootstrap(struct dist *d)
{
    struct err err = {0};
    must(dist_barrier(d, &err), &err);
    must(dist_wait(d, &err), &err);
}

/* --- how nodes meet: a page that all share ------------------------------------------------ */

enum { NODES = 16 };

static struct board {
    struct {
        volatile int there;
        char         key[32], value[256];
    } told[NODES];
} *board;

static int my_node;

static int put(void *arg, const char *key, const char *value, struct err *err)
{
    (void)arg;
    (void)err;
    snprintf(board->told[my_node].key, sizeof(board->told[my_node].key), "%s", key);
    snprintf(board->told[my_node].value, sizeof(board->told[my_node].value), "%s", value);
    __atomic_store_n(&board->told[my_node].there, 1, __ATOMIC_RELEASE);
    return 0;
}

static const char *get(void *arg, const char *key)
{
    (void)arg;
    for (int i = 0; i < NODES; i++)
        if (__atomic_load_n(&board->told[i].there, __ATOMIC_ACQUIRE) &&
            strcmp(board->told[i].key, key) == 0)
            return board->told[i].value;
    return NULL;
}

static void measure(struct dist *d, size_t bytes, int nodes)
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
    uint64_t wire = 0, wired = 0;
    for (int i = -2; i < times; i++) {
        bootstrap(d);
        wired = dist_stats(d)->wire;
        double start = now();
        must(dist_all_reduce(d, x, n, DIST_F32, DIST_SUM, &err), &err);
        must(dist_wait(d, &err), &err);
        double mid = now();
        wire = dist_stats(d)->wire - wired;
        bootstrap(d);
        double again = now();
        memcpy(to, from, more);
        bootstrap(d);
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
        printf("  %9zu bytes: %10.1f us (%.1f), %6.2f GB/s; copy %10.1f us (%.1f): %.2f times", bytes, 1e6 * r,
               1e6 * reduce[0], (double)bytes / r * 1e-9, 1e6 * c, 1e6 * copy[0], r / c);
    if (dist_rank(d) == 0 && nodes > 1)
        printf("; wire %.2f, least %.2f", (double)wire / (double)bytes, 2.0 * (nodes - 1) / nodes);
    if (dist_rank(d) == 0)
        printf("\n");
    free(x);
    free(from);
    free(to);
}

static _Noreturn void be(int rank, int nodes, int each, const char *name)
{
    struct err err = {0};
    struct dist *d;
    int first[NODES + 1], world = nodes * each;
    for (int i = 0; i <= nodes; i++)
        first[i] = i * each;
    my_node = rank / each;
    struct dist_bootstrap meeting = {.nodes = nodes, .first = first, .interface = "lo", .put = put,
                                     .get = get};
    struct dist_config c = {.rank = rank, .world = world, .name = name, .init_ms = 30000,
                            .wait_ms = 30000, .bootstrap = nodes > 1 ? &meeting : NULL};
    must(dist_connect(&d, &c, NULL, &err), &err);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure(d, sizes[i], nodes);
    dist_destroy(d);
    fflush(stdout);
    _exit(0);
}

/* "4" or "2x2". */
static int read_layout(const char *text, int *nodes, int *each)
{
    char *end;
    *nodes = 1;
    *each = (int)strtol(text, &end, 10);
    if (*end == 'x') {
        *nodes = *each;
        *each = (int)strtol(end + 1, &end, 10);
    }
    return *end || *nodes < 1 || *nodes > NODES || *each < 1 || *nodes * *each > 64 ? -1 : 0;
}

int main(int argc, char **argv)
{
    static const char *const standard[] = {"2", "4", "2x1", "4x1", "2x2"};
    int bad = 0, n = argc > 1 ? argc - 1 : 5;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    for (int i = 0; i < n; i++) {
        const char *text = argc > 1 ? argv[i + 1] : standard[i];
        int nodes, each, status;
        char name[64];
        if (read_layout(text, &nodes, &each) < 0)
            return 2;
        printf("%s ranks, all-reduce of float32\n", text);
        fflush(stdout);
        snprintf(name, sizeof(name), "bench.%d.%d", (int)getpid(), i);
        memset(board, 0, sizeof(*board));
        for (int r = 0; r < nodes * each; r++)
            if (fork() == 0)
                be(r, nodes, each, name);
        while (wait(&status) > 0)
            bad |= status != 0;
    }
    return bad;
}
