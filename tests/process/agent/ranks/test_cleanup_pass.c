/* SPDX-License-Identifier: Apache-2.0 */
/* test_cleanup_pass.c - the environment of a process older than the attempt is not read, and nothing else is missed
 *
 * openat() is counted here: the linker takes this one instead of libc's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "agent/os/identity.h"
#include "agent/os/pid_span.h"
#include "agent/ranks/cleanup.h"
#include "agent/ranks/cleanup_pass.h"
#include "engine/base/err.h"

static char watched[16], nonce[64], mark[80]; /* the pid in digits */
static int opens, environs, stats;

/* Those of /proc, of the process that is watched, and of its environment. */
int openat(int dir, const char *path, int flags, ...)
{
    char link[32], at[64] = "";
    const size_t n = strlen(watched);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
    const ssize_t got = readlink(link, at, sizeof(at) - 1);
    at[got > 0 ? got : 0] = '\0';
    const bool below = n && strncmp(at, "/proc/", 6) == 0 && strcmp(at + 6, watched) == 0;
    opens += below || (n && strncmp(path, watched, n) == 0 && (path[n] == '\0' || path[n] == '/'));
    environs += below && strcmp(path, "environ") == 0;
    stats += strstr(path, "stat") != NULL;
    return (int)syscall(SYS_openat, dir, path, flags, 0);
}

static int64_t start_of(pid_t pid)
{
    char path[40], text[600];
    long long start = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[n] = '\0';
    if (f)
        fclose(f);
    const char *end = strrchr(text, ')');
    assert_non_null(end);
    assert_int_equal(sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
                            &start), 1);
    return start;
}

