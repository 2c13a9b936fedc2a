/* SPDX-License-Identifier: Apache-2.0 */
/* test_nccl.c - the NCCL backend on a stand-in for NCCL: sums, deadlines, and every kind of hang
 *
 * Ranks are processes; "device" memory is their own memory, and a stream has always run
 * everything in its queue, unless a test says otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/dist/dist.h"
#include "engine/dist/nccl.h"
#include "kernels/cuda.h"
#include "kernels/kernels.h"

enum { RANKS = 4, TEXT = 504 };

struct board {
    volatile int there;
    char         id[512];
    struct {
        int  rc, stuck;
        struct dist_fault fault;
        char text[TEXT];
    } rank[RANKS];
};

static struct board *board;
static char fake[4096];  /* libnccl.so.2 beside the tests; the old version has "-old" in its name */
static bool never_reached, shared, beside, failed;

static int put(void *arg, const char *key, const char *value, struct err *err)
{
    (void)arg;
    (void)err;
    assert_string_equal(key, "nccl");
    snprintf(board->id, sizeof(board->id), "%s", value);
    __atomic_store_n(&board->there, 1, __ATOMIC_RELEASE);
    return 0;
}

static const char *get(void *arg, const char *key)
{
    (void)arg;
    (void)key;
    return __atomic_load_n(&board->there, __ATOMIC_ACQUIRE) ? board->id : NULL;
}

static int nothing;

static void *open_stream(bool urgent)
{
    return urgent ? &nothing : NULL;
}

static void forget(void *what)
{
    (void)what;
}

static void *mark(void *stream)
{
    (void)stream;
    return &nothing;
}

static int reached(void *what)
{
    (void)what;
    return !never_reached;
}

static int follow(void *stream, void *what)
{
    (void)stream;
    (void)what;
    return failed ? -1 : 0;
}

static const struct kern_streams streams = {.open = open_stream, .close = forget, .mark = mark,
                                             .reached = reached, .follow = follow, .drop = forget};

typedef int (*body_fn)(struct dist *d, struct err *err);

static _Noreturn void be(int rank, int world, int init_ms, int wait_ms, body_fn body)
{
    struct dist_bootstrap bootstrap = {.put = put, .get = get};
    struct dist_device device = {.ops = kern_cpu(), .streams = &streams, .shared = shared};
    char name[40];
    snprintf(name, sizeof(name), "nccl.%d", (int)getppid());
    struct dist_config c = {.rank = rank, .world = world, .name = name, .init_ms = init_ms,
                            .wait_ms = wait_ms, .bootstrap = &bootstrap, .device = &device};
    struct dist_config host = c;
    struct err err = {0};
    struct dist *d = NULL;
    host.device = NULL;
    host.bootstrap = NULL;
    if (beside && dist_connect(&device.ranks, &host, NULL, &err) < 0)
        _exit(1);
    int rc = dist_connect(&d, &c, &board->rank[rank].fault, &err);
    if (rc == 0) {
        rc = body(d, &err);
        board->rank[rank].fault = *dist_fault(d);
    }
    dist_destroy(d);
    dist_destroy(device.ranks);
    board->rank[rank].rc = rc;
    board->rank[rank].stuck = dist_is_stuck();
    snprintf(board->rank[rank].text, TEXT, "%s", err.text);
    _exit(0);
}

static void run(const char *how, int world, int init_ms, int wait_ms, body_fn body)
{
    pid_t pid[RANKS];
    memset(board, 0, sizeof(*board));
    setenv("FAKE_NCCL", how, 1);
    setenv("JOBCTL_NCCL", fake, 1);
    for (int i = 0; i < world; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            be(i, world, init_ms, wait_ms, body);
    }
    for (int i = 0; i < world; i++)
        waitpid(pid[i], NULL, 0);
}

#define NEED(x)              \
    do {                     \
        if (!(x))            \
            return __LINE__; \
    } while (0)

