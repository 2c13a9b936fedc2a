/* SPDX-License-Identifier: Apache-2.0 */
/* test_dist_faults.c - ranks that die, stop, leave, diverge or never arrive are named in time */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "tests/unit/engine/dist/dist_fixture.h"

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

/* A limit that begins at 1.5 s: on a busy machine an innocent rank may be suspended for as long, and is then late, too;
 * the ranks try again with more. */
enum { WAIT_MS = 1500, WAIT_MOST_MS = 60000 };

static bool is_blamed(int n, enum dist_fault_kind kind, int whom)
{
    for (int i = 0; i < n; i++) {
        const struct dist_fault *f = &board->rank[i].fault;
        if (i != VICTIM && (f->kind != kind || f->rank != whom))
            return false;
    }
    return true;
}

static void blamed(int n, enum dist_fault_kind kind, int whom, const char *word)
{
    for (int i = 0; i < n; i++) {
        if (i == VICTIM)
            continue;
        const struct dist_fault *f = &board->rank[i].fault;
        if (!board->rank[i].done || board->rank[i].rc != -1 || f->kind != kind || f->rank != whom ||
            !strstr(board->rank[i].text, word))
            fail_msg("layout %d: rank %d of %d: done %d rc %d kind %d rank %d: %s", (int)layout, i, n,
                     board->rank[i].done, board->rank[i].rc, (int)f->kind, f->rank, board->rank[i].text);
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
        blamed(n, DIST_DIED, VICTIM, "rank 1 died");
    }
}

static void stop_one(int n)
{
    pid_t pid[RANKS] = {0};
    init_ms = 60000;
    spawn(pid, n, victim_stops);
    for (int i = 0; i < n; i++)
        while (i != VICTIM && !board->rank[i].done)
            nap();
    kill(pid[VICTIM], SIGKILL);
    reap(pid, n);
}

static void a_stopped_peer_is_named_within_the_deadline(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS; n += layout == ONE_NODE ? 3 : 6) {
        wait_ms = WAIT_MS;
        for (stop_one(n); !is_blamed(n, DIST_LATE, VICTIM) && wait_ms < WAIT_MOST_MS; stop_one(n))
            wait_ms *= 4;
        blamed(n, DIST_LATE, VICTIM, "rank 1 is stuck or far behind");
    }
}

/* Stopped at any instant of a long sum, not only between two sums. */
static int endless(struct dist *d, int rank, struct err *err)
{
    static float x[3000000];
    for (;;) {
        if (dist_all_reduce(d, x, 3000000, DIST_F32, DIST_SUM, err) < 0 || dist_wait(d, err) < 0)
            return -1;
        board->rank[rank].begun = 1;
    }
}

/* With SIGSTOP, or SIGKILL if k is odd. */
static void end_one_anywhere(int n, int k)
{
    pid_t pid[RANKS] = {0};
    init_ms = 60000;
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
}

static void a_peer_stopped_anywhere_is_named(void **state)
{
    (void)state;
    for (int k = layout == ONE_NODE ? 0 : 1; k < 6; k += layout == ONE_NODE ? 1 : 3) {
        const int n = 2 + k % 3;
        const enum dist_fault_kind kind = k % 2 ? DIST_DIED : DIST_LATE;
        wait_ms = WAIT_MS;
        for (end_one_anywhere(n, k); !is_blamed(n, kind, VICTIM) && wait_ms < WAIT_MOST_MS; end_one_anywhere(n, k))
            wait_ms *= 4;
        blamed(n, kind, VICTIM, "rank 1");
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
    blamed(3, DIST_LEFT, VICTIM, "rank 1 has ended");
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
    if (rank == VICTIM) { /* computes, and never joins */
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
    blamed(4, DIST_ABORTED, 0, "rank 0 aborted");
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
    assert_non_null(strstr(err.text, "rank 1 of 2 did not connect within 0.1 s"));
    c.rank = 1;
    err = (struct err){0};
    assert_int_equal(dist_connect(&d, &c, &f, &err), -1);
    assert_int_equal(f.rank, 0);
    /* Two ranks 0 with the same name. */
    struct dist *first, *second;
    c.rank = 0;
    err = (struct err){0};
    assert_int_equal(dist_begin(&first, &c, &err), 0);
    assert_int_equal(dist_begin(&second, &c, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    dist_destroy(first);
    assert_int_equal(dist_begin(&second, &c, &err), 0); /* and nothing is left of the name */
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
    snprintf(name, sizeof(name), "test.absent.%d.%d", (int)getpid(), (int)layout);
    struct dist_config c = {.rank = 0, .world = 4, .name = name, .init_ms = 100,
                            .bootstrap = meeting(4)};
    assert_int_equal(dist_connect(&d, &c, &f, &err), -1);
    assert_int_equal(f.kind, DIST_ABSENT);
    assert_int_equal(f.rank, 1);
    assert_non_null(strstr(err.text, "rank 1 of 4 did not connect within 0.1 s"));
}

static int adds_up(struct dist *d, int rank, struct err *err)
{
    float x[100];
    for (int i = 0; i < 100; i++)
        x[i] = (float)(rank + i);
    NEED(dist_all_reduce(d, x, 100, DIST_F32, DIST_SUM, err) == 0 && dist_wait(d, err) == 0);
    for (int i = 0; i < 100; i++)
        NEED(x[i] == (float)(2 * i + 1));
    return 0;
}

/* Junk, silence, and a rank of another generation connect before rank 1 does. */
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
            be(i > 0, adds_up);
        if (i != 1)
            pid[i > 0] = p;
        if (i == 1)
            assert_int_equal(waitpid(p, NULL, 0), p); /* it connects, and gets no answer */
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
    assert_int_equal(read(line[0], junk, 1), 0); /* disconnected without an answer */
    close(line[0]);
    close(line[1]);
    for (int i = 0; i < 2; i++)
        if (board->rank[i].rc != 0)
            fail_msg("rank %d: %d: %s", i, board->rank[i].rc, board->rank[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    return cmocka_run_group_tests_name("dist_faults", tests, setup, teardown);
}