/* A process with the mark that waits, once it has its environment. */
static pid_t marked(void)
{
    char *const env[] = {mark, NULL}, *const argv[] = {(char[]){"sleep"}, (char[]){"600"}, NULL};
    int gone[2];
    assert_int_equal(pipe2(gone, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        execve("/bin/sleep", argv, env);
        _exit(127);
    }
    close(gone[1]);
    char byte;
    assert_int_equal(read(gone[0], &byte, 1), 0); /* closed by exec */
    close(gone[0]);
    return pid;
}

/* One that started in a later tick of the clock than `old`. */
static pid_t younger(pid_t old)
{
    for (pid_t pid;;) {
        pid = marked();
        if (start_of(pid) > start_of(old))
            return pid;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static int count(pid_t of, const struct cleanup_pass *s)
{
    snprintf(watched, sizeof(watched), "%d", (int)of);
    opens = environs = 0;
    const int n = cleanup_pass_run(s, NULL, 0);
    watched[0] = '\0';
    return n;
}

static int up(void **state)
{
    (void)state;
    snprintf(nonce, sizeof(nonce), "t%dy", (int)getpid());
    snprintf(mark, sizeof(mark), "JOBCTL_NONCE=%s", nonce);
    return 0;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void an_older_one_costs_one_open(void **state)
{
    (void)state;
    const pid_t old = marked(), young = younger(old);
    struct cleanup_pass s = {.nonce = nonce};
    assert_int_equal(count(old, &s), 2); /* how much older the attempt is, is not known */
    assert_int_equal(environs, 1);
    s.since = start_of(young);
    assert_int_equal(count(old, &s), 1);
    assert_int_equal(environs, 0);
    assert_int_equal(opens, 1);
    assert_int_equal(count(young, &s), 1);
    assert_int_equal(environs, 1);
    s.adopted = true; /* a child is looked at, however old */
    assert_int_equal(count(old, &s), 2);
    s.signo = SIGKILL;
    s.adopted = false;
    assert_int_equal(count(young, &s), 1);
    assert_int_equal(waitpid(young, NULL, 0), young);
    assert_int_equal(waitpid(old, NULL, WNOHANG), 0); /* it lives */
    end(old);
}

static void *wait_for_end(void *arg)
{
    int *gate = arg;
    char byte;
    (void)!read(gate[0], &byte, 1);
    return NULL;
}

/* Where the kernel tells which pids were given out since, no other process is looked at; a thread is no process. */
static void only_those_born_since(void **state)
{
    (void)state;
    int64_t after, until;
    int gate[2];
    pthread_t thread;
    const pid_t old = marked();
    const struct pid_span then = pid_span_now();
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_end, gate), 0);
    const pid_t young = marked();
    struct cleanup_pass s = {.nonce = nonce, .born = &then};
    const int n = count(old, &s), looks = opens;
    const bool known = pid_span_since(&then, &after, &until); /* not if the pids came around just now */
    s.signo = SIGKILL;
    assert_int_equal(cleanup_pass_run(&s, NULL, 0) > 0, 1);
    assert_int_equal(waitpid(young, NULL, 0), young);
    close(gate[1]);
    pthread_join(thread, NULL);
    close(gate[0]);
    end(old);
    assert_int_equal(n, known ? 1 : 2);
    if (known)
        assert_int_equal(looks, 0);
}

static void spared_ones_are_told(void **state)
{
    (void)state;
    bool spared = true;
    const pid_t pid = marked();
    struct cleanup_pass s = {.nonce = nonce, .generation = 3, .spared = &spared};
    assert_int_equal(cleanup_pass_run(&s, NULL, 0), 0); /* of no generation: the setup left it */
    assert_true(spared);
    s.generation = 0;
    assert_int_equal(cleanup_pass_run(&s, NULL, 0), 1);
    assert_false(spared);
    end(pid);
}

static int told, told_clean;

static void on_clean(void *arg, bool clean, const char *left)
{
    (void)arg;
    (void)left;
    told++;
    told_clean += clean;
}

/* Passes that a cleanup makes, until it tells that all is clean. */
static int passes(uv_loop_t *loop, struct cleanup *b, int generation)
{
    stats = told = told_clean = 0;
    cleanup_run(b, generation);
    while (!told)
        uv_run(loop, UV_RUN_ONCE);
    assert_int_equal(told_clean, 1);
    return stats > 0;
}

static void one_pass_where_two_follow_each_other(void **state)
{
    (void)state;
    struct err err = {0};
    struct cleanup *b;
    uv_loop_t loop;
    uv_loop_init(&loop);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    assert_int_equal(cleanup_create(&b, &loop, nonce, on_clean, NULL, &err), 0);
    assert_int_equal(passes(&loop, b, 1), 1);
    assert_int_equal(passes(&loop, b, 0), 0); /* of the attempt nothing was found a moment ago */
    cleanup_forget(b);
    assert_int_equal(passes(&loop, b, 0), 1); /* something was started */
    const pid_t pid = marked();
    assert_int_equal(passes(&loop, b, 1), 1); /* there is a child, which this generation spares */
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    stats = 0;
    cleanup_run(b, 0); /* and the attempt does not */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(stats > 0);
    while (!told || uv_loop_alive(&loop))
        uv_run(&loop, UV_RUN_ONCE);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    cleanup_forget(b);
    assert_int_equal(passes(&loop, b, 0), 1);
    assert_int_equal(passes(&loop, b, 0), 1); /* orphans go elsewhere: no proof */
    cleanup_close(b);
    uv_run(&loop, UV_RUN_DEFAULT);
    cleanup_destroy(b);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void the_first_agent_of_a_boot(void **state)
{
    (void)state;
    struct identity id = {.start_time = 500, .boot_id = "now"}, before = {.since = 0};
    identity_follow(&id, &before); /* a damaged file, or an agent of an older version */
    assert_int_equal(id.since, 0);
    before = (struct identity){.start_time = 90, .since = 40, .boot_id = "now"};
    identity_follow(&id, &before);
    assert_int_equal(id.since, 40);
    snprintf(before.boot_id, sizeof(before.boot_id), "before");
    identity_follow(&id, &before); /* no process is older than the boot */
    assert_int_equal(id.since, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_one_costs_one_open),
        cmocka_unit_test(only_those_born_since),
        cmocka_unit_test(spared_ones_are_told),
        cmocka_unit_test(one_pass_where_two_follow_each_other),
        cmocka_unit_test(the_first_agent_of_a_boot),
    };
    return cmocka_run_group_tests(tests, up, NULL);
}
