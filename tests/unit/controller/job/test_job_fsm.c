/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_fsm.c - the arrows match docs/RECOVERY.md and are complete */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "controller/job/job_fsm.h"
#include "engine/base/err.h"

static const char PAGE[] = "docs/RECOVERY.md";
static const char MARK[] = "<!-- drawn -->\n";
static char page[65536], drawn[16384];

static void load(void)
{
    FILE *f = fopen(PAGE, "r");
    assert_non_null(f);
    size_t n = fread(page, 1, sizeof(page) - 1, f);
    page[n] = 0;
    fclose(f);
}

/* --- the arrows as Markdown: a diagram and a table ------------------------------------------- */

__attribute__((format(printf, 1, 2))) static void put(const char *fmt, ...)
{
    const size_t at = strlen(drawn);
    va_list ap;
    va_start(ap, fmt);
    assert_true((size_t)vsnprintf(drawn + at, sizeof(drawn) - at, fmt, ap) < sizeof(drawn) - at);
    va_end(ap);
}

static void draw_row(enum job_fsm_event on)
{
    put("| %s |", job_fsm_event_name(on));
    for (int s = 0; s < JOB_STATES; s++) {
        struct job_step step;
        if (job_fsm_step(&step, (enum job_state)s, on, NULL) < 0)
            put(" |");
        else
            put(" %s%s%s |", (int)step.to == s ? "stays" : job_state_name(step.to),
                step.effect == DO_NOTHING ? "" : "; ", job_effect_name(step.effect));
    }
    put("\n");
}

static void draw(void)
{
    struct job_step step;
    put("```mermaid\nstateDiagram-v2\n    [*] --> pending\n");
    for (int s = 0; s < JOB_STATES; s++)
        for (int e = 0; e < JOB_FSM_EVENTS; e++)
            if (job_fsm_step(&step, (enum job_state)s, (enum job_fsm_event)e, NULL) == 0 && (int)step.to != s)
                put("    %s --> %s: %s\n", job_state_name((enum job_state)s), job_state_name(step.to),
                    job_fsm_event_name((enum job_fsm_event)e));
    put("    done --> [*]\n```\n\n| |");
    for (int s = 0; s < JOB_STATES; s++)
        put(" %s |", job_state_name((enum job_state)s));
    put("\n|---|");
    for (int s = 0; s < JOB_STATES; s++)
        put("---|");
    put("\n");
    for (int e = 0; e < JOB_FSM_EVENTS; e++)
        draw_row((enum job_fsm_event)e);
    put("| after a restart |");
    for (int s = 0; s < JOB_STATES; s++)
        put(" %s |", job_effect_name(job_fsm_resume((enum job_state)s)));
    put("\n");
}

static void page_is_true(void **state)
{
    (void)state;
    draw();
    load();
    char *mark = strstr(page, MARK);
    assert_non_null(mark);
    if (getenv("JOBCTL_DRAW")) {
        FILE *f = fopen(PAGE, "w");
        assert_non_null(f);
        fprintf(f, "%.*s%s\n%s", (int)(mark - page), page, MARK, drawn);
        fclose(f);
        load();
    }
    assert_string_equal(strstr(page, MARK) + strlen(MARK) + 1, drawn);
}

static bool arrow(enum job_state *to, int from, int on)
{
    struct job_step step;
    if (job_fsm_step(&step, (enum job_state)from, (enum job_fsm_event)on, NULL) < 0)
        return false;
    *to = step.to;
    return true;
}

/* Marks the states reachable from `from`. */
static void reach(bool seen[JOB_STATES], int from)
{
    enum job_state to;
    seen[from] = true;
    for (int e = 0; e < JOB_FSM_EVENTS; e++)
        if (arrow(&to, from, e) && !seen[to])
            reach(seen, (int)to);
}

static void every_state_lives_and_ends(void **state)
{
    (void)state;
    bool from_first[JOB_STATES] = { false };
    reach(from_first, JOB_PENDING);
    for (int s = 0; s < JOB_STATES; s++) {
        bool seen[JOB_STATES] = { false };
        assert_true(from_first[s]);
        reach(seen, s);
        assert_true(seen[JOB_DONE]);
    }
}

static void done_is_final(void **state)
{
    (void)state;
    enum job_state to;
    for (int e = 0; e < JOB_FSM_EVENTS; e++)
        assert_false(arrow(&to, JOB_DONE, e));
    struct err err = { 0 };
    struct job_step step;
    assert_int_equal(job_fsm_step(&step, JOB_DONE, EV_STOP, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_string_equal(err.text, "event 'stop' is not valid in state done");
}

/* No state may ignore an end or a stop. */
static void every_living_state_can_stop(void **state)
{
    (void)state;
    enum job_state to;
    for (int s = 0; s < JOB_DONE; s++) {
        assert_true(arrow(&to, s, EV_END));
        assert_int_equal(to, JOB_DONE);
        if (s != JOB_PENDING) {
            assert_true(arrow(&to, s, EV_STOP));
            assert_int_equal(to, JOB_STOPPING);
        }
    }
}

static void names(void **state)
{
    (void)state;
    for (int s = 0; s < JOB_STATES; s++) {
        assert_true(job_state_name((enum job_state)s)[0]);
    }
    for (int e = 0; e < JOB_FSM_EVENTS; e++)
        assert_true(job_fsm_event_name((enum job_fsm_event)e)[0]);
    for (int e = 1; e < JOB_EFFECTS; e++)
        assert_true(job_effect_name((enum job_effect)e)[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_is_true),
        cmocka_unit_test(every_state_lives_and_ends),
        cmocka_unit_test(done_is_final),
        cmocka_unit_test(every_living_state_can_stop),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("job_fsm", tests, NULL, NULL);
}
