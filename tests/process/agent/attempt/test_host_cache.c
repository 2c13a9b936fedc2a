/* SPDX-License-Identifier: Apache-2.0 */
/* test_host_cache.c - what is removed from a host, and what is kept; see agent/attempt/host_cache.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/attempt/host_cache.h"
#include "agent/attempt/spool.h"
#include "agent/os/run_dir.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define DAY          (24 * 3600)

static char root[256], cache[300], host_cache[300];
static int64_t now_s;

/* Valid until PATHS more were asked for. */
static const char *in(const char *dir, const char *name)
{
    enum { PATHS = 64, SIZE = 700 };
    static char paths[PATHS][SIZE];
    static int next;
    char *path = paths[next = (next + 1) % PATHS];
    const size_t n = strlen(dir), m = strlen(name);
    assert_true(n + m + 2 <= SIZE);
    memmove(path, dir, n);
    path[n] = '/';
    memcpy(path + n + 1, name, m + 1);
    return path;
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void write_file(const char *path)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs("x", f);
    fclose(f);
}

static void set_days(const char *path, int days)
{
    const struct timespec t[2] = {{.tv_sec = now_s - days * DAY}, {.tv_sec = now_s - days * DAY}};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static int up(void **state)
{
    (void)state;
    now_s = time(NULL);
    scratch_dir_create(root, sizeof(root), "hosted");
    snprintf(cache, sizeof(cache), "%s/cache", root);
    snprintf(host_cache, sizeof(host_cache), "%s/hosted", root);
    return mkdir(cache, 0700) | mkdir(host_cache, 0700);
}

static int down(void **state)
{
    char command[320];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

/* --- versions --------------------------------------------------------------------------------- */

/* The path of its agent. */
static const char *make_version(const char *name, int days)
{
    const char *dir = in(cache, name), *bin = in(dir, "bin");
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(mkdir(bin, 0700), 0);
    write_file(in(bin, "jobctl-agent"));
    set_days(dir, days);
    return in(bin, "jobctl-agent");
}

static void digest(char out[33], int k)
{
    snprintf(out, 33, "%032x", 0xabc0 + k);
}

static void old_versions_go(void **state)
{
    static const struct {
        int  days;
        bool stays;
    } rows[] = {{30, true}, /* the one that is used: by that, today's */
                {9, true}, {20, true}, /* with it the three that were used last */
                {21, false}, {40, false}};
    char name[33], own[PATH_MAX];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        digest(name, (int)i);
        const char *agent = make_version(name, rows[i].days);
        if (i == 0)
            snprintf(own, sizeof(own), "%s", agent);
    }
    make_version("fedcba9876543210fedcba9876543210.part", 50); /* never finished */
    make_version("somebody-else", 90);
    host_cache_use(own);
    host_cache_tidy(own, host_cache, "", now_s);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        digest(name, (int)i);
        if (there(in(cache, name)) != rows[i].stays)
            fail_msg("version %zu, used %d days ago, %s", i, rows[i].days, rows[i].stays ? "is gone" : "is there");
    }
    assert_false(there(in(cache, "fedcba9876543210fedcba9876543210.part")));
    assert_true(there(in(cache, "somebody-else")));
}

static void what_was_used_lately_stays(void **state)
{
    char name[33], own[PATH_MAX] = "";
    (void)state;
    for (int i = 0; i < 8; i++) {
        digest(name, i);
        snprintf(own, sizeof(own), "%s", make_version(name, i < 7 ? i : 8));
    }
    host_cache_tidy(own, host_cache, "", now_s); /* not a use: it is the oldest itself */
    for (int i = 0; i < 8; i++) {
        digest(name, i);
        assert_int_equal(there(in(cache, name)), i < 7);
    }
}

static void what_runs_stays(void **state)
{
    char name[33], own[PATH_MAX] = "", copy[3 * PATH_MAX];
    (void)state;
    for (int i = 0; i < 5; i++) {
        digest(name, i);
        snprintf(own, sizeof(own), "%s", make_version(name, 10 + i));
    }
    snprintf(copy, sizeof(copy), "cp \"$(command -v sleep)\" '%s' && chmod 755 '%s'", own, own);
    assert_int_equal(system(copy), 0);
    digest(name, 4);
    set_days(in(cache, name), 14);
    pid_t pid = fork();
    if (pid == 0) {
        execl(own, "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    char exe[64], seen[PATH_MAX] = "";
    snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)pid);
    for (int i = 0; strcmp(seen, own) != 0; i++) {
        assert_true(i < 1000);
        poll(NULL, 0, 10);
        ssize_t n = readlink(exe, seen, sizeof(seen) - 1);
        seen[n > 0 ? n : 0] = '\0';
    }
    host_cache_tidy(own, host_cache, "", now_s);
    assert_true(there(own));
    digest(name, 3);
    assert_false(there(in(cache, name)));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    host_cache_tidy(own, host_cache, "", now_s);
    assert_false(there(own));
}