/* All collectives, with even and uneven slices, several in the queue. */
static int all_kinds(struct dist *d, struct err *err)
{
    enum { N = 1000 };
    static float x[N], y[N], z[N], w[64 * RANKS];
    static int64_t k[8], odd[24 * RANKS]; /* split into 32 and 16, not 24 each */
    int rank = dist_rank(d), world = dist_world(d);
    size_t from, to, all = 64 * (size_t)world;
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i + rank);
        y[i] = z[i] = (float)(rank == 1 ? i : -i);
    }
    for (size_t i = 0; i < all; i++)
        w[i] = 1;
    for (int i = 0; i < 8; i++)
        k[i] = (int64_t)(rank + 1) << 40;
    NEED(dist_all_reduce(d, x, N, DIST_F32, DIST_SUM, err) == 0);
    NEED(dist_broadcast(d, y, N, DIST_F32, 1, err) == 0);
    NEED(dist_reduce_scatter(d, z, N, DIST_F32, DIST_MAX, err) == 0);
    NEED(dist_reduce_scatter(d, w, all, DIST_F32, DIST_SUM, err) == 0);
    NEED(dist_all_reduce(d, k, 8, DIST_I64, DIST_SUM, err) == 0);
    for (int i = 0; i < 24 * world; i++)
        odd[i] = i;
    NEED(dist_reduce_scatter(d, odd, 24 * (size_t)world, DIST_I64, DIST_SUM, err) == 0);
    NEED(dist_barrier(d, err) == 0);
    NEED(dist_wait(d, err) == 0);
    dist_slice(&from, &to, 24 * (size_t)world, DIST_I64, rank, world);
    for (size_t i = from; i < to; i++)
        NEED(odd[i] == (int64_t)i * world);
    dist_slice(&from, &to, N, DIST_F32, rank, world);
    for (int i = 0; i < N; i++) {
        NEED(x[i] == (float)(world * i + world * (world - 1) / 2) && y[i] == (float)i);
        NEED((size_t)i < from || (size_t)i >= to || z[i] == (float)i);
        if ((size_t)i < from || (size_t)i >= to)
            z[i] = -1;
    }
    for (int i = 0; i < 64; i++)
        NEED(w[64 * rank + i] == (float)world);
    NEED(dist_all_gather(d, z, N, DIST_F32, err) == 0);
    NEED(dist_all_gather(d, w, all, DIST_F32, err) == 0);
    NEED(dist_wait(d, err) == 0);
    for (int i = 0; i < N; i++)
        NEED(z[i] == (float)i);
    for (size_t i = 0; i < all; i++)
        NEED(w[i] == (float)world);
    NEED(k[7] == (int64_t)(world * (world + 1) / 2) << 40);
    return 0;
}

static void sums(void **state)
{
    (void)state;
    for (int world = 2; world <= RANKS; world++) {
        run(world == 3 ? "late:1:200" : "", world, 60000, 60000, all_kinds);
        for (int i = 0; i < world; i++)
            if (board->rank[i].rc != 0 || board->rank[i].stuck)
                fail_msg("rank %d of %d: %d %s", i, world, board->rank[i].rc, board->rank[i].text);
    }
}

/* Ranks that share a GPU do not use NCCL, and report the same errors. */
static int one_dies(struct dist *d, struct err *err)
{
    static float x[100000];
    if (dist_rank(d) == 1)
        _exit(0);
    NEED(dist_all_reduce(d, x, 100000, DIST_F32, DIST_SUM, err) == 0);
    NEED(dist_wait(d, err) == 0);
    return 0;
}

static int one_sleeps(struct dist *d, struct err *err)
{
    static float x[100];
    if (dist_rank(d) == 1)
        sleep(1);
    NEED(dist_all_reduce(d, x, 100, DIST_F32, DIST_SUM, err) == 0);
    NEED(dist_wait(d, err) == 0);
    return 0;
}

