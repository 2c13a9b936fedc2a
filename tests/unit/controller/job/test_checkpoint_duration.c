/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_duration.c - estimates the next checkpoint's duration from those written */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "controller/job/checkpoint_duration.h"
#include "db/events.h"
#include "db/jobs.h"
#include "db/store.h"
#include "engine/base/err.h"

/* Durations in order; 0 ends the list; negative: another kind of event. */
static const struct {
    double  ms[12];
    int64_t takes;
} rows[] = {
    {{0}, 0},
    {{120}, 120},
    {{120, 4000, 100}, 3600},                     /* the longest, lowered by a tenth */
    {{4000, 100, 100, 100}, 2916},
    {{4000, -9000, -9000}, 4000},                 /* other events have no effect */
    {{1000, 100, 100, 100, 100, 100, 100, 600}, 600},
    {{900, 1000}, 1000},
};

static void append(struct store *s, int64_t job, int64_t seq, const char *kind, double ms)
{
    char body[80];
    struct err err = {0};
    snprintf(body, sizeof(body), "{\"step\":%lld,\"ms\":%.1f}", (long long)seq, ms);
    const struct event_row row = {.job = job, .seq = seq, .at_ms = seq, .source = "agent",
                                  .kind = kind, .attempt = 1 + seq / 3, .node = "n",
                                  .incarnation = 1, .agent_seq = seq, .body = body};
    if (events_append(s, &row, &err) < 0)
        fail_msg("%s", err.text);
}

static void the_longest_counts_and_fades(void **state)
{
    char dir[] = "/tmp/jobctl-save.XXXXXX", path[64];
    struct err err = {0};
    struct store *s;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/jobs.db", dir);
    if (store_open(&s, path, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct job_row job = {.id = (int64_t)i + 1, .name = "a", .state = "running",
                                    .after = "[]", .loss = NAN, .samples_per_s = NAN};
        assert_int_equal(jobs_insert(s, &job, "", "{}", &err), 0);
        for (int64_t k = 0; rows[i].ms[k] != 0; k++)
            append(s, job.id, k + 1, rows[i].ms[k] > 0 ? "checkpoint" : "mirrored", fabs(rows[i].ms[k]));
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (checkpoint_duration_ms(s, (int64_t)i + 1) != rows[i].takes)
            fail_msg("row %zu: %lld ms, not %lld", i, (long long)checkpoint_duration_ms(s, (int64_t)i + 1),
                     (long long)rows[i].takes);
    store_close(s);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_longest_counts_and_fades)};
    return cmocka_run_group_tests_name("save_time", tests, NULL, NULL);
}
