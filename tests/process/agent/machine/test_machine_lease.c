/* SPDX-License-Identifier: Apache-2.0 */
/* test_machine_lease.c - leases of a machine between real processes: who gets what, kill -9 anywhere, planted files
 *
 * As root, each user is a different one; otherwise all are this user. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/machine/machine_claims.h"
#include "agent/machine/machine_dir.h"
#include "agent/machine/machine_lease.h"
#include "agent/os/lock_bundle.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

enum { USER = 65401, GPUS = 2, CPUS = 4, PATIENCE_MS = 60 * 1000 };
enum { LIFE_S = 180 /* of what a failing test leaves behind */ };

static char dir[80];
static int checks; /* a file outside of the directory: a byte per resource, locked by the rank that uses it */

/* After the last rank has ended: killed ones may end a moment later, and their marks are no second holder. */
static int empty(void **state)
{
    (void)state;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(checks, F_SETLKW, &all), 0);
    all.l_type = F_UNLCK;
    assert_int_equal(fcntl(checks, F_SETLK, &all), 0);
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        if (unlinkat(dirfd(d), e->d_name, 0) < 0)
            unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    closedir(d);
    return 0;
}

static int up(void **state)
{
    (void)state;
    char path[120];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%.50s/machine.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 01777), 0);
    snprintf(path, sizeof(path), "%s/checks", dir);
    checks = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(checks >= 0);
    return unlink(path);
}

static int down(void **state)
{
    (void)state;
    empty(NULL);
    close(checks);
    return rmdir(dir);
}

static struct machine_ask ask_of(int gpus, int cpus)
{
    struct machine_ask a = {.job = 7, .name = "sana", .names_to = "", .ngpus = GPUS, .need_gpus = gpus,
                            .need_cpus = cpus};
    for (int i = 0; i < GPUS; i++) {
        a.gpus[i] = (struct machine_gpu){.index = i, .would_do = true};
        snprintf(a.gpus[i].uuid, sizeof(a.gpus[i].uuid), "GPU-%c", 'a' + i);
    }
    for (int i = 0; i < CPUS; i++)
        machine_set_add(&a.cpus, MACHINE_GPUS + i);
    return a;
}

/* --- an agent, and its rank ---------------------------------------------------------------------- */

struct actor {
    pid_t agent, rank;
    int told;   /* pipe: a struct word per look */
    int orders; /* pipe: 'r': end the rank and release */
};

struct word {
    char what; /* 'w' waits, 'h' holds, 'X' two holders, 'e' error */
    pid_t rank;
    char text[MACHINE_TEXT];
};

static void say(int fd, char what, pid_t rank, const char *text)
{
    struct word w = {.what = what, .rank = rank};
    snprintf(w.text, sizeof(w.text), "%s", text);
    if (write(fd, &w, sizeof(w)) != (ssize_t)sizeof(w))
        _exit(9);
}

/* The kernel frees these locks before it closes the bundle, whose descriptor is higher. */
static bool mark(const struct machine_lease *l, const struct machine_ask *a)
{
    for (int i = 0; i < a->ngpus; i++) {
        struct flock one = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
        if (machine_lease_has(l, i) && fcntl(checks, F_SETLK, &one) < 0)
            return false;
    }
    return true;
}

_Noreturn static void be_rank(const struct machine_lease *l, const struct machine_ask *a, const struct lock_bundle *b,
                              int told)
{
    close(b->add);
    alarm(LIFE_S);
    say(told, mark(l, a) ? 'h' : 'X', getpid(), "");
    close(told);
    for (;;)
        pause();
}

_Noreturn static void be_agent(int user, const struct machine_ask *a, int told, int orders)
{
    struct lock_bundle b;
    struct machine_lease *l;
    struct err err = {0};
    char text[MACHINE_TEXT] = "", before[MACHINE_TEXT] = "", order;
    enum machine_lease_state state;
    if (geteuid() == 0 && user > 0 && setresuid((uid_t)(USER + user), (uid_t)(USER + user), (uid_t)(USER + user)) < 0)
        _exit(9);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LIFE_S);
    const int watch = machine_dir_watch(dir);
    if (watch < 0 || lock_bundle_open(&b, &err) < 0 || machine_lease_open(&l, dir, a, &b, &err) < 0) {
        say(told, 'e', 0, err.text);
        _exit(1);
    }
    while ((state = machine_lease_try(l, NULL, NULL, text)) != MACHINE_HOLDS) {
        if (state == MACHINE_WAITS && strcmp(text, before) != 0)
            say(told, 'w', 0, text);
        if (state == MACHINE_WAITS)
            strcpy(before, text);
        clock_wait(state == MACHINE_BUSY ? -1 : watch, state == MACHINE_BUSY ? 1 : 1000);
        machine_dir_watched(watch);
    }
    const pid_t rank = fork();
    if (rank == 0)
        be_rank(l, a, &b, told);
    if (read(orders, &order, 1) == 1) {
        kill(rank, SIGKILL);
        waitpid(rank, NULL, 0);
        machine_lease_release(l);
    }
    _exit(0);
}

