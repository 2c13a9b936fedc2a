/* SPDX-License-Identifier: Apache-2.0 */
/* test_dist.c - collectives of 1 to 8 processes: right, in one order, and never an endless wait */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/dist.h"
#include "engine/err.h"

enum { RANKS = 8, REPORT = 504 };

/* What the processes tell the test, and each other: memory that all share. */
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
        char         text[REPORT];
    } rank[RANKS];
};

/* How many nodes the ranks are spread over: all on one, each on its own, or some on each. */
enum layout { ONE_NODE, EACH_ALONE, TWO_NODES };

static struct board *board;
static int world;
static enum layout layout;
static int node_first[RANKS + 1];
static struct dist_meet meet_by_board;
static int64_t init_ms, wait_ms;
static char name[64];

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* --- meeting ----------------------------------------------------------------------------- */

static int put(void *arg, const char *key, const char *value, struct err *err)
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
static const struct dist_meet *meeting(int n)
{
    if (layout == ONE_NODE || n == 1)
        return NULL;
    int nodes = layout == EACH_ALONE ? n : 2;
    for (int i = 0; i <= nodes; i++)
        node_first[i] = layout == EACH_ALONE ? i : i == 0 ? 0 : i == nodes ? n : n < 4 ? 1 : 3;
    meet_by_board = (struct dist_meet){.nodes = nodes, .first = node_first, .interface = "lo",
                                       .put = put, .get = get};
    return &meet_by_board;
}

/* Each rank is a process that runs `body`; what it returns is its verdict: 0, or a line number. */
typedef int (*body_fn)(struct dist *d, int rank, struct err *err);

static _Noreturn void be(int rank, body_fn body)
{
    struct dist_config c = {.rank = rank, .world = world, .name = name, .init_ms = init_ms,
                            .wait_ms = wait_ms, .meet = meeting(world)};
    struct err err = {0};
    struct dist *d = NULL;
    struct dist_fault f = {0};
    int64_t start = now_ms();
    int rc = dist_connect(&d, &c, &f, &err);
    if (rc == 0) {
        rc = body(d, rank, &err);
        f = *dist_fault(d);
    }
    board->rank[rank].ms = (int)(now_ms() - start);
    board->rank[rank].rc = rc;
    board->rank[rank].fault = f;
    snprintf(board->rank[rank].text, REPORT, "%s", err.text);
    board->rank[rank].done = 1;
    dist_destroy(d);
    _exit(0);
}

static void spawn(pid_t *pid, int n, body_fn body)
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

static void reap(const pid_t *pid, int n)
{
    for (int i = 0; i < n; i++)
        if (pid[i] > 0)
            assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
}

static void run(int n, body_fn body)
{
    pid_t pid[RANKS];
    init_ms = 60000;
    wait_ms = 60000;
    spawn(pid, n, body);
    reap(pid, n);
    for (int i = 0; i < n; i++)
        if (board->rank[i].rc != 0)
            fail_msg("rank %d of %d, layout %d: %d: %s", i, n, (int)layout, board->rank[i].rc,
                     board->rank[i].text);
}

static int setup(void **state)
{
    (void)state;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    return munmap(board, sizeof(*board));
}

/* --- numbers ----------------------------------------------------------------------------- */

/* Numbers whose float sum depends on the order. */
static float number(int rank, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + 12345u;
    x ^= x >> 15;
    return (float)(int32_t)(x * 2246822519u) * 1e-3f * (rank % 3 ? 1.0f : 1e-4f);
}

/* In the order of ranks: on each node, then of nodes. */
static float sum_in_order(size_t i)
{
    const struct dist_meet *m = meeting(world);
    float all = 0;
    for (int k = 0; k < (m ? m->nodes : 1); k++) {
        int from = m ? node_first[k] : 0, to = m ? node_first[k + 1] : world;
        float s = number(from, i);
        for (int r = from + 1; r < to; r++)
            s += number(r, i);
        all = k ? all + s : s;
    }
    return all;
}

static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 1000, 4095, 4096, 4097, 65537, 300001, 1048583};

#define NEED(x)          \
    do {                 \
        if (!(x))        \
            return __LINE__; \
    } while (0)

