/* SPDX-License-Identifier: Apache-2.0 */
/* dist_fixture.h - ranks as processes of a test: start, identity, results */
#ifndef TESTS_DIST_FIXTURE_H
#define TESTS_DIST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/dist/dist.h"

enum { RANKS = 8, REPORT = 504 };

/* Memory shared by the test and all processes, for their results. */
struct board {
    volatile int go;
    struct {
        volatile int there;
        char         key[32], value[256];
    } told[RANKS];
    struct {
        volatile int begun, done;
        int          rc, ms;
        struct dist_fault fault;
        uint64_t     wire;
        char         text[REPORT];
    } rank[RANKS];
};

/* Distribution of the ranks over nodes: all on one, each on its own, or several on each. */
enum spread { ONE_NODE, EACH_ALONE, TWO_NODES };

static struct board *board;
static int world;
static enum spread layout;
static int node_first[RANKS + 1];
static struct dist_bootstrap meet_by_board;
static int64_t init_ms, wait_ms;
static char name[64];

static inline void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* --- bootstrap --------------------------------------------------------------------------- */

static inline int put(void *arg, const char *key, const char *value, struct err *err)
{
    int at = atoi(strchr(key, '.') + 1); /* "tcp.3" */
    (void)arg;
    (void)err;
    snprintf(board->told[at].key, sizeof(board->told[at].key), "%s", key);
    snprintf(board->told[at].value, sizeof(board->told[at].value), "%s", value);
    __atomic_store_n(&board->told[at].there, 1, __ATOMIC_RELEASE);
    return 0;
}

static const char *get(void *arg, const char *key)
{
    (void)arg;
    for (int i = 0; i < RANKS; i++)
        if (__atomic_load_n(&board->told[i].there, __ATOMIC_ACQUIRE) &&
            strcmp(board->told[i].key, key) == 0)
            return board->told[i].value;
    return NULL;
}

/* Ranks 0 to 2 on the first of two nodes, if there are as many. */
static inline const struct dist_bootstrap *meeting(int n)
{
    if (layout == ONE_NODE || n == 1)
        return NULL;
    int nodes = layout == EACH_ALONE ? n : 2;
    for (int i = 0; i <= nodes; i++)
        node_first[i] = layout == EACH_ALONE ? i : i == 0 ? 0 : i == nodes ? n : n < 4 ? 1 : 3;
    meet_by_board = (struct dist_bootstrap){.nodes = nodes, .first = node_first, .interface = "lo",
                                            .put = put, .get = get};
    return &meet_by_board;
}

/* Each rank is a process that runs `body`; its return value is the result: 0, or a line number. */
typedef int (*body_fn)(struct dist *d, int rank, struct err *err);

static _Noreturn void be(int rank, body_fn body)
{
    struct dist_config c = {.rank = rank, .world = world, .name = name, .init_ms = init_ms,
                            .wait_ms = wait_ms, .bootstrap = meeting(world)};
    struct err err = {0};
    struct dist *d = NULL;
    struct dist_fault f = {0};
    int rc = dist_connect(&d, &c, &f, &err);
    if (rc == 0) {
        rc = body(d, rank, &err);
        f = *dist_fault(d);
        board->rank[rank].wire = dist_stats(d)->wire;
    }
    board->rank[rank].rc = rc;
    board->rank[rank].fault = f;
    snprintf(board->rank[rank].text, REPORT, "%s", err.text);
    board->rank[rank].done = 1;
    dist_destroy(d);
    _exit(0);
}

static inline void spawn(pid_t *pid, int n, body_fn body)
{
    static int count;
    memset(board, 0, sizeof(*board));
    world = n;
    snprintf(name, sizeof(name), "test.%d.%d", (int)getpid(), ++count);
    for (int i = 0; i < n; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            be(i, body);
    }
}

static inline void reap(const pid_t *pid, int n)
{
    for (int i = 0; i < n; i++)
        if (pid[i] > 0)
            assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
}

static inline void run(int n, body_fn body)
{
    pid_t pid[RANKS];
    init_ms = 60000;
    wait_ms = 60000;
    spawn(pid, n, body);
    reap(pid, n);
    for (int i = 0; i < n; i++)
        if (board->rank[i].rc != 0)
            fail_msg("rank %d of %d, layout %d: %d: %s", i, n, (int)layout, board->rank[i].rc, board->rank[i].text);
}

static inline int setup(void **state)
{
    (void)state;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? -1 : 0;
}

static inline int teardown(void **state)
{
    (void)state;
    return munmap(board, sizeof(*board));
}

static inline int choose_layout(void **state)
{
    layout = (enum spread)(uintptr_t)*state;
    return 0;
}

/* Called in the body of a rank. */
#define NEED(x)          \
    do {                 \
        if (!(x))        \
            return __LINE__; \
    } while (0)

#define IN(layout, test) \
    {#test " (" #layout ")", test, choose_layout, NULL, (void *)(uintptr_t)(layout)}
#define EVERYWHERE(test) IN(ONE_NODE, test), IN(EACH_ALONE, test), IN(TWO_NODES, test)

#endif