static struct actor start(int user, int gpus, int cpus)
{
    const struct machine_ask a = ask_of(gpus, cpus);
    int told[2], orders[2];
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (int fd = 3; fd < 256; fd++) /* a lock of the test's own must end with it */
            if (fd != told[1] && fd != orders[0] && fd != checks)
                close(fd);
        be_agent(user, &a, told[1], orders[0]);
    }
    close(told[1]);
    close(orders[0]);
    return (struct actor){.agent = pid, .told = told[0], .orders = orders[1]};
}

/* The next word; fails the test after a minute without one. */
static struct word hear(struct actor *x)
{
    struct word w = {.what = '-'};
    clock_wait(x->told, PATIENCE_MS);
    if (read(x->told, &w, sizeof(w)) != (ssize_t)sizeof(w))
        w.what = '-';
    if (w.rank)
        x->rank = w.rank;
    return w;
}

static void wait_text(struct actor *x, const char *part)
{
    struct word w;
    do
        w = hear(x);
    while (w.what == 'w' && !strstr(w.text, part));
    if (w.what != 'w')
        fail_msg("'%c' %s instead of a wait with '%s'", w.what, w.text, part);
}

static void wait_hold(struct actor *x)
{
    struct word w;
    do
        w = hear(x);
    while (w.what == 'w');
    if (w.what != 'h')
        fail_msg("'%c' %s instead of a lease", w.what, w.text);
}

static void forget(struct actor *x)
{
    close(x->told);
    close(x->orders);
    x->told = x->orders = -1;
}

static void release(struct actor *x)
{
    assert_int_equal(write(x->orders, "r", 1), 1);
    assert_int_equal(waitpid(x->agent, NULL, 0), x->agent);
    forget(x);
}

static void kill_agent(struct actor *x)
{
    kill(x->agent, SIGKILL);
    assert_int_equal(waitpid(x->agent, NULL, 0), x->agent);
}

static void user_name(char *out, size_t size, int user)
{
    machine_dir_user(out, size, geteuid() == 0 ? (uid_t)(USER + user) : geteuid());
}

/* --- tests ------------------------------------------------------------------------------------------ */

static void test_one_holder(void **state)
{
    (void)state;
    char who[64];
    user_name(who, sizeof(who), 1);
    struct actor a = start(1, 1, 1);
    wait_hold(&a);
    struct actor b = start(2, 2, 1);
    wait_text(&b, "waiting for 2 GPUs, 1 of 2 is free: GPU 0 is held by ");
    struct actor c = start(3, 2, 0);
    wait_text(&c, who); /* it says who holds it */
    release(&a);
    wait_hold(&b);
    release(&b);
    wait_hold(&c);
    release(&c);
}

/* The agent is killed: its rank still computes, and holds. Then the rank is killed too. */
static void test_killed(void **state)
{
    (void)state;
    struct actor a = start(1, 2, 4);
    wait_hold(&a);
    kill_agent(&a);
    struct actor b = start(2, 2, 4);
    wait_text(&b, "waiting for 2 GPUs, 0 of 2 are free");
    assert_int_equal(kill(a.rank, SIGKILL), 0);
    wait_hold(&b);
    kill(b.rank, SIGKILL);
    kill_agent(&b);
    forget(&a);
    forget(&b);
}

/* One that waits for all keeps what is free, and the next one waits for its turn; killed, it keeps nothing. */
static void test_turns(void **state)
{
    (void)state;
    struct actor a = start(1, 1, 0);
    wait_hold(&a);
    struct actor b = start(2, 2, 0);
    wait_text(&b, "waiting for 2 GPUs, 1 of 2 is free");
    struct actor c = start(3, 1, 0);
    wait_text(&c, "waiting for its turn: 1 job is ahead of it: ");
    kill_agent(&b);
    wait_hold(&c);
    release(&a);
    release(&c);
    forget(&b);
}

static void test_outsider(void **state)
{
    (void)state;
    char path[120];
    struct err err = {0};
    const int fd = machine_dir_open(dir, "gpu-GPU-a", &err);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    struct actor a = start(1, 2, 0);
    wait_text(&a, "GPU 0 is locked by process ");
    struct actor b = start(1, 0, 1);
    wait_hold(&b); /* it needs no GPU */
    close(fd);
    snprintf(path, sizeof(path), "%s/claim-x", dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)); /* something changes */
    wait_hold(&a);
    release(&a);
    release(&b);
}

/* Whatever somebody put in the place of a lock is not followed, not opened for ever, and named. */
static void test_planted(void **state)
{
    (void)state;
    char path[120];
    snprintf(path, sizeof(path), "%s/gpu-GPU-a", dir);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    struct actor a = start(1, 2, 0);
    wait_text(&a, "gpu-GPU-a cannot be opened: it is not a regular file; it belongs to ");
    kill_agent(&a);
    forget(&a);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    struct actor b = start(1, 2, 0);
    wait_text(&b, "gpu-GPU-a cannot be opened: it is not a regular file; it belongs to ");
    struct actor c = start(2, 0, 2);
    wait_hold(&c);
    kill_agent(&b);
    forget(&b);
    release(&c);
}

