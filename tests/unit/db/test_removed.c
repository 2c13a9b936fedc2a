/* SPDX-License-Identifier: Apache-2.0 */
/* test_removed.c - the row of a removed job, the jobs that mention it, pages of finished jobs */
#include "db/checkpoints.h"
#include "db/events.h"
#include "db/orphans.h"
#include "db/removed.h"
#include "tests/unit/db/store_fixture.h"

static int count(void *ctx, const struct event_row *row)
{
    (void)row;
    ++*(int *)ctx;
    return 0;
}

static int take_pending(void *ctx, const struct removed_row *row)
{
    *(struct removed_row *)ctx = *row;
    return 0;
}

static void a_job_goes_with_all_its_rows_and_one_stays(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    struct job_row job;
    struct removed_row back = { .job = 0 };
    const struct removed_row row = { .job = 1, .name = "sana", .removed_ms = 1000, .bytes = 52,
                                     .checkpoints = "/jobs/1/checkpoints", .checkpoint_bytes = -1,
                                     .kept = true };
    const struct event_row event = { .job = 1, .seq = 1, .source = "controller", .kind = "submitted",
                                     .agent_seq = -1, .body = "{}" };
    const struct checkpoint_row checkpoint = { .step = 5, .path = "/c", .digest = "", .trust = "written" };
    int events = 0;
    insert(s, 1, "sana", "done");
    insert(s, 2, "sana", "done");
    assert_int_equal(events_append(s, &event, &err), 0);
    assert_int_equal(checkpoints_put(s, 1, &checkpoint, &err), 0);
    assert_int_equal(orphans_put(s, &(struct orphan_row){ 1, 1, 0, "ssh", "gpu1" }, &err), 0);
    assert_int_equal(removed_put(s, &row, &err), 0);
    store_close(s);

    s = opened();
    assert_int_equal(events_each(s, 1, 0, 100, count, &events, &err), 0);
    assert_int_equal(events, 0);
    assert_int_equal(jobs_get(&job, s, 1, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "job 1 (sana) was removed on 1970-01-0"));
    assert_non_null(strstr(err.text, "its checkpoints are still in /jobs/1/checkpoints"));
    err = (struct err){ 0 };
    assert_int_equal(jobs_get(&job, s, 2, &err), 0);

    assert_int_equal(removed_each_pending(s, take_pending, &back, &err), 0);
    assert_int_equal(back.job, 1);
    assert_true(back.kept && back.pending);
    assert_int_equal(back.checkpoint_bytes, -1);
    assert_int_equal(removed_done(s, 1, &err), 0);
    back.job = 0;
    assert_int_equal(removed_each_pending(s, take_pending, &back, &err), 0);
    assert_int_equal(back.job, 0);
    assert_int_equal(removed_get(&back, s, 1, &err), 0);
    assert_false(back.pending);
    assert_int_equal(removed_get(&back, s, 2, &err), -1);

    int64_t id;                             /* its id is not reused */
    assert_int_equal(jobs_next_id(&id, s, &err), 0);
    assert_int_equal(id, 3);
    store_close(s);
}

static int note_mention(void *ctx, int64_t id, const char *canonical)
{
    (void)canonical;
    *(int64_t *)ctx = id;
    return 1;
}

static int64_t mentioned_by(struct store *s, int64_t id)
{
    struct err err = { 0 };
    int64_t found = 0;
    assert_true(jobs_that_mention(s, id, note_mention, &found, &err) >= 0);
    return found;
}

static void a_job_that_mentions_a_path_is_found(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    const struct job_row one = some_job(1, "a", "done"), two = some_job(2, "b", "done");
    assert_int_equal(jobs_insert(s, &one, "", "{\"dir\":\"/h/jobs/1/checkpoints\"}", &err), 0);
    assert_int_equal(mentioned_by(s, 1), 0);
    assert_int_equal(jobs_insert(s, &two, "", "{\"a\":[\"/h/jobs/1/checkpoints\",\"/h/jobs/2/x\",\"/h/jobs/12/1\","
                                              "\"/jobs/x\",\"/jobs/\"]}", &err), 0);
    assert_int_equal(mentioned_by(s, 1), 2);
    assert_int_equal(mentioned_by(s, 2), 0);    /* its own directory is no mention */
    assert_int_equal(mentioned_by(s, 12), 2);
    assert_int_equal(mentioned_by(s, 123), 0);
    const struct removed_row gone = { .job = 2, .name = "b" };
    assert_int_equal(removed_put(s, &gone, &err), 0);
    assert_int_equal(mentioned_by(s, 1), 0);
    store_close(s);
}

static int note_done(void *ctx, int64_t id, const char *name, const char *canonical)
{
    (void)name;
    (void)canonical;
    sprintf((char *)ctx + strlen(ctx), "%d ", (int)id);
    return 0;
}

/* Pages of `scan` rows, newest first. */
static void done_jobs(char *out, struct store *s, int64_t keep, int64_t ended_before_ms, const char *result)
{
    struct err err = { 0 };
    struct jobs_done which = { .scan = 2, .ended_before_ms = ended_before_ms, .result = result };
    out[0] = 0;
    if (keep > 0)
        assert_int_equal(jobs_done_skip(&which.before, s, keep, result, &err), 0);
    for (int64_t next = 1; next > 0; which.before = next)
        assert_int_equal(jobs_done_each(s, &which, &next, note_done, out, &err), 0);
}

static void done_jobs_come_in_pages(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    char got[100];
    for (int i = 1; i <= 7; i++) {
        struct job_row row = some_job(i, "a", i == 4 ? "running" : "done");
        row.ended_ms = i == 4 ? -1 : i * 100;
        snprintf(row.result, sizeof(row.result), "%s", i == 4 ? "" : i % 2 ? "succeeded" : "failed");
        assert_int_equal(jobs_insert(s, &row, "", "{}", &err), 0);
    }
    done_jobs(got, s, 0, INT64_MAX, NULL);
    assert_string_equal(got, "7 6 5 3 2 1 ");
    done_jobs(got, s, 0, 600, NULL);
    assert_string_equal(got, "5 3 2 1 ");
    done_jobs(got, s, 2, INT64_MAX, NULL);
    assert_string_equal(got, "5 3 2 1 ");
    done_jobs(got, s, 1, INT64_MAX, "failed");
    assert_string_equal(got, "2 ");
    done_jobs(got, s, 9, INT64_MAX, NULL);
    assert_string_equal(got, "");
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(a_job_goes_with_all_its_rows_and_one_stays),
        STORE_CASE(a_job_that_mentions_a_path_is_found),
        STORE_CASE(done_jobs_come_in_pages),
    };
    return cmocka_run_group_tests_name("removed", tests, NULL, NULL);
}
