/* SPDX-License-Identifier: Apache-2.0 */
/* test_tree_use.c - what processes do from one reading to the next: work, including that of processes that have ended,
 * bytes, and sockets inside and outside the job */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/monitor/tree_use.h"
#include "agent/os/process.h"

enum { WORK_MS = 300, BYTES = 3 << 20, LEFT_S = 60, WINDOW_MS = 1000 };

static struct tree_use *u;
static pid_t child;
static int said[2], told[2]; /* from the child, and to it */

static void work(void)
{
    const clock_t end = clock() + CLOCKS_PER_SEC * WORK_MS / 1000;
    while (clock() < end)
        ;
}

static void copy(void)
{
    static char bytes[BYTES];
    int in = open("/dev/zero", O_RDONLY), out = open("/dev/null", O_WRONLY);
    if (in < 0 || out < 0 || read(in, bytes, BYTES) != BYTES || write(out, bytes, BYTES) != BYTES)
        _exit(1);
}

static void say(int fd)
{
    if (write(fd, "x", 1) != 1)
        _exit(1);
}

static void hear(int fd)
{
    char byte;
    if (read(fd, &byte, 1) != 1)
        _exit(1);
}

/* In a session of its own, until it is killed. */
static void start(void (*life)(void))
{
    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(told), 0);
    child = fork();
    if (child == 0) {
        setsid();
        alarm(LEFT_S); /* should the test fail */
        life();
        for (;;)
            pause();
    }
}

static int up(void **state)
{
    (void)state;
    return tree_use_create(&u, NULL);
}

static int down(void **state)
{
    (void)state;
    kill(-child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(said[i]);
        close(told[i]);
    }
    tree_use_destroy(u);
    return 0;
}

/* What it did since the last time. */
static struct tree_use_sum window(void)
{
    const int64_t roots[] = {0, child};
    struct tree_use_sum sums[2] = {{0}, {0}};
    tree_use_read(u, roots, 2, WINDOW_MS, NULL, sums);
    assert_true(sums[0].work_us == 0 && sums[0].io_bytes == 0 && sums[0].moved_bytes == 0);
    return sums[1];
}

/* What follows it tells after it was told to go on. */
static void go_on(void)
{
    say(told[1]);
    hear(said[0]);
}

static void rests_then_works(void)
{
    hear(told[0]);
    work();
    say(said[1]);
    hear(told[0]);
    if (fork() == 0) {
        work();
        _exit(0);
    }
    wait(NULL);
    say(said[1]);
    hear(told[0]);
    if (fork() == 0) {
        if (fork() == 0) {
            copy();
            say(said[1]);
            for (;;)
                pause();
        }
        _exit(0);
    }
    wait(NULL);
}

static void all_that_a_tree_does_is_seen_once(void **state)
{
    (void)state;
    start(rests_then_works);
    window();
    assert_true(window().work_us < 10000);
    go_on();
    const struct tree_use_sum worked = window();
    assert_in_range(worked.work_us, (WORK_MS - 50) * 1000, 10 * WORK_MS * 1000);
    assert_true(worked.main_us == worked.work_us || worked.main_us == 0); /* 0: the kernel counts in ticks */
    const struct tree_use_sum rested = window();
    assert_true(rested.work_us < 10000 && rested.main_us < 1000);
    go_on(); /* a child has come and gone */
    assert_in_range(window().work_us, (WORK_MS - 50) * 1000, 10 * WORK_MS * 1000);
    go_on(); /* an orphan of its session reads and writes */
    assert_true(window().io_bytes >= 2 * BYTES || access("/proc/self/io", R_OK) != 0);
    assert_true(window().io_bytes < 4096);
}

/* --- state D --------------------------------------------------------------------------------- */

static char path[256];

/* A parent waits for a child of vfork() in state D. */
static void writes_then_blocks(void)
{
    static char bytes[BYTES];
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    hear(told[0]);
    if (fd < 0 || write(fd, bytes, BYTES) != BYTES)
        _exit(1);
    say(said[1]);
    if (vfork() == 0)
        for (;;)
            pause();
}

static bool has_disk(const char *file)
{
    char disk[64];
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    snprintf(disk, sizeof(disk), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
    return access(disk, F_OK) == 0;
}

static void write_to_disk(int fd)
{
    assert_int_equal(pwrite(fd, "more", 4, 0), 4);
    assert_int_equal(fsync(fd), 0);
}

static void a_blocked_thread_lives_while_its_disk_moves(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "%s/file.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    start(writes_then_blocks);
    window();
    go_on();
    while (process_state(child) != 'D')
        usleep(1000);
    if (has_disk(path)) {
        assert_true(window().moved_bytes >= BYTES);
        write_to_disk(fd);
        assert_true(window().moved_bytes > 0);
    } else {
        window();
    }
    assert_true(window().work_us < 10000);
    close(fd);
    unlink(path);
}

/* --- sockets --------------------------------------------------------------------------------- */

static struct sockaddr_in here;
static int listener;

static void listen_here(void)
{
    socklen_t size = sizeof(here);
    here = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&here, &size), 0);
}

static int connect_here(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&here, sizeof(here)) != 0)
        _exit(1);
    return fd;
}

static void receives(void)
{
    char byte;
    close(listener);
    const int fd = connect_here();
    say(said[1]);
    for (;;) {
        hear(told[0]);
        if (recv(fd, &byte, 1, 0) != 1)
            _exit(1);
        say(said[1]);
    }
}

static void talks_to_itself(void)
{
    const int fd = connect_here(), other = accept(listener, NULL, NULL);
    say(said[1]);
    for (;;) {
        hear(told[0]);
        say(fd);
        hear(other);
        say(said[1]);
    }
}

static void bytes_from_outside_count(void **state)
{
    (void)state;
    listen_here();
    start(receives);
    const int fd = accept(listener, NULL, NULL);
    hear(said[0]);
    window();
    assert_int_equal(window().moved_bytes, 0); /* open, but silent */
    say(fd);
    go_on();
    assert_int_equal(window().moved_bytes, 1);
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){0, limit.rlim_max};
    say(fd);
    go_on();
    setrlimit(RLIMIT_NOFILE, &none);
    assert_int_equal(window().moved_bytes, 0); /* nothing can be read: it is idle */
    setrlimit(RLIMIT_NOFILE, &limit);
    close(fd);
    close(listener);
}

static void bytes_inside_do_not(void **state)
{
    (void)state;
    listen_here();
    start(talks_to_itself);
    hear(said[0]);
    window();
    for (int i = 0; i < 3; i++) {
        go_on();
        assert_int_equal(window().moved_bytes, 0);
    }
    close(listener);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_that_a_tree_does_is_seen_once),
        TEST(a_blocked_thread_lives_while_its_disk_moves),
        TEST(bytes_from_outside_count),
        TEST(bytes_inside_do_not),
    };
    return cmocka_run_group_tests_name("tree_use", tests, NULL, NULL);
}