static int all_reduce(struct dist *d, int rank, struct err *err)
{
    float *x = malloc(2000000 * sizeof(*x));
    NEED(x);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        size_t n = sizes[k];
        for (size_t i = 0; i < n; i++)
            x[i] = number(rank, i);
        x[n] = -7;
        NEED(dist_all_reduce(d, x, n, DIST_F32, DIST_SUM, err) == 0 && dist_wait(d, err) == 0);
        for (size_t i = 0; i < n; i++)
            NEED(x[i] == sum_in_order(i));
        NEED(x[n] == -7);
    }
    free(x);
    return 0;
}

static int parts(struct dist *d, int rank, struct err *err)
{
    float *x = malloc(2000000 * sizeof(*x));
    NEED(x);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        size_t n = sizes[k], from, to;
        for (size_t i = 0; i < n; i++)
            x[i] = number(rank, i);
        NEED(dist_reduce_scatter(d, x, n, DIST_F32, DIST_SUM, err) == 0);
        NEED(dist_wait(d, err) == 0);
        dist_slice(&from, &to, n, DIST_F32, rank, world);
        for (size_t i = from; i < to; i++)
            NEED(x[i] == sum_in_order(i));
        for (size_t i = 0; i < n; i++)
            if (i < from || i >= to)
                x[i] = -1;
        NEED(dist_all_gather(d, x, n, DIST_F32, err) == 0 && dist_wait(d, err) == 0);
        for (size_t i = 0; i < n; i++)
            NEED(x[i] == sum_in_order(i));
        for (size_t i = 0; i < n; i++)
            x[i] = number(rank, i);
        NEED(dist_broadcast(d, x, n, DIST_F32, world - 1, err) == 0 && dist_wait(d, err) == 0);
        for (size_t i = 0; i < n; i++)
            NEED(x[i] == number(world - 1, i));
    }
    free(x);
    return 0;
}

/* Many at once, of several types, with polling between: all in their order. */
static int queued(struct dist *d, int rank, struct err *err)
{
    enum { N = 40 };
    static int64_t a[N][3000];
    static double b[N][5];
    unsigned char text[64 * RANKS] = {0};
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 3000; i++)
            a[k][i] = (int64_t)(rank + 1) << (k % 50);
    for (int k = 0; k < N; k++) {
        for (int i = 0; i < 5; i++)
            b[k][i] = (rank * 7 + k) % world + i;
        NEED(dist_all_reduce(d, a[k], 3000, DIST_I64, DIST_SUM, err) == 0);
        NEED(dist_all_reduce(d, b[k], 5, DIST_F64, DIST_MAX, err) == 0);
        NEED(dist_poll(d, err) >= 0);
    }
    text[64 * rank] = (unsigned char)(rank + 1);
    NEED(dist_all_gather(d, text, (size_t)(64 * world), DIST_U8, err) == 0);
    NEED(dist_barrier(d, err) == 0);
    NEED(dist_wait(d, err) == 0 && dist_poll(d, err) == 1);
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 3000; i++)
            NEED(a[k][i] == (int64_t)(world * (world + 1) / 2) << (k % 50));
    for (int k = 0; k < N; k++) {
        double most = 0;
        for (int r = 0; r < world; r++)
            most = (r * 7 + k) % world > most ? (r * 7 + k) % world : most;
        NEED(b[k][4] == most + 4);
    }
    for (int r = 0; r < world; r++)
        NEED(text[64 * r] == r + 1);
    NEED(dist_stats(d)->calls == 2 * N + 2);
    return 0;
}

static int leave_unevenly(struct dist *d, int rank, struct err *err)
{
    float x[100000];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 100000; i++)
            x[i] = 1;
        if (rank == k % world)
            nap();
        NEED(dist_all_reduce(d, x, 100000, DIST_F32, DIST_SUM, err) == 0 && dist_wait(d, err) == 0);
        NEED(x[99999] == (float)world);
    }
    return 0; /* who is ready destroys, while others may still copy */
}

static void right_numbers(void **state)
{
    (void)state;
    for (int n = 1; n <= RANKS; n++) {
        run(n, all_reduce);
        run(n, parts);
        run(n, queued);
        run(n, leave_unevenly);
    }
}

