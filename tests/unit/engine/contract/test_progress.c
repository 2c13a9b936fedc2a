/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress.c - a rank and its agent: events out, commands in, a full pipe */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "engine/contract/progress.h"

/* The agent's two pipes; the rank's ends are in the environment. */
struct agent {
    int events;  /* read */
    int control; /* write */
    int rank_events, rank_control;
};

static void agent_open(struct agent *a)
{
    int ev[2], ctl[2];
    char n[16];
    assert_int_equal(pipe(ev), 0);
    assert_int_equal(pipe(ctl), 0);
    *a = (struct agent){ev[0], ctl[1], ev[1], ctl[0]};
    snprintf(n, sizeof(n), "%d", ev[1]);
    setenv("JOBCTL_EVENT_FD", n, 1);
    snprintf(n, sizeof(n), "%d", ctl[0]);
    setenv("JOBCTL_CONTROL_FD", n, 1);
}

static json_t *next_line(FILE *f)
{
    char line[PROGRESS_LINE + 2];
    if (!fgets(line, sizeof(line), f))
        return NULL;
    json_t *o = json_loads(line, 0, NULL);
    assert_non_null(o);
    return o;
}

static const char *ev_of(const json_t *o)
{
    return json_string_value(json_object_get(o, "ev"));
}

static void every_kind_of_line_reaches_the_agent(void **state)
{
    (void)state;
    struct agent a;
    struct progress *p;
    struct err err = {0};
    agent_open(&a);
    assert_int_equal(progress_open(&p, &err), 0);
    progress_started(p, 0, 1, 17, 40, 192672, "cpu");
    const double phase_ms[FLIGHT_PHASES] = {[PHASE_FORWARD] = 6.1234567, [PHASE_CHECKPOINT] = 5};
    progress_step(p, 18, 40, 0.5, NAN, 1e-3, 800, 20, phase_ms);
    progress_checkpoint(p, 20, "/c/step-20", 123, 12, 0.5, "xxh3:00");
    progress_quarantined(p, "/c/step-19", "model.safetensors is cut short");
    progress_sample(p, 40, "/r/grid.png");
    progress_warning(p, "%d left over \xff", 3);
    char longer[3000];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    progress_failed(p, "nan_loss", 76, longer, 17);
    progress_done(p, 40, 0.1);
    progress_close(p);
    FILE *f = fdopen(a.events, "r");
    static const char *const kinds[] = {"started", "step",    "checkpoint", "quarantined",
                                        "sample",  "warning", "failed",     "done"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        json_t *o = next_line(f);
        assert_string_equal(ev_of(o), kinds[i]);
        if (i == 1)
            assert_true(json_is_null(json_object_get(o, "grad_norm")));
        if (i == 1) {
            assert_true(json_number_value(json_object_get(o, "forward_ms")) == 6.123);
            assert_true(json_number_value(json_object_get(o, "data_ms")) == 0);
            assert_null(json_object_get(o, "checkpoint_ms"));   /* no phase of a step */
        }
        if (i == 5)
            assert_string_equal(json_string_value(json_object_get(o, "text")), "3 left over \xEF\xBF\xBD");
        json_decref(o);
    }
    assert_null(fgets(longer, 10, f));
    fclose(f);
    close(a.control);
}

