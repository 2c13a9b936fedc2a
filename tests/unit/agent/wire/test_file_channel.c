/* SPDX-License-Identifier: Apache-2.0 */
/* test_file_channel.c - both sides of a stream through a directory; agent and daemon are sockets
 * here */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/unix_socket.h"
#include "agent/wire/file_channel.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

struct post {
    char                 dir[64], socket[96];
    int                  listener;
    struct file_channel *mail;
};

static int set_up(void **state)
{
    struct post *p = calloc(1, sizeof(*p));
    struct err err = { 0 };
    scratch_dir_create(p->dir, sizeof(p->dir), "mail");
    snprintf(p->socket, sizeof(p->socket), "%s/agent.sock", p->dir);
    p->listener = unix_socket_listen(p->socket, &err);
    assert_true(p->listener >= 0);
    assert_int_equal(file_channel_open(&p->mail, p->dir, p->socket, &err), 0);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct post *p = *state;
    static const char *const names[] = { "agent.sock", "mail.down", "mail.up", "mail.down.new" };
    file_channel_close(p->mail);
    close(p->listener);
    for (size_t i = 0; i < 4; i++) {
        char path[160];
        snprintf(path, sizeof(path), "%s/%s", p->dir, names[i]);
        unlink(path);
    }
    int rc = rmdir(p->dir);
    free(p);
    return rc;
}

/* The daemon's end of a call. */
struct call {
    pthread_t   thread;
    const char *dir;
    int         ours, theirs;
    int         wait_ms;
    int         rc;
    struct err  err;
};

static void *make_call(void *arg)
{
    struct call *c = arg;
    c->rc = file_channel_call(c->dir, c->theirs, c->wait_ms, &c->err);
    close(c->theirs);
    return NULL;
}

static void call(struct call *c, const struct post *p, int wait_ms)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *c = (struct call){ .dir = p->dir, .ours = ends[0], .theirs = ends[1],
                        .wait_ms = wait_ms };
    assert_int_equal(pthread_create(&c->thread, NULL, make_call, c), 0);
}

static void hang_up(struct call *c)
{
    close(c->ours);
    pthread_join(c->thread, NULL);
}

static int picked_up(const struct post *p)
{
    struct pollfd one = { .fd = p->listener, .events = POLLIN };
    assert_int_equal(poll(&one, 1, 20000), 1);
    int fd = accept(p->listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void expect(int fd, const char *text)
{
    char got[64] = "";
    for (size_t n = 0; n < strlen(text);) {
        ssize_t m = read(fd, got + n, strlen(text) - n);
        assert_true(m > 0);
        n += (size_t)m;
    }
    assert_string_equal(got, text);
}

static void say(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void test_both_ways(void **state)
{
    struct post *p = *state;
    struct call c;
    char path[160];
    struct stat st;
    call(&c, p, 20000);
    int agent = picked_up(p);
    say(agent, "hello");
    expect(c.ours, "hello");
    say(c.ours, "launch");
    expect(agent, "launch");
    say(agent, "one");
    say(agent, "two");
    expect(c.ours, "onetwo");
    snprintf(path, sizeof(path), "%s/mail.down", p->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);  /* nobody else may read what is said */
    /* The daemon goes: the agent sees its connection end, and is there for the next one. */
    say(c.ours, "ack");
    hang_up(&c);
    assert_int_equal(c.rc, 0);
    expect(agent, "ack");
    char byte;
    assert_int_equal(read(agent, &byte, 1), 0);
    close(agent);
    call(&c, p, 20000);
    agent = picked_up(p);
    say(agent, "again");
    expect(c.ours, "again");
    /* The agent goes: what it said last arrives, then the end. */
    say(agent, "bye");
    close(agent);
    expect(c.ours, "bye");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.rc, 0);
    assert_int_equal(read(c.ours, &byte, 1), 0);
    close(c.ours);
}

static void test_newer_call_wins(void **state)
{
    struct post *p = *state;
    struct call first, second;
    char byte;
    call(&first, p, 20000);
    int old = picked_up(p);
    say(old, "x");
    expect(first.ours, "x");
    call(&second, p, 20000);
    int new = picked_up(p);
    assert_int_equal(read(old, &byte, 1), 0);
    close(old);
    say(new, "y");
    expect(second.ours, "y");
    hang_up(&second);
    close(new);
    hang_up(&first);
}

static void test_nobody_answers(void **state)
{
    struct post *p = *state;
    struct call c;
    file_channel_close(p->mail);
    p->mail = NULL;
    call(&c, p, 50);
    pthread_join(c.thread, NULL);
    assert_int_equal(c.rc, -1);
    assert_int_equal(c.err.code, ERR_NOT_FOUND);
    close(c.ours);
}

/* Much more than the files may hold: each call ends when one is full, and none loses a byte. */
static void test_files_stay_small(void **state)
{
    struct post *p = *state;
    enum { BLOCK = 32768 };
    static char block[BLOCK], got[BLOCK];
    struct call c;
    char path[160];
    struct stat st;
    call(&c, p, 20000);
    int agent = picked_up(p);
    assert_true(fcntl(agent, F_SETFL, O_NONBLOCK) == 0);
    uint64_t sent = 0, heard = 0;
    unsigned char next = 0;
    for (bool open = true; open;) {
        for (size_t i = 0; i < BLOCK; i++)
            block[i] = (char)(unsigned char)((sent + i) % 251);
        ssize_t n = send(agent, block, BLOCK, MSG_NOSIGNAL);
        sent += n > 0 ? (uint64_t)n : 0;
        struct pollfd one = { .fd = c.ours, .events = POLLIN };
        if (poll(&one, 1, 5) <= 0)
            continue;
        ssize_t m = read(c.ours, got, BLOCK);
        open = m > 0;
        for (ssize_t i = 0; i < m; i++) {
            assert_int_equal((unsigned char)got[i], next);
            next = (unsigned char)((next + 1) % 251);
        }
        heard += m > 0 ? (uint64_t)m : 0;
    }
    assert_true(heard >= FILE_CHANNEL_LIMIT);
    snprintf(path, sizeof(path), "%s/mail.up", p->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < FILE_CHANNEL_LIMIT + 256 * 1024);
    hang_up(&c);
    assert_int_equal(c.rc, 0);
    close(agent);
}

/* What lies there is not believed: another kind of file, and a link to one. */
static void test_strange_files(void **state)
{
    struct post *p = *state;
    char path[160];
    struct call c;
    snprintf(path, sizeof(path), "%s/mail.up", p->dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    call(&c, p, 20000);
    int agent = picked_up(p);
    say(agent, "mine");
    expect(c.ours, "mine");
    hang_up(&c);
    close(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_newer_call_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_stay_small, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_strange_files, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
