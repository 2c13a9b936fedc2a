/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_file.c - on a disk that lacks space for only the last bytes, nothing counts as written */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/json_file.h"

static const char text[] = "{\"job\":7,\"nonce\":\"0123456789abcdef\",\"list\":[1,2,{}]}";

/* Files cannot grow beyond so many bytes. */
static void room(rlim_t bytes)
{
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static int save(const char *path, rlim_t bytes)
{
    json_t *value = json_loads(text, 0, NULL);
    room(bytes);
    const int rc = json_file_save(value, path, JSON_COMPACT), why = errno;
    room(RLIM_INFINITY);
    json_decref(value);
    errno = why;
    return rc;
}

static void test_all_or_error(void **state)
{
    char path[] = "/tmp/json_file.XXXXXX", back[sizeof(text)] = "";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    for (rlim_t bytes = 0; bytes < sizeof(text) - 1; bytes++) {
        assert_int_equal(save(path, bytes), -1);
        assert_int_equal(errno, EFBIG);
    }
    assert_int_equal(save(path, sizeof(text) - 1), 0);
    assert_int_equal(pread(fd, back, sizeof(back), 0), sizeof(text) - 1);
    assert_string_equal(back, text);
    close(fd);
    unlink(path);
}

static void test_no_value(void **state)
{
    (void)state;
    assert_int_equal(json_file_put(NULL, STDOUT_FILENO, 0), -1);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(json_file_save(NULL, "/nowhere/at/all", 0), -1);
    assert_int_equal(errno, ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_or_error),
        cmocka_unit_test(test_no_value),
    };
    signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