/* The child fills the pipe with steps while nobody reads, then sends done. */
static void a_full_pipe_drops_only_steps(void **state)
{
    (void)state;
    struct agent a;
    agent_open(&a);
    int full[2];
    char c;
    assert_int_equal(pipe(full), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct progress *p;
        if (progress_open(&p, NULL) < 0)
            _exit(9);
        for (int i = 1; i <= 5000; i++)
            progress_step(p, i, 5000, 1.0 / i, 1, 1, 1, 1, NULL);
        if (write(full[1], "x", 1) != 1)
            _exit(9);
        progress_checkpoint(p, 5000, "/c", 1, 1, 0, "d"); /* waits for space in the pipe */
        progress_done(p, 5000, 0.1);
        progress_close(p);
        _exit(0);
    }
    close(a.rank_events);
    close(a.rank_control);
    assert_int_equal(read(full[0], &c, 1), 1);
    FILE *f = fdopen(a.events, "r");
    int steps = 0, others = 0;
    long long last = 0;
    for (json_t *o; (o = next_line(f)); json_decref(o)) {
        long long step = json_integer_value(json_object_get(o, "step"));
        if (strcmp(ev_of(o), "step") != 0) {
            others++;
            continue;
        }
        assert_true(step > last);
        last = step;
        steps++;
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(steps > 100 && steps < 5000);
    assert_int_equal(others, 2);
    fclose(f);
    close(a.control);
    close(full[0]);
    close(full[1]);
}

static void commands_arrive_in_any_fragments(void **state)
{
    (void)state;
    struct agent a;
    struct progress *p;
    struct err err = {0};
    agent_open(&a);
    assert_int_equal(progress_open(&p, &err), 0);
    assert_int_equal(progress_poll(p), CMD_NONE);
    static const struct {
        const char *bytes;
        enum progress_command cmd;
    } cases[] = {
        {"{\"cmd\":\"check", CMD_NONE},
        {"point\"}\n", CMD_CHECKPOINT},
        {"{\"cmd\":\"dance\"}\nnot json\n{\"cmd\":7}\n[]\n\n", CMD_NONE},
        {"{\"cmd\":\"stop\"}\n{\"cmd\":\"checkpoint\"}\n", CMD_STOP},
        {"", CMD_NONE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = strlen(cases[i].bytes);
        assert_int_equal(write(a.control, cases[i].bytes, n), (ssize_t)n);
        assert_int_equal(progress_poll(p), cases[i].cmd);
    }
    char junk[PROGRESS_LINE + 500];
    memset(junk, 'j', sizeof(junk));
    assert_int_equal(write(a.control, junk, sizeof(junk)), (ssize_t)sizeof(junk));
    assert_int_equal(progress_poll(p), CMD_NONE);
    const char *more = "\n{\"cmd\":\"checkpoint\"}\n";
    assert_int_equal(write(a.control, more, strlen(more)), (ssize_t)strlen(more));
    assert_int_equal(progress_poll(p), CMD_CHECKPOINT);
    close(a.control); /* the agent is gone and does not come back */
    assert_int_equal(progress_poll(p), CMD_STOP);
    assert_int_equal(progress_poll(p), CMD_STOP);
    progress_close(p);
    close(a.events);
}

static void a_lost_agent_is_not_an_error(void **state)
{
    (void)state;
    struct agent a;
    struct progress *p;
    struct err err = {0};
    agent_open(&a);
    assert_int_equal(progress_open(&p, &err), 0);
    close(a.events);
    progress_step(p, 1, 2, 1, 1, 1, 1, 1, NULL);
    progress_done(p, 2, 1);
    close(a.control);
    progress_close(p);
}

static void sigterm_means_stop(void **state)
{
    (void)state;
    struct progress *p;
    struct err err = {0};
    unsetenv("JOBCTL_EVENT_FD");
    unsetenv("JOBCTL_CONTROL_FD");
    assert_int_equal(progress_open(&p, &err), 0);
    assert_int_equal(progress_poll(p), CMD_NONE);
    raise(SIGTERM);
    assert_int_equal(progress_poll(p), CMD_STOP);
    progress_done(p, 1, 1); /* no descriptor at all */
    progress_close(p);
}

static void a_closed_descriptor_is_an_error(void **state)
{
    (void)state;
    static const char *const bad[] = {"x", "-3", "7seven", "987"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct progress *p;
        struct err err = {0};
        setenv("JOBCTL_EVENT_FD", bad[i], 1);
        assert_int_equal(progress_open(&p, &err), -1);
        assert_non_null(strstr(err.text, "JOBCTL_EVENT_FD"));
    }
    unsetenv("JOBCTL_EVENT_FD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_line_reaches_the_agent),
        cmocka_unit_test(a_full_pipe_drops_only_steps),
        cmocka_unit_test(commands_arrive_in_any_fragments),
        cmocka_unit_test(a_lost_agent_is_not_an_error),
        cmocka_unit_test(sigterm_means_stop),
        cmocka_unit_test(a_closed_descriptor_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