/* Nobody is through a barrier before all have come. */
static int meet(struct dist *d, int rank, struct err *err)
{
    for (int k = 1; k <= 50; k++) {
        board->rank[rank].ms = k;
        NEED(dist_barrier(d, err) == 0 && dist_wait(d, err) == 0);
        for (int r = 0; r < world; r++)
            NEED(board->rank[r].ms >= k);
        NEED(dist_barrier(d, err) == 0 && dist_wait(d, err) == 0);
    }
    return 0;
}

static void barriers(void **state)
{
    (void)state;
    run(2, meet);
    run(5, meet);
}

static void slices(void **state)
{
    (void)state;
    for (size_t n = 0; n < 400; n++)
        for (int p = 1; p <= 9; p++) {
            size_t at = 0, from, to;
            for (int i = 0; i < p; i++) {
                dist_slice(&from, &to, n, DIST_F32, i, p);
                assert_true(from == at && to >= from && (from % 16 == 0 || from == n));
                at = to;
            }
            assert_true(at == n);
        }
    size_t from, to;
    dist_slice(&from, &to, 64 * 3, DIST_U8, 2, 3); /* records of a unit fall one to a rank */
    assert_true(from == 128 && to == 192);
}

/* --- faults ------------------------------------------------------------------------------ */

enum { VICTIM = 1 };

static int work(struct dist *d, int rank, struct err *err, void (*harm)(void), int at)
{
    float *x = calloc(200000, sizeof(*x));
    for (int k = 0; x && k < 200; k++) {
        if (rank == VICTIM && k == at)
            harm();
        size_t n = k % 2 ? 200000 : 100;
        if (dist_all_reduce(d, x, n, DIST_F32, DIST_SUM, err) < 0 || dist_wait(d, err) < 0)
            return -1;
    }
    return 0;
}

static void die(void)
{
    raise(SIGKILL);
}

static void stop(void)
{
    board->go = 1;
    raise(SIGSTOP);
}

static int victim_dies(struct dist *d, int rank, struct err *err)
{
    return work(d, rank, err, die, 101);
}

static int victim_stops(struct dist *d, int rank, struct err *err)
{
    return work(d, rank, err, stop, 100);
}

static void blamed(int n, enum dist_fault_kind kind, int whom, int within_ms, const char *word)
{
    for (int i = 0; i < n; i++) {
        if (i == VICTIM)
            continue;
        const struct dist_fault *f = &board->rank[i].fault;
        if (!board->rank[i].done || board->rank[i].rc != -1 || f->kind != kind || f->rank != whom ||
            board->rank[i].ms > within_ms || !strstr(board->rank[i].text, word))
            fail_msg("layout %d: rank %d of %d: done %d rc %d kind %d rank %d after %d ms: %s",
                     (int)layout, i, n,
                     board->rank[i].done, board->rank[i].rc, (int)f->kind, f->rank,
                     board->rank[i].ms, board->rank[i].text);
    }
}

static void a_killed_peer_is_named_at_once(void **state)
{
    (void)state;
    pid_t pid[RANKS];
    for (int n = 2; n <= RANKS; n += 3) {
        init_ms = wait_ms = 60000;
        spawn(pid, n, victim_dies);
        reap(pid, n);
        blamed(n, DIST_DIED, VICTIM, 20000, "rank 1 died");
    }
}

static void a_stopped_peer_is_named_within_the_deadline(void **state)
{
    (void)state;
    pid_t pid[RANKS];
    for (int n = 2; n <= RANKS; n += layout == ONE_NODE ? 3 : 6) {
        init_ms = 60000;
        wait_ms = 1500;
        spawn(pid, n, victim_stops);
        for (int i = 0; i < n; i++)
            while (i != VICTIM && !board->rank[i].done)
                nap();
        kill(pid[VICTIM], SIGKILL);
        reap(pid, n);
        blamed(n, DIST_LATE, VICTIM, 20000, "rank 1 is stuck or far behind");
    }
}

/* Stopped at any instant of a long sum, not only between two. */
static int endless(struct dist *d, int rank, struct err *err)
{
    static float x[3000000];
    for (;;) {
        if (dist_all_reduce(d, x, 3000000, DIST_F32, DIST_SUM, err) < 0 || dist_wait(d, err) < 0)
            return -1;
        board->rank[rank].begun = 1;
    }
}

