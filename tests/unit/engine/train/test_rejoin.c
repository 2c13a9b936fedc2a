/* SPDX-License-Identifier: Apache-2.0 */
/* test_rejoin.c - a rank that waits for others: the state that it takes over, and when it gives up, on the test's
 * clock */
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

#include "engine/base/err.h"
#include "engine/contract/progress.h"
#include "engine/train/rejoin.h"
#include "tests/unit/engine/contract/clock_fixture.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

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

/* The agent's end. */
static void agent_ends(void)
{
    if (control[1] >= 0)
        close(control[1]);
    control[1] = -1;
}

static int close_rank(void **state)
{
    (void)state;
    progress_close(rank);
    agent_ends();
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
             "{\"cmd\":\"rejoin\",\"env\":{\"JOBCTL_GENERATION\":\"2\",\"JOBCTL_SKIP_STEP\":null},"
             "\"snapshot\":\"%s\",\"old\":[\"%s\",\"%s\"]}\n", path, path, path);
    setenv("JOBCTL_SKIP_STEP", "7", 1);
    unsetenv("JOBCTL_SNAPSHOT_FD");
    unsetenv("JOBCTL_SNAPSHOT_OLD");
    say(line);
    say("{\"cmd\":\"rendezvous\",\"key\":\"tcp.2\",\"value\":\"new\"}\n");
    assert_true(rejoin_wait(rank, 10000, &err));
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
    say("{\"cmd\":\"rejoin\",\"env\":{\"JOBCTL_GENERATION\":\"3\"},\"old\":[\"/no/such/file\"]}\n");
    assert_true(rejoin_wait(rank, 10000, &err));
    assert_string_equal(getenv("JOBCTL_GENERATION"), "3");
    assert_null(getenv("JOBCTL_SNAPSHOT_OLD"));
    assert_null(getenv("JOBCTL_SNAPSHOT_FD"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(fstat(fds[i], &b), -1);
    close(memory);
}

/* What the agent says, and when; NULL is its end. */
static const struct word {
    int64_t     at;
    const char *line;
} *script;

enum { WORDS = 6 };

/* The next word of the script. */
static int64_t agent_says(int64_t until)
{
    if (script == NULL || script->at < 0 || script->at > until)
        return until;
    if (script->line)
        say(script->line);
    else
        agent_ends();
    return script++->at;
}

#define JOIN "{\"cmd\":\"rejoin\",\"env\":{}}\n"
#define KEY  "{\"cmd\":\"rendezvous\",\"key\":\"tcp.1\",\"value\":\"a\"}\n"
#define STOP "{\"cmd\":\"stop\"}\n"

static const char nobody[] = "no command arrived from the agent in time";
static const char stopped[] = "a stop command arrived first";

static const struct {
    const char *what;
    struct word says[WORDS]; /* until one at -1 */
    const char *why;         /* it does not go on; NULL: it does */
    int64_t     after;       /* ms */
} waits[] = {
    {"asked at once", {{0, JOIN}, {-1, NULL}}, NULL, 0},
    {"asked in the last moment", {{REJOIN_MS - 1, JOIN}, {-1, NULL}}, NULL, REJOIN_MS - 1},
    {"asked too late", {{REJOIN_MS + 1, JOIN}, {-1, NULL}}, nobody, REJOIN_MS},
    {"never asked", {{-1, NULL}}, nobody, REJOIN_MS},
    {"other words give it no more time",
     {{1000, KEY}, {3000, KEY}, {4900, KEY}, {REJOIN_MS + 500, JOIN},
      {-1, NULL}}, nobody, REJOIN_MS},
    {"a word in two parts", {{100, "{\"cmd\":\"rejo"}, {300, "in\",\"env\":{}}\n"}, {-1, NULL}}, NULL, 300},
    {"a checkpoint is asked for, too", {{50, "{\"cmd\":\"checkpoint\"}\n"}, {70, JOIN}, {-1, NULL}}, NULL, 70},
    {"a stop", {{2000, STOP}, {2001, JOIN}, {-1, NULL}}, stopped, 2000},
    {"a stop is stronger", {{40, JOIN STOP}, {-1, NULL}}, stopped, 40},
    {"the agent is gone", {{700, NULL}, {-1, NULL}}, stopped, 700},
};

static void it_waits_so_long(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        struct err err = {0};
        assert_int_equal(open_rank(state), 0);
        const int64_t began = now = 9 * (int64_t)HOUR;
        struct word says[WORDS];
        for (int k = 0; k < WORDS; k++)
            says[k] = (struct word){waits[i].says[k].at < 0 ? -1 : began + waits[i].says[k].at,
                                    waits[i].says[k].line};
        script = says;
        happen = agent_says;
        const bool goes_on = rejoin_wait(rank, REJOIN_MS, &err);
        if (goes_on != !waits[i].why || now - began != waits[i].after ||
            (waits[i].why && strcmp(err.text, waits[i].why) != 0))
            fail_msg("%s: %s after %lld ms: %s", waits[i].what, goes_on ? "goes on" : "ends",
                     (long long)(now - began), err.text);
        script = NULL;
        close_rank(state);
    }
}

static void an_agent_offers_it(void **state)
{
    (void)state;
    unsetenv("JOBCTL_REJOIN");
    assert_false(rejoin_offered(rank));
    setenv("JOBCTL_REJOIN", "1", 1);
    assert_true(rejoin_offered(rank));
}

static void what_is_said(void **state)
{
    (void)state;
    char text[PROGRESS_LINE];
    progress_detached(rank, "nccl_error", "rank 1 is gone", 17);
    ssize_t n = read(events[0], text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_string_equal(text, "{\"ev\":\"detached\",\"cause\":\"nccl_error\",\"text\":\"rank 1 is gone\","
                              "\"step\":17}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_generation_is_taken_over, open_rank, close_rank),
        cmocka_unit_test(it_waits_so_long),
        cmocka_unit_test_setup_teardown(an_agent_offers_it, open_rank, close_rank),
        cmocka_unit_test_setup_teardown(what_is_said, open_rank, close_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
