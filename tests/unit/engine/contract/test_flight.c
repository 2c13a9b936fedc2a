/* SPDX-License-Identifier: Apache-2.0 */
/* test_flight.c - the flight page: a writer and a reader process; the writer may die */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256], path[300];

static int make_dir(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "flight");
    snprintf(path, sizeof(path), "%s/page", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

/* Runs in the child: 700 steps, more entries than the ring holds, then waits to be killed in the
 * middle of a backward pass. */
static void fly(int ready)
{
    struct flight *f;
    if (flight_attach(&f, path, NULL) < 0)
        _exit(9);
    flight_set_total(f, 1000);
    for (uint64_t step = 0; step < 700; step++) {
        flight_enter(f, step, PHASE_FORWARD);
        flight_enter(f, step, PHASE_BACKWARD);
        flight_step_done(f, step + 1, 3000000);
    }
    flight_micro(f, 3, 8, 16);
    flight_enter(f, 700, PHASE_BACKWARD);
    flight_work(f, 5, 9);
    if (write(ready, "x", 1) != 1)
        _exit(9);
    pause();
    _exit(9);
}

static void a_page_outlives_its_writer(void **state)
{
    (void)state;
    struct err err = {0};
    int pipefd[2];
    char c;
    assert_int_equal(flight_create(path, 2, 4, 7, &err), 0);
    assert_int_equal(pipe(pipefd), 0);
    pid_t pid = fork();
    if (pid == 0)
        fly(pipefd[1]);
    assert_int_equal(read(pipefd[0], &c, 1), 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    struct flight *f;
    static struct flight_page p;
    assert_int_equal(flight_open(&f, path, &err), 0);
    flight_read(f, &p);
    assert_int_equal(flight_step(&p), 700);
    assert_int_equal(flight_phase_of(&p), PHASE_BACKWARD);
    assert_string_equal(flight_phase_name(flight_phase_of(&p)), "backward");
    assert_int_equal(p.pid, pid);
    assert_int_equal(p.rank, 2);
    assert_int_equal(p.world_size, 4);
    assert_int_equal(p.generation, 7);
    assert_int_equal(p.steps_total, 1000);
    assert_int_equal(p.phase_done, 5);
    assert_int_equal(p.phase_total, 9);
    assert_int_equal(p.micro_batch, 3);
    assert_int_equal(p.bucket, (uint64_t)8 << 32 | 16);
    assert_true(p.phase_start_ns >= p.attached_ns);
    assert_int_equal(p.step_hist[flight_bin(3000000)], 700);
    uint64_t forwards = 0;
    for (int i = 0; i < FLIGHT_BINS; i++)
        forwards += p.phase_hist[PHASE_FORWARD][i];
    assert_int_equal(forwards, 700);
    /* the last 256 of 1401 entries, each in its slot */
    assert_int_equal(p.ring_next, 1402);
    for (int i = 0; i < FLIGHT_RING; i++) {
        assert_true(p.ring[i].seq > 1401 - FLIGHT_RING && p.ring[i].seq <= 1401);
        assert_int_equal(p.ring[i].seq % FLIGHT_RING, i);
    }
    flight_close(f);
    close(pipefd[0]);
    close(pipefd[1]);
}

static void a_reader_never_sees_a_torn_entry(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(flight_create(path, 0, 1, 1, &err), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct flight *f;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (flight_attach(&f, path, NULL) < 0)
            _exit(9);
        for (uint64_t step = 0;; step++) {
            flight_micro(f, 0, 0, step ? step - 1 : 0); /* the value of forward entries */
            flight_enter(f, step, (enum flight_phase)(step % FLIGHT_PHASES));
            flight_work(f, step, 0);
        }
    }
    struct flight *f;
    static struct flight_page p;
    assert_int_equal(flight_open(&f, path, &err), 0);
    uint64_t last = 0;
    int entries = 0;
    time_t give_up = time(NULL) + 30;
    for (int i = 0; (i < 2000 || last < 1000) && time(NULL) < give_up; i++) {
        flight_read(f, &p);
        if (flight_step(&p) == last)
            sched_yield();
        assert_true(flight_step(&p) >= last);
        last = flight_step(&p);
        assert_int_equal(flight_phase_of(&p), last ? last % FLIGHT_PHASES : 0);
        for (int k = 0; k < FLIGHT_RING; k++) {
            const struct flight_entry *e = &p.ring[k];
            if (e->seq == 0)
                continue;
            entries++;
            assert_int_equal(e->step_phase >> 8, e->seq - 1);
            assert_int_equal(e->step_phase & 0xff, (e->seq - 1) % FLIGHT_PHASES);
            assert_int_equal(e->value, e->seq > 1 ? e->seq - 2 : 0);
        }
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(last >= 1000 && entries > 1000);
    flight_close(f);
}

static void a_file_that_is_no_page_is_refused(void **state)
{
    (void)state;
    struct flight *f;
    struct err err = {0};
    assert_int_equal(flight_open(&f, "/nonexistent/page", &err), -1);
    assert_non_null(strstr(err.text, "/nonexistent/page"));
    static const struct {
        off_t at, size;
        const char *says;
    } bad[] = {
        {-1, 100, "not a flight page"},
        {offsetof(struct flight_page, magic), FLIGHT_BYTES, "not a flight page"},
        {offsetof(struct flight_page, bytes), FLIGHT_BYTES, "not a flight page"},
        {offsetof(struct flight_page, version), FLIGHT_BYTES, "has version"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memset(&err, 0, sizeof(err));
        assert_int_equal(flight_create(path, 0, 1, 1, &err), 0);
        int fd = open(path, O_WRONLY);
        if (bad[i].at >= 0)
            assert_int_equal(pwrite(fd, "\xee", 1, bad[i].at), 1);
        assert_int_equal(ftruncate(fd, bad[i].size), 0);
        close(fd);
        assert_int_equal(flight_attach(&f, path, &err), -1);
        assert_non_null(strstr(err.text, bad[i].says));
    }
}

static void a_new_page_leaves_an_old_mapping_alone(void **state)
{
    (void)state;
    struct flight *f;
    struct err err = {0};
    static struct flight_page p;
    assert_int_equal(flight_create(path, 0, 1, 1, &err), 0);
    assert_int_equal(flight_open(&f, path, &err), 0);
    assert_int_equal(flight_create(path, 0, 1, 2, &err), 0);
    flight_read(f, &p);
    assert_int_equal(p.generation, 1);
    flight_close(f);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, FLIGHT_BYTES);
}

static void bins_match_their_limits(void **state)
{
    (void)state;
    assert_int_equal(flight_bin(0), 0);
    assert_int_equal(flight_bin(UINT64_MAX), FLIGHT_BINS - 1);
    for (int b = 1; b < FLIGHT_BINS - 1; b++) {
        uint64_t lo = (uint64_t)ceil(1000 * exp2(b / 2.0) + 1e-6);
        uint64_t hi = flight_bin_ceil_ns(b);
        assert_int_equal(flight_bin(lo), b);
        assert_int_equal(flight_bin(hi - 1), b);
        assert_int_equal(flight_bin(hi + 1), b + 1);
    }
    uint64_t hist[FLIGHT_BINS] = {0};
    assert_int_equal(flight_quantile_ns(hist, 0.999), 0);
    hist[10] = 990;
    hist[20] = 9;
    hist[30] = 1;
    assert_int_equal(flight_quantile_ns(hist, 0.5), flight_bin_ceil_ns(10));
    assert_int_equal(flight_quantile_ns(hist, 0.999), flight_bin_ceil_ns(20));
    assert_int_equal(flight_quantile_ns(hist, 1.0), flight_bin_ceil_ns(30));
}

static void a_rank_without_an_agent_has_a_private_page(void **state)
{
    (void)state;
    struct flight *f;
    struct err err = {0};
    static struct flight_page p;
    assert_int_equal(flight_attach(&f, NULL, &err), 0);
    flight_enter(f, 4, PHASE_DATA);
    flight_read(f, &p);
    assert_int_equal(flight_step(&p), 4);
    assert_int_equal(flight_phase_of(&p), PHASE_DATA);
    flight_close(f);
}

/* Another node's page: 0 (never) stays 0, and only times change. */
static void times_shift_to_another_clock(void **state)
{
    (void)state;
    static struct flight_page p, q;
    p = (struct flight_page){.pid = 5, .attached_ns = 100, .phase_start_ns = 900, .step_phase = 77,
                             .ring_next = 3};
    p.phase_ns[PHASE_DATA] = 50;
    p.ring[1] = (struct flight_entry){.seq = 1, .at_ns = 500, .step_phase = 7, .value = 9};
    q = p;
    flight_shift(&q, 1000);
    assert_int_equal(q.attached_ns, 1100);
    assert_int_equal(q.phase_start_ns, 1900);
    assert_int_equal(q.coll_start_ns, 0);
    assert_int_equal(q.ring[1].at_ns, 1500);
    assert_int_equal(q.ring[2].at_ns, 0);
    assert_int_equal(q.phase_ns[PHASE_DATA], 50);
    flight_shift(&q, -1000);
    assert_memory_equal(&p, &q, sizeof(p));
    flight_shift(&q, -600);
    assert_int_equal(q.attached_ns, 1);
    assert_int_equal(q.phase_start_ns, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_outlives_its_writer),
        cmocka_unit_test(a_reader_never_sees_a_torn_entry),
        cmocka_unit_test(a_file_that_is_no_page_is_refused),
        cmocka_unit_test(a_new_page_leaves_an_old_mapping_alone),
        cmocka_unit_test(bins_match_their_limits),
        cmocka_unit_test(a_rank_without_an_agent_has_a_private_page),
        cmocka_unit_test(times_shift_to_another_clock),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
