/* SPDX-License-Identifier: Apache-2.0 */
/* test_safe_open.c - regular files are opened; nothing else is, and nothing waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/contract/manifest.h"
#include "engine/base/safe_open.h"

/* Makes `name` in a new directory, which is the working directory from then on. */
static int enter(void **state)
{
    char *dir = strdup("/tmp/safe_open.XXXXXX");
    *state = dir;
    assert_non_null(mkdtemp(dir));
    return chdir(dir);
}

static int leave(void **state)
{
    static const char *const names[] = {"plain", "fifo", "link", "broken", "socket"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(names[i]);
    int rc = rmdir("dir") | chdir("/") | rmdir(*state);
    free(*state);
    return rc;
}

static void make_strange_files(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    close(fd);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(mkdir("dir", 0700), 0);
    assert_int_equal(symlink("plain", "link"), 0);
    assert_int_equal(symlink("nowhere", "broken"), 0);
}

static void only_regular_files_are_opened(void **state)
{
    (void)state;
    static const struct {
        const char *path, *text;
        int         code;
    } rows[] = {
        {"fifo", "cannot open fifo: it is a FIFO, not a regular file", EINVAL},
        {"link", "cannot open link: it is a symbolic link, not a regular file", ELOOP},
        {"broken", "cannot open broken: it is a symbolic link, not a regular file", ELOOP},
        {"dir", "cannot open dir: it is a directory, not a regular file", EINVAL},
        {"socket", "cannot open socket: it is a socket, not a regular file", EINVAL},
        {"/dev/null", "cannot open /dev/null: it is a device, not a regular file", EINVAL},
        {"/dev/zero", "cannot open /dev/zero: it is a device, not a regular file", EINVAL},
    };
    static const int flags[] = {O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_CREAT | O_TRUNC, O_WRONLY | O_APPEND};
    make_strange_files();
    int fd = safe_open("plain", O_RDWR | O_CREAT, NULL);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{\"a\": 1}", 8), 8);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
            struct err err = {0};
            errno = 0;
            assert_int_equal(safe_open(rows[i].path, flags[f], &err), -1);
            assert_int_equal(errno, rows[i].code);
            assert_string_equal(err.text, rows[i].text);
        }
    json_t *value = safe_open_json("plain", 0, NULL); /* nothing of it was lost through the link */
    assert_int_equal(json_integer_value(json_object_get(value, "a")), 1);
    json_decref(value);
}

static void a_file_that_the_user_names_may_be_a_link(void **state)
{
    (void)state;
    static const char *const refused[] = {"fifo", "broken", "dir", "socket", "/dev/zero"};
    make_strange_files();
    close(safe_open("plain", O_WRONLY | O_CREAT, NULL));
    int fd = safe_open_linked("link", O_RDONLY, NULL);
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        assert_int_equal(safe_open_linked(refused[i], O_RDONLY, NULL), -1);
}

/* A checkpoint or a mirror with a FIFO in it is damaged; nothing waits for a writer. */
static void a_checkpoint_with_a_strange_file_is_damaged(void **state)
{
    (void)state;
    struct manifest m;
    struct err err = {0};
    assert_int_equal(mkdir("dir", 0700), 0);
    close(safe_open("dir/plain", O_WRONLY | O_CREAT, NULL));
    assert_int_equal(manifest_write(&m, "dir", 7, (const char *const[]){"plain", NULL}, NULL), 0);
    assert_int_equal(manifest_verify(&m, "dir", NULL), 0);
    assert_int_equal(unlink("dir/plain") | mkfifo("dir/plain", 0600), 0);
    assert_int_equal(manifest_verify(&m, "dir", &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    assert_string_equal(err.text, "cannot open dir/plain: it is a FIFO, not a regular file");
    assert_int_equal(unlink("dir/" MANIFEST_FILE) | mkfifo("dir/" MANIFEST_FILE, 0600), 0);
    assert_int_equal(manifest_verify(&m, "dir", NULL), -1);
    assert_int_equal(unlink("dir/plain") | unlink("dir/" MANIFEST_FILE), 0);
}

static void what_is_missing_or_no_json_is_said(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(safe_open("none", O_RDONLY, &err), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.text, "cannot open none: No such file or directory");
    close(safe_open("plain", O_WRONLY | O_CREAT, NULL));
    err = (struct err){0};
    assert_null(safe_open_json("plain", 0, &err));
    assert_int_equal(err.code, ERR_DATA);
    assert_non_null(strstr(err.text, "plain is not JSON: "));
    mkdir("dir", 0700);
}

static void a_file_has_a_text_if_each_byte_is_the_same(void **state)
{
    (void)state;
    static const char *const others[] = {"", "{\"a\": 1", "{\"a\": 1}\n", "{\"a\": 2}"};
    make_strange_files();
    const int fd = safe_open("plain", O_WRONLY | O_CREAT, NULL);
    assert_int_equal(write(fd, "{\"a\": 1}", 8), 8);
    close(fd);
    assert_true(safe_open_has("plain", "{\"a\": 1}"));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(safe_open_has("plain", others[i]));
    assert_false(safe_open_has("link", "{\"a\": 1}"));
    assert_false(safe_open_has("fifo", "") || safe_open_has("none", ""));
}

/* A directory that somebody replaced by a link is not entered, and what is in one that is none is proved as ever. */
static void a_directory_is_no_link_and_on_the_same_file_system(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(mkdir("dir", 0700) | symlink("dir", "away") | mkfifo("dir/fifo", 0600), 0);
    int dir = safe_open_dir(".", "dir", &err);
    assert_true(dir >= 0);
    close(safe_open_in(dir, "plain", O_WRONLY | O_CREAT, &err));
    assert_int_equal(access("dir/plain", F_OK), 0);
    assert_int_equal(safe_open_in(dir, "fifo", O_RDONLY, &err), -1);
    assert_int_equal(errno, EINVAL);
    assert_string_equal(err.text, "cannot open fifo: it is not a regular file");
    assert_int_equal(safe_open_in(dir, "none", O_RDONLY, NULL), -1);
    assert_int_equal(errno, ENOENT);
    close(dir);
    assert_int_equal(safe_open_dir(".", "away", NULL), -1);
    err = (struct err){0};
    assert_int_equal(safe_open_dir(".", "none", &err), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    err = (struct err){0};
    dir = safe_open_dir("/", "proc", &err);     /* where openat2(2) is refused it is not told */
    assert_true(dir >= 0 || errno == EXDEV);
    if (dir < 0)
        assert_string_equal(err.text, "cannot open //proc: it is on another file system than /");
    else
        close(dir);
    assert_int_equal(unlink("dir/plain") | unlink("dir/fifo") | unlink("away"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_regular_files_are_opened, enter, leave),
        cmocka_unit_test_setup_teardown(a_file_that_the_user_names_may_be_a_link, enter, leave),
        cmocka_unit_test_setup_teardown(a_checkpoint_with_a_strange_file_is_damaged, enter, leave),
        cmocka_unit_test_setup_teardown(what_is_missing_or_no_json_is_said, enter, leave),
        cmocka_unit_test_setup_teardown(a_file_has_a_text_if_each_byte_is_the_same, enter, leave),
        cmocka_unit_test_setup_teardown(a_directory_is_no_link_and_on_the_same_file_system, enter, leave),
    };
    return cmocka_run_group_tests_name("safe_open", tests, NULL, NULL);
}
