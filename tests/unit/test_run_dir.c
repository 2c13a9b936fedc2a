/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_dir.c - who runs in a directory, and the fence that keeps others out */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/run_dir.h"
#include "engine/err.h"

static char dir[256];

static int setup(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/jobctl-run.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const files[] = { RUN_DIR_LOCK, RUN_DIR_FENCED, RUN_DIR_IDENTITY };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static void identity(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct run_identity me = { .job = 7, .attempt = 2, .nonce = "00ff", .incarnation = 1 }, back;
    assert_int_equal(run_identity_read(&back, dir, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    err.code = ERR_NONE;
    assert_int_equal(run_identity_fill(&me, &err), 0);
    assert_int_equal(run_identity_write(dir, &me, &err), 0);
    assert_int_equal(run_identity_read(&back, dir, &err), 0);
    assert_memory_equal(&back.job, &me.job, sizeof(int64_t) * 2);
    assert_string_equal(back.nonce, "00ff");
    assert_string_equal(back.boot_id, me.boot_id);
    assert_int_equal(back.pid, getpid());
    assert_true(run_identity_alive(&back));
    back.start_time++;              /* the same pid, another process */
    assert_false(run_identity_alive(&back));
    back = me;
    back.boot_id[0] ^= 1;           /* the same pid and time, before a reboot */
    assert_false(run_identity_alive(&back));
}

static void the_dead_are_not_alive(void **state)
{
    (void)state;
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct run_identity id = { .job = 1 };
        _exit(run_identity_fill(&id, NULL) < 0 || run_identity_write(dir, &id, NULL) < 0 ||
              write(go[1], "x", 1) != 1 || pause());
    }
    char byte;
    assert_int_equal(read(go[0], &byte, 1), 1);
    struct run_identity id;
    assert_int_equal(run_identity_read(&id, dir, NULL), 0);
    assert_int_equal(id.pid, pid);
    assert_true(run_identity_alive(&id));
    kill(pid, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    assert_false(run_identity_alive(&id));      /* a zombie yet */
    waitpid(pid, NULL, 0);
    assert_false(run_identity_alive(&id));
    close(go[0]);
    close(go[1]);
}

static void lock_and_fence(void **state)
{
    (void)state;
    struct err err = { 0 };
    int fd = run_dir_lock(dir, &err);
    assert_true(fd >= 0);
    assert_int_equal(run_dir_lock(dir, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_false(run_dir_fenced(dir));
    assert_int_equal(run_dir_fence(dir, NULL), 0);
    assert_true(run_dir_fenced(dir));
    close(fd);
    fd = run_dir_lock(dir, NULL);
    assert_true(fd >= 0);
    close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { CASE(identity), CASE(the_dead_are_not_alive),
                                        CASE(lock_and_fence) };
    return cmocka_run_group_tests_name("run_dir", tests, NULL, NULL);
}