static void ranks_on_one_gpu(void **state)
{
    (void)state;
    shared = true;
    for (int world = 2; world <= RANKS; world++) {
        run("", world, 60000, 60000, all_kinds);
        for (int i = 0; i < world; i++)
            if (board->rank[i].rc != 0)
                fail_msg("rank %d of %d: %d %s", i, world, board->rank[i].rc, board->rank[i].text);
    }
    run("", 3, 60000, 60000, one_dies);
    for (int i = 0; i < 3; i += 2)
        if (board->rank[i].rc == 0 || !strstr(board->rank[i].text, "rank 1 died"))
            fail_msg("rank %d: %d %s", i, board->rank[i].rc, board->rank[i].text);
    run("", 2, 60000, 300, one_sleeps);
    if (board->rank[0].rc == 0 || board->rank[0].fault.rank != 1 ||
        !strstr(board->rank[0].text, "rank 1 is stuck or far behind"))
        fail_msg("%d %s", board->rank[0].rc, board->rank[0].text);
    shared = false;
}

static int many(struct dist *d, struct err *err)
{
    static float x[1000];
    for (int i = 0; i < 20; i++)
        if (dist_all_reduce(d, x, 1000, DIST_F32, DIST_SUM, err) < 0)
            return -1;
    return dist_wait(d, err);
}

/* The third hangs: a wait for the second returns. */
static int two_of_three(struct dist *d, struct err *err)
{
    static float x[3][1000];
    uint64_t two = 0;
    for (int i = 0; i < 3; i++) {
        x[i][999] = 1;
        if (dist_all_reduce(d, x[i], 1000, DIST_F32, DIST_SUM, err) < 0)
            return -1;
        two = i == 1 ? dist_begun(d) : two;
    }
    NEED(dist_wait_call(d, two, 60000, err) == 0);
    NEED(x[1][999] == (float)dist_world(d));
    return dist_wait(d, err);
}

static int aborts(struct dist *d, struct err *err)
{
    static float x[1000];
    if (dist_all_reduce(d, x, 1000, DIST_F32, DIST_SUM, err) < 0)
        return -1;
    dist_abort(d);
    return dist_wait(d, err);
}

static int sees_no_end(struct dist *d, struct err *err)
{
    never_reached = true;
    return many(d, err);
}

static int fails(struct dist *d, struct err *err)
{
    failed = true;
    return many(d, err);
}

static void faults(void **state)
{
    static const struct {
        const char *how;
        int         init_ms, wait_ms;
        body_fn     body;
        enum dist_fault_kind kind;
        const char *says;
        bool        stuck;
    } cases[] = {
        {"endless", 300, 60000, many, DIST_ABSENT, "the GPUs of this job did not connect within",
         false},
        {"late:1:3000", 300, 60000, many, DIST_ABSENT, "did not connect within 0.3 s", false},
        {"async:5", 60000, 60000, many, DIST_SYSTEM,
         "NCCL failed in a collective: remote process exited or there was a network error; "
         "fake_net.c:7 connection reset (", false},
        {"async:1", 60000, 60000, many, DIST_SYSTEM, "connection reset (the beginning)", false},
        {"hang:1:1", 500, 60000, many, DIST_ABSENT, "did not connect", false},
        {"hang:1:7", 60000, 400, many, DIST_LATE, "did not finish a collective within 0.4 s", false},
        {"hang:1:4", 60000, 400, two_of_three, DIST_LATE, "did not finish", false},
        {"block:1:7 hang:0:7", 400, 400, many, DIST_LATE, "did not finish a collective", false},
        {"", 60000, 400, sees_no_end, DIST_LATE, "did not finish a collective", false},
        {"", 60000, 60000, fails, DIST_DEVICE, "the GPU failed in waiting for the kernels", false},
        {"", 60000, 60000, aborts, DIST_ABORTED, "aborted the job", false},
        {"hang:1:7 stuck", 60000, 300, many, DIST_LATE, "did not finish", true},
    };
    (void)state;
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        run(cases[k].how, 2, cases[k].init_ms, cases[k].wait_ms, cases[k].body);
        for (int i = 0; i < 2; i++)
            if (board->rank[i].rc != -1 || board->rank[i].fault.kind != cases[k].kind ||
                !strstr(board->rank[i].text, cases[k].says) ||
                board->rank[i].stuck != cases[k].stuck)
                fail_msg("case \"%s\", rank %d: rc %d kind %d stuck %d: %s", cases[k].how, i, board->rank[i].rc,
                         (int)board->rank[i].fault.kind, board->rank[i].stuck, board->rank[i].text);
    }
}