static void a_peer_stopped_anywhere_is_named(void **state)
{
    (void)state;
    pid_t pid[RANKS];
    for (int k = layout == ONE_NODE ? 0 : 1; k < 6; k += layout == ONE_NODE ? 1 : 3) {
        int n = 2 + k % 3;
        init_ms = 60000;
        wait_ms = 1500; /* on a busy machine an innocent rank may be put aside for some time */
        spawn(pid, n, endless);
        for (int i = 0; i < n; i++)
            while (!board->rank[i].begun)
                nap();
        nanosleep(&(struct timespec){.tv_nsec = 20000000 + 3371000 * k}, NULL);
        kill(pid[VICTIM], k % 2 ? SIGKILL : SIGSTOP);
        for (int i = 0; i < n; i++)
            while (i != VICTIM && !board->rank[i].done)
                nap();
        kill(pid[VICTIM], SIGKILL);
        reap(pid, n);
        blamed(n, k % 2 ? DIST_DIED : DIST_LATE, VICTIM, 20000, "rank 1");
    }
}

static int apart(struct dist *d, int rank, struct err *err)
{
    float x[64] = {0};
    if (dist_barrier(d, err) < 0 || dist_wait(d, err) < 0)
        return __LINE__;
    if (dist_all_reduce(d, x, rank == VICTIM ? 63 : 64, DIST_F32, DIST_SUM, err) < 0)
        return -1;
    return dist_wait(d, err);
}

static void ranks_that_run_apart_are_told(void **state)
{
    (void)state;
    pid_t pid[RANKS];
    init_ms = wait_ms = 60000;
    spawn(pid, 2, apart);
    reap(pid, 2);
    assert_int_equal(board->rank[0].fault.kind, DIST_MISMATCH);
    assert_int_equal(board->rank[1].fault.kind, DIST_MISMATCH);
    assert_non_null(strstr(board->rank[0].text, "desync: rank"));
}

static int quits(struct dist *d, int rank, struct err *err)
{
    float x[64] = {0};
    if (rank == VICTIM)
        return 0;
    return dist_all_reduce(d, x, 64, DIST_F32, DIST_SUM, err) < 0 ? -1 : dist_wait(d, err);
}

static void a_peer_that_leaves_is_named(void **state)
{
    (void)state;
    pid_t pid[RANKS];
    init_ms = wait_ms = 60000;
    spawn(pid, 3, quits);
    reap(pid, 3);
    blamed(3, DIST_LEFT, VICTIM, 20000, "rank 1 has ended");
}

static void *abort_soon(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    dist_abort(arg);
    return NULL;
}

static int abort_from_a_thread(struct dist *d, int rank, struct err *err)
{
    pthread_t thread;
    float x[64] = {0};
    if (rank == VICTIM) { /* computes, and never comes */
        while (!board->go)
            nap();
        return 0;
    }
    if (rank == 0)
        pthread_create(&thread, NULL, abort_soon, d);
    int rc = dist_all_reduce(d, x, 64, DIST_F32, DIST_SUM, err) < 0 ? -1 : dist_wait(d, err);
    struct err again = {0};
    if (dist_barrier(d, &again) == 0 || strcmp(again.text, err->text) != 0)
        rc = __LINE__;
    if (rank == 0)
        pthread_join(thread, NULL);
    return rc;
}