/* A program that was built here is of no version. */
static void other_programs_are_left_alone(void **state)
{
    (void)state;
    make_version("bin", 100);
    host_cache_use(in(cache, "bin/bin/jobctl-agent"));
    host_cache_tidy(in(cache, "bin/bin/jobctl-agent"), host_cache, "", now_s);
    assert_true(there(in(cache, "bin")));
}

/* --- attempts --------------------------------------------------------------------------------- */

static const char *const files[] = {"agent.json", "agent.lock", "agent.log", "rank0.log",
                                    "rank0.flight", "setup.log", "spec.json"};

/* Its path. */
static const char *make_attempt(const char *key, const char *attempt, int days, bool acknowledged)
{
    struct err err = {0};
    struct spool *spool;
    const char *key_dir = in(host_cache, key), *dir = in(key_dir, attempt);
    mkdir(key_dir, 0700);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        write_file(in(dir, files[i]));
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/" RUN_DIR_SPOOL, dir);
    assert_int_equal(spool_open(&spool, path, 65536, &err), 0);
    json_t *event = json_pack("{s:s}", "kind", "done");
    assert_int_equal(spool_append(spool, event, false, &err), 0);
    json_decref(event);
    if (acknowledged)
        spool_ack(spool, 1);
    spool_close(spool);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        set_days(in(dir, files[i]), days);
    set_days(path, days);
    set_days(dir, days);
    return dir;
}

static void old_attempts_go(void **state)
{
    (void)state;
    make_attempt("a-1", "1", 8, true);
    make_attempt("a-2", "1", 6, true);
    make_attempt("a-3", "1", 80, false); /* the controller does not have its events */
    write_file(in(make_attempt("a-5", "1", 80, false), RUN_DIR_FENCED)); /* it died, and was buried */
    set_days(in(host_cache, "a-5/1/" RUN_DIR_FENCED), 80);
    set_days(in(host_cache, "a-5/1"), 80);
    char ours[PATH_MAX];
    snprintf(ours, sizeof(ours), "%s", make_attempt("a-4", "2", 80, true));
    make_attempt("a-4", "1", 80, true);
    host_cache_tidy("", host_cache, ours, now_s);
    assert_false(there(in(host_cache, "a-1")));
    assert_true(there(in(host_cache, "a-2/1/rank0.log")));
    assert_true(there(in(host_cache, "a-3/1/rank0.log")));
    assert_true(there(in(ours, "rank0.log")));
    assert_false(there(in(host_cache, "a-4/1")));
    assert_false(there(in(host_cache, "a-5")));
}

static void what_is_not_ours_stays(void **state)
{
    (void)state;
    const char *dir = make_attempt("a-1", "1", 80, true);
    write_file(in(dir, "result.txt"));
    write_file(in(dir, "incident-1.txt"));
    set_days(in(dir, "result.txt"), 80);
    set_days(in(dir, "incident-1.txt"), 80);
    set_days(dir, 80);
    assert_int_equal(mkdir(in(host_cache, "a-1/checkpoints"), 0700), 0);
    write_file(in(host_cache, "a-1/checkpoints/rank0.log"));
    set_days(in(host_cache, "a-1/checkpoints/rank0.log"), 80);
    host_cache_tidy("", host_cache, "", now_s);
    assert_true(there(in(host_cache, "a-1/1/result.txt")));
    assert_true(there(in(host_cache, "a-1/1/incident-1.txt")));
    assert_true(there(in(host_cache, "a-1/checkpoints/rank0.log")));
    assert_false(there(in(host_cache, "a-1/1/rank0.log")));
    assert_false(there(in(host_cache, "a-1/1/" RUN_DIR_SPOOL)));
}

static void what_lives_stays(void **state)
{
    struct err err = {0};
    (void)state;
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s", make_attempt("a-1", "1", 80, true));
    int lock = run_dir_lock(dir, &err);
    assert_true(lock >= 0);
    host_cache_tidy("", host_cache, "", now_s);
    assert_true(there(in(dir, "rank0.log")));
    close(lock);
    set_days(in(dir, "rank0.log"), 1); /* somebody on another machine still writes */
    host_cache_tidy("", host_cache, "", now_s);
    assert_true(there(in(dir, "rank0.log")));
}

#define HOST(test) cmocka_unit_test_setup_teardown(test, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOST(old_versions_go), HOST(what_was_used_lately_stays), HOST(what_runs_stays),
        HOST(other_programs_are_left_alone), HOST(old_attempts_go), HOST(what_is_not_ours_stays),
        HOST(what_lives_stays),
    };
    return cmocka_run_group_tests_name("hosted", tests, NULL, NULL);
}