/* The kernel may close what was in the bundle a moment after the last process that had it has ended. */
static size_t claims_left(void)
{
    const int64_t end = clock_ms() + PATIENCE_MS;
    for (size_t n;;) {
        json_t *claims = machine_claims_read(dir);
        n = json_array_size(claims);
        json_decref(claims);
        if (n == 0 || clock_ms() > end)
            return n;
        clock_wait(-1, 1);
    }
}

static void test_claims(void **state)
{
    (void)state;
    char text[200], path[120];
    struct actor a = start(1, 1, 2);
    wait_hold(&a);
    snprintf(path, sizeof(path), "%s/claim-1-nonsense", dir);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "{\"state\":5", 10), 10);
    flock(fd, LOCK_EX);
    json_t *claims = machine_claims_read(dir);
    assert_int_equal(json_array_size(claims), 1);
    machine_claims_text(text, sizeof(text), json_array_get(claims, 0));
    assert_non_null(strstr(text, " since "));
    assert_true(strstr(text, "(job sana)") || geteuid() != 0); /* root may read all names */
    json_decref(claims);
    close(fd);
    release(&a);
    assert_int_equal(claims_left(), 0);
}

static void test_directories(void **state)
{
    (void)state;
    char out[MACHINE_DIR_PATH];
    struct err err = {0};
    setenv("JOBCTL_MACHINE_DIR", dir, 1);
    assert_int_equal(machine_dir_find(out, &err), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(machine_dir_find(out, &err), -1);
    assert_non_null(strstr(err.text, "is not sticky"));
    assert_int_equal(chmod(dir, 01777), 0);
    if (geteuid() == 0) {
        err = (struct err){0};
        assert_int_equal(chown(dir, USER, (gid_t)-1), 0);
        assert_int_equal(machine_dir_find(out, &err), -1);
        assert_non_null(strstr(err.text, "not to root"));
        assert_int_equal(chown(dir, 0, (gid_t)-1), 0);
    }
    err = (struct err){0};
    setenv("JOBCTL_MACHINE_DIR", "/nonexistent/jobctl", 1);
    assert_int_equal(machine_dir_find(out, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    setenv("JOBCTL_MACHINE_DIR", "none", 1);
}

/* --- three users, kill -9 anywhere ------------------------------------------------------------------ */

enum { USERS = 3, LANES = 2, JOBS = 10 };

static unsigned draw(unsigned *random, unsigned n)
{
    *random = *random * 1664525U + 1013904223U;
    return (*random >> 8) % n;
}

/* The daemon of a user: one job after the other, which it kills in one of several places. Exits 0 if none ever met
 * another holder. */
_Noreturn static void be_daemon(int user, int lane)
{
    unsigned random = (unsigned)(user * 16 + lane);
    for (int i = 0; i < JOBS; i++) {
        struct actor a = start(user, (int)draw(&random, GPUS + 1), 1 + (int)draw(&random, CPUS));
        const unsigned end = draw(&random, 4);
        struct word w;
        if (end == 0) { /* killed wherever it is */
            kill_agent(&a);
            struct word last = {.rank = 0};
            while (read(a.told, &w, sizeof(w)) == (ssize_t)sizeof(w)) {
                last = w;
                if (w.rank)
                    kill(w.rank, SIGKILL);
            }
            if (last.what == 'X')
                _exit(7);
            forget(&a);
            continue;
        }
        do
            w = hear(&a);
        while (w.what == 'w');
        if (w.what != 'h')
            _exit(w.what == 'X' ? 7 : 8);
        if (end == 1) {
            kill_agent(&a);
            kill(a.rank, SIGKILL);
        } else if (end == 2) {
            kill(a.rank, SIGKILL);
            kill_agent(&a);
        } else {
            release(&a);
        }
        if (a.told >= 0)
            forget(&a);
    }
    _exit(0);
}

static void test_three_users(void **state)
{
    (void)state;
    pid_t pids[USERS * LANES];
    for (int i = 0; i < USERS * LANES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            be_daemon(1 + i % USERS, i / USERS);
    }
    for (int i = 0; i < USERS * LANES; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        if (status != 0)
            fail_msg("user %d: %s (status %x)", 1 + i % USERS,
                     WEXITSTATUS(status) == 7 ? "two holders" : "failed", status);
    }
    struct actor last = start(0, GPUS, CPUS); /* nothing is left of all of them */
    wait_hold(&last);
    release(&last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_holder, empty),  cmocka_unit_test_setup(test_killed, empty),
        cmocka_unit_test_setup(test_turns, empty),       cmocka_unit_test_setup(test_outsider, empty),
        cmocka_unit_test_setup(test_planted, empty),     cmocka_unit_test_setup(test_claims, empty),
        cmocka_unit_test_setup(test_directories, empty), cmocka_unit_test_setup(test_three_users, empty),
    };
    return cmocka_run_group_tests(tests, up, down);
}
