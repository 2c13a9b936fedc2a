/* SPDX-License-Identifier: Apache-2.0 */
/* test_lock_bundle.c - locks last as long as the descriptor of their bundle is open, however many there are */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/os/lock_bundle.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { MANY = 600 }; /* three messages */

static char dir[80];

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "locks");
    return 0;
}

static int down(void **state)
{
    (void)state;
    return scratch_dir_remove(dir);
}

/* A locked descriptor of the i-th file, or -1: another one has the lock. */
static int locked(int i)
{
    char path[100];
    snprintf(path, sizeof(path), "%s/%d", dir, i);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool is_free(int i)
{
    const int fd = locked(i);
    return fd >= 0 && close(fd) == 0;
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void put(const struct lock_bundle *b, int first, int count)
{
    int fds[MANY];
    for (int i = 0; i < count; i++)
        assert_true((fds[i] = locked(first + i)) >= 0);
    assert_int_equal(lock_bundle_add(b, fds, count, NULL), 0);
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static void the_bundle_holds_its_locks(void **state)
{
    (void)state;
    const int before = descriptors();
    struct lock_bundle b;
    assert_int_equal(lock_bundle_open(&b, NULL), 0);
    assert_true(b.hold >= 0 && b.add >= 0 && b.hold != b.add);
    put(&b, 0, MANY);
    assert_int_equal(descriptors(), before + 2);
    for (int i = 0; i < MANY; i++)
        assert_false(is_free(i));
    lock_bundle_empty(&b);
    for (int i = 0; i < MANY; i++)
        assert_true(is_free(i));
    put(&b, 3, 2); /* it can be filled again */
    close(b.add);
    assert_false(is_free(3) || is_free(4));
    const int inherited = dup(b.hold); /* as a rank has it */
    close(b.hold);
    assert_false(is_free(3) || is_free(4));
    close(inherited);
    assert_true(is_free(3) && is_free(4));
    assert_int_equal(descriptors(), before);
}

/* All or none: a descriptor that cannot be sent releases those that were. */
static void a_bundle_that_fails_is_empty(void **state)
{
    (void)state;
    struct lock_bundle b;
    struct err err = {0};
    int fds[MANY];
    assert_int_equal(lock_bundle_open(&b, NULL), 0);
    for (int i = 0; i < MANY; i++)
        fds[i] = i < MANY - 1 ? locked(i) : -1;
    assert_int_equal(lock_bundle_add(&b, fds, MANY, &err), -1);
    assert_string_equal(err.text, "cannot keep 600 locks in one descriptor: Bad file descriptor");
    for (int i = 0; i < MANY - 1; i++)
        close(fds[i]);
    for (int i = 0; i < MANY; i++)
        assert_true(is_free(i));
    close(b.hold);
    close(b.add);
    const struct lock_bundle none = LOCK_BUNDLE_NONE;
    lock_bundle_empty(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_bundle_holds_its_locks, up, down),
        cmocka_unit_test_setup_teardown(a_bundle_that_fails_is_empty, up, down),
    };
    return cmocka_run_group_tests_name("lock_bundle", tests, NULL, NULL);
}
