/* SPDX-License-Identifier: Apache-2.0 */
/* test_write_all.c - more than a pipe holds, and a reader that has closed */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/write_all.h"

enum { SIZE = 300001 };

static void *read_slowly(void *arg)
{
    const int *fd = arg;
    char *all = calloc(1, SIZE), piece[777];
    size_t at = 0;
    for (ssize_t n; (n = read(*fd, piece, sizeof(piece))) > 0 && at + (size_t)n <= SIZE; at += (size_t)n)
        memcpy(all + at, piece, (size_t)n);
    return all;
}

static void test_more_than_a_pipe_holds(void **state)
{
    (void)state;
    int end[2];
    pthread_t reader;
    void *got;
    char *sent = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (char)(i * 7 + i / 251);
    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, &end[0]), 0);
    assert_int_equal(write_all(end[1], sent, SIZE), 0);
    close(end[1]);
    pthread_join(reader, &got);
    close(end[0]);
    assert_memory_equal(got, sent, SIZE);
    free(got);
    free(sent);
}

static void test_nobody_reads(void **state)
{
    (void)state;
    int end[2];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    close(end[0]);
    assert_int_equal(write_all(end[1], "text", 4), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(write_all(end[1], "", 0), 0);
    close(end[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_a_pipe_holds),
        cmocka_unit_test(test_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