/* Rank 1 dies after its second call; rank 0 has begun the third and does not wait for it. */
static int goes_and_leaves(struct dist *d, struct err *err)
{
    static float x[3][1000];
    for (int i = 0; i < 2; i++)
        NEED(dist_all_reduce(d, x[i], 1000, DIST_F32, DIST_SUM, err) == 0);
    NEED(dist_wait(d, err) == 0);
    if (dist_rank(d) == 1)
        _exit(0);
    return dist_all_reduce(d, x[2], 1000, DIST_F32, DIST_SUM, err);
}

/* The same, and rank 0 waits. */
static int goes(struct dist *d, struct err *err)
{
    NEED(goes_and_leaves(d, err) == 0);
    return dist_wait(d, err);
}

/* A call with a peer that is gone is never done: the communicator is aborted, and this process may go on. */
static void a_peer_that_is_gone(void **state)
{
    (void)state;
    run("", 2, 60000, 60000, goes_and_leaves);
    assert_int_equal(board->rank[0].rc, 0);
    assert_false(board->rank[0].stuck);
    beside = true;
    run("", 2, 60000, 60000, goes);
    assert_false(board->rank[0].stuck);
    assert_int_equal(board->rank[0].fault.kind, DIST_DIED);
    assert_int_equal(board->rank[0].fault.rank, 1);
    assert_non_null(strstr(board->rank[0].text, "rank 1 died; this rank waited for it in "));
    beside = false;
}

/* Each in its own process: a library stays loaded. */
static void refused(const char *file, const char *how, const char *says)
{
    memset(board, 0, sizeof(*board));
    pid_t pid = fork();
    if (pid == 0) {
        const struct nccl *n;
        struct err err = {0};
        setenv("FAKE_NCCL", how, 1);
        board->rank[0].rc = nccl_load(&n, file, &err);
        snprintf(board->rank[0].text, TEXT, "%s", board->rank[0].rc == 0 ? n->note : err.text);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    if (!strstr(board->rank[0].text, says))
        fail_msg("%s: %s", how, board->rank[0].text);
}

static void libraries(void **state)
{
    char old[5000];
    (void)state;
    snprintf(old, sizeof(old), "%s", fake);
    snprintf(strrchr(old, '/'), 64, "/libnccl-old.so.2");
    refused("/nowhere/libnccl.so.2", "",
            "several GPUs need NCCL, which cannot be loaded: /nowhere");
    refused(old, "", "lacks ncclGetLastError, ncclCommInitRankConfig: it is not NCCL 2.18");
    refused(fake, "version:21703", "NCCL 2.17.3 (");
    refused(fake, "version:21703", "is too old: several GPUs need 2.18 or newer");
    refused(fake, "version:22602", "is known to hang at random");
    refused(fake, "", "");
    assert_int_equal(board->rank[0].rc, 0);
    assert_string_equal(board->rank[0].text, "");
}

static int setup(void **state)
{
    (void)state;
    ssize_t n = readlink("/proc/self/exe", fake, sizeof(fake) - 64);
    fake[n < 0 ? 0 : n] = '\0';
    char *objects = strstr(fake, "/obj/tests/unit/");
    if (!objects)
        return -1;
    strcpy(objects, "/obj/tests/fake/libnccl.so.2");
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    return munmap(board, sizeof(*board));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(ranks_on_one_gpu),
        cmocka_unit_test(faults),
        cmocka_unit_test(a_peer_that_is_gone),
        cmocka_unit_test(libraries),
    };
    return cmocka_run_group_tests_name("nccl", tests, setup, teardown);
}
