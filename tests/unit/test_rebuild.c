/* SPDX-License-Identifier: Apache-2.0 */
/* test_rebuild.c - a rank that waits for others: what it takes over, and when it gives up */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/err.h"
#include "engine/progress.h"
#include "engine/rebuild.h"

static struct progress *rank;
static int              control[2], events[2];

static int open_rank(void **state)
{
    (void)state;
    char n[16];
    struct err err = {0};
    if (pipe(control) < 0 || pipe(events) < 0 || fcntl(control[0], F_SETFL, O_NONBLOCK) < 0)
        return -1;
    snprintf(n, sizeof(n), "%d", control[0]);
    setenv("JOBCTL_CONTROL_FD", n, 1);
    snprintf(n, sizeof(n), "%d", events[1]);
    setenv("JOBCTL_EVENT_FD", n, 1);
    return progress_open(&rank, &err);
}

static int close_rank(void **state)
{
    (void)state;
    progress_close(rank);
    close(control[1]);
    close(events[0]);
    return 0;
}

static void say(const char *line)
{
    assert_int_equal(write(control[1], line, strlen(line)), (ssize_t)strlen(line));
}

static void the_next_generation_is_taken_over(void **state)
{
    (void)state;
    char line[400], path[64];
    struct err err = {0};
    struct stat a, b;
    int memory = open("/dev/null", O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
    say("{\"cmd\":\"rendezvous\",\"key\":\"tcp.1\",\"value\":\"old\"}\n");
    snprintf(line, sizeof(line),
             "{\"cmd\":\"rebuild\",\"env\":{\"JOBCTL_GENERATION\":\"2\",\"JOBCTL_SKIP_STEP\":null},"
             "\"snapshot\":\"%s\",\"old\":[\"%s\",\"%s\"]}\n", path, path, path);
    setenv("JOBCTL_SKIP_STEP", "7", 1);
    unsetenv("JOBCTL_SNAPSHOT_FD");
    unsetenv("JOBCTL_SNAPSHOT_OLD");
    say(line);
    say("{\"cmd\":\"rendezvous\",\"key\":\"tcp.2\",\"value\":\"new\"}\n");
    assert_true(rebuild_wait(rank, 10000, &err));
    assert_string_equal(getenv("JOBCTL_GENERATION"), "2");
    assert_null(getenv("JOBCTL_SKIP_STEP"));
    int first, second;
    assert_int_equal(sscanf(getenv("JOBCTL_SNAPSHOT_OLD"), "%d,%d", &first, &second), 2);
    const int own = atoi(getenv("JOBCTL_SNAPSHOT_FD"));
    assert_int_equal(fstat(memory, &a), 0);
    const int fds[] = {own, first, second};
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(fds[i], memory);
        assert_int_equal(fstat(fds[i], &b), 0);
        assert_int_equal(a.st_rdev, b.st_rdev);
    }
    /* What ranks of the old generation have said is no news of the new one. */
    assert_null(progress_rendezvous_find(rank, "tcp.1"));
    assert_string_equal(progress_rendezvous_find(rank, "tcp.2"), "new");

    /* Again: the descriptors of this time are closed, memory that is not there is left out. */
    say("{\"cmd\":\"rebuild\",\"env\":{\"JOBCTL_GENERATION\":\"3\"},\"old\":[\"/no/such/file\"]}\n");
    assert_true(rebuild_wait(rank, 10000, &err));
    assert_string_equal(getenv("JOBCTL_GENERATION"), "3");
    assert_null(getenv("JOBCTL_SNAPSHOT_OLD"));
    assert_null(getenv("JOBCTL_SNAPSHOT_FD"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(fstat(fds[i], &b), -1);
    close(memory);
}

static void nobody_asks(void **state)
{
    (void)state;
    struct err err = {0};
    assert_false(rebuild_wait(rank, 30, &err));
    assert_string_equal(err.text, "the agent did not ask it to join others");
}

static void a_stop_is_stronger(void **state)
{
    (void)state;
    struct err err = {0};
    say("{\"cmd\":\"rebuild\",\"env\":{}}\n{\"cmd\":\"stop\"}\n");
    assert_false(rebuild_wait(rank, 10000, &err));
    assert_string_equal(err.text, "it was asked to stop meanwhile");
}

static void an_agent_offers_it(void **state)
{
    (void)state;
    unsetenv("JOBCTL_REBUILD");
    assert_false(rebuild_offered(rank));
    setenv("JOBCTL_REBUILD", "1", 1);
    assert_true(rebuild_offered(rank));
}

static void what_is_said(void **state)
{
    (void)state;
    char text[PROGRESS_LINE];
    progress_parted(rank, "nccl_error", "rank 1 is gone", 17);
    ssize_t n = read(events[0], text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_string_equal(text, "{\"ev\":\"parted\",\"cause\":\"nccl_error\",\"text\":\"rank 1 is gone\","
                              "\"step\":17}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_generation_is_taken_over, open_rank, close_rank),
        cmocka_unit_test_setup_teardown(nobody_asks, open_rank, close_rank),
        cmocka_unit_test_setup_teardown(a_stop_is_stronger, open_rank, close_rank),
        cmocka_unit_test_setup_teardown(an_agent_offers_it, open_rank, close_rank),
        cmocka_unit_test_setup_teardown(what_is_said, open_rank, close_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