static void an_abort_wakes_all(void **state)
{
    (void)state;
    pid_t pid[RANKS];
    init_ms = wait_ms = 60000;
    spawn(pid, 4, abort_from_a_thread);
    for (int i = 0; i < 4; i++)
        while (i != VICTIM && !board->rank[i].done)
            nap();
    board->go = 1;
    reap(pid, 4);
    blamed(4, DIST_ABORTED, 0, 20000, "rank 0 aborted");
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    struct err err = {0};
    struct dist *d;
    struct dist_fault f;
    snprintf(name, sizeof(name), "test.absent.%d", (int)getpid());
    struct dist_config c = {.rank = 0, .world = 2, .name = name, .init_ms = 100};
    assert_int_equal(dist_connect(&d, &c, &f, &err), -1);
    assert_int_equal(f.kind, DIST_ABSENT);
    assert_int_equal(f.rank, 1);
    assert_non_null(strstr(err.text, "rank 1 of 2 did not come within 0.1 s"));
    c.rank = 1;
    err = (struct err){0};
    assert_int_equal(dist_connect(&d, &c, &f, &err), -1);
    assert_int_equal(f.rank, 0);
    /* Two of one name. */
    struct dist *first, *second;
    c.rank = 0;
    err = (struct err){0};
    assert_int_equal(dist_begin(&first, &c, &err), 0);
    assert_int_equal(dist_begin(&second, &c, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    dist_destroy(first);
    assert_int_equal(dist_begin(&second, &c, &err), 0); /* and nothing of it is left */
    dist_destroy(second);
}

static void who_does_not_come_from_another_node_is_named(void **state)
{
    (void)state;
    struct err err = {0};
    struct dist *d;
    struct dist_fault f;
    memset(board, 0, sizeof(*board));
    world = 4;
    struct dist_config c = {.rank = 0, .world = 4, .name = "test.absent", .init_ms = 100,
                            .meet = meeting(4)};
    assert_int_equal(dist_connect(&d, &c, &f, &err), -1);
    assert_int_equal(f.kind, DIST_ABSENT);
    assert_int_equal(f.rank, 1);
    assert_non_null(strstr(err.text, "rank 1 of 4 did not come within 0.1 s"));
}

/* Junk, silence, and a rank of another generation knock before rank 1 does. */
static void strangers_are_not_let_in(void **state)
{
    (void)state;
    pid_t pid[2];
    int line[2];
    char junk[40];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(board, 0, sizeof(*board));
    memset(junk, 'x', sizeof(junk));
    world = 2;
    init_ms = wait_ms = 60000;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "test.strangers.%s", i == 1 ? "older" : "now");
        pid_t p = fork();
        assert_true(p >= 0);
        if (p == 0 && i == 1)
            init_ms = 200;
        if (p == 0)
            be(i > 0, parts);
        if (i != 1)
            pid[i > 0] = p;
        if (i == 1)
            assert_int_equal(waitpid(p, NULL, 0), p); /* it calls rank 0, and is not answered */
        for (int k = 0; i == 0 && k < 2; k++) {
            while (!board->told[0].there)
                nap();
            a.sin_port = htons((uint16_t)atoi(strchr(board->told[0].value, ':') + 1));
            line[k] = socket(AF_INET, SOCK_STREAM, 0);
            assert_int_equal(connect(line[k], (struct sockaddr *)&a, sizeof(a)), 0);
            if (k == 0)
                assert_int_equal(write(line[0], junk, sizeof(junk)), sizeof(junk));
        }
        if (i == 1) {
            assert_int_equal(board->rank[1].fault.kind, DIST_ABSENT);
            assert_int_equal(board->rank[0].done, 0);
        }
    }
    reap(pid, 2);
    assert_int_equal(read(line[0], junk, 1), 0); /* sent away without a word */
    close(line[0]);
    close(line[1]);
    for (int i = 0; i < 2; i++)
        if (board->rank[i].rc != 0)
            fail_msg("rank %d: %d: %s", i, board->rank[i].rc, board->rank[i].text);
}

static int choose_layout(void **state)
{
    layout = (enum layout)(uintptr_t)*state;
    return 0;
}

int main(void)
{
#define IN(layout, test) \
    {#test " (" #layout ")", test, choose_layout, NULL, (void *)(uintptr_t)(layout)}
#define EVERYWHERE(test) IN(ONE_NODE, test), IN(EACH_ALONE, test), IN(TWO_NODES, test)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices),
        EVERYWHERE(right_numbers),
        EVERYWHERE(barriers),
        EVERYWHERE(a_killed_peer_is_named_at_once),
        EVERYWHERE(a_stopped_peer_is_named_within_the_deadline),
        EVERYWHERE(a_peer_stopped_anywhere_is_named),
        EVERYWHERE(ranks_that_run_apart_are_told),
        EVERYWHERE(a_peer_that_leaves_is_named),
        EVERYWHERE(an_abort_wakes_all),
        IN(ONE_NODE, who_does_not_come_is_named),
        IN(EACH_ALONE, who_does_not_come_from_another_node_is_named),
        IN(TWO_NODES, who_does_not_come_from_another_node_is_named),
        IN(EACH_ALONE, strangers_are_not_let_in),
    };
    return cmocka_run_group_tests_name("dist", tests, setup, teardown);
}
