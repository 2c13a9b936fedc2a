/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_apply.c - events of a turn are stored together, and acknowledged only then; else all jobs are as before */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <uv.h>

#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/commit_group.h"
#include "controller/job/job.h"
#include "controller/job/job_apply.h"
#include "controller/job/job_file.h"
#include "controller/job/job_store.h"
#include "tests/unit/db/store_fixture.h"

enum { JOBS = 3 };

static struct daemon d;
static struct active_jobs jobs;
static int applied[JOBS + 1], acked[JOBS + 1], lost[JOBS + 1];
static enum job_effect effects[JOBS + 1];
static int refuse; /* commits */

static void on_applied(struct job *job, const struct event_source *told, enum job_effect effect)
{
    applied[job->core.id]++;
    acked[job->core.id] = told ? (int)told->seq : acked[job->core.id];
    effects[job->core.id] = effect;
}

static void on_lost(struct job *job)
{
    lost[job->core.id]++;
}

static int on_commit(void *arg)
{
    (void)arg;
    return refuse;
}

/* Rows of events, as another program sees them: what is not committed is not there. */
static int64_t stored(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite3_open_v2(store_path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM events", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

static int apply(int64_t id, enum core_input_kind kind, const char *event, const char *text, int64_t seq, struct err *err)
{
    json_t *body = text ? json_loads(text, 0, NULL) : NULL;
    const struct core_input in = { .kind = kind, .at_ms = daemon_now_ms(), .attempt = 1, .nonce = "abc",
                                   .event = event, .body = body };
    const struct event_source told = { .seq = seq, .incarnation = 1 };
    const int rc = job_apply(active_jobs_find(&jobs, id), &in, seq ? &told : NULL, err);
    json_decref(body);
    return rc;
}

static void submit(int64_t id)
{
    struct err err = { 0 };
    struct core_output out = { 0 };
    json_t *spec = json_loads("{\"name\":\"x\",\"run\":\"true\",\"resources\":{\"gpus\":0},\"retry\":{\"max\":0}}", 0, NULL);
    json_t *body = json_loads("{\"name\":\"x\",\"priority\":0,\"held\":false,\"retry\":{\"max\":4,\"no_progress\":3,"
                              "\"backoff_ms\":[1000,8000]}}", 0, NULL);
    struct job *job = job_create(&d, id, spec, &err);
    assert_non_null(job);
    const struct core_input in = { .kind = CORE_SUBMIT, .at_ms = daemon_now_ms(), .body = body };
    assert_int_equal(job_core_step(&job->core, &in, &out, &err), 0);
    assert_int_equal(store_begin(d.store, &err), 0);
    if (job_store_submit(job, &out, "name: x", "{}", &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(store_commit(d.store, &err), 0);
    core_output_fini(&out);
    assert_int_equal(active_jobs_add(&jobs, job, &err), 0);
    json_decref(spec);
    json_decref(body);
    if (apply(id, CORE_PLACE, NULL, "{\"nonce\":\"abc\",\"node\":\"here\",\"cpus\":2,\"gpus\":0}", 0, &err) < 0 ||
        apply(id, CORE_AGENT_UP, NULL, "{\"node\":\"here\",\"pid\":7}", 0, &err) < 0 ||
        apply(id, CORE_AGENT_EVENT, "generation_started", "{\"generation\":1,\"np\":2}", 1, &err) < 0)
        fail_msg("%s", err.text);
}

static int up(void **state)
{
    store_setup(state);
    memset(&d, 0, sizeof(d));
    memset(applied, 0, sizeof(applied));
    memset(acked, 0, sizeof(acked));
    memset(lost, 0, sizeof(lost));
    refuse = 0;
    uv_loop_init(&d.loop);
    snprintf(d.home.path, sizeof(d.home.path), "%s", store_dir);
    d.store = opened();
    jobs = (struct active_jobs){ .applied = on_applied, .lost = on_lost };
    d.active_jobs = &jobs;
    assert_int_equal(commit_group_open(&d, NULL), 0);
    for (int64_t id = 1; id <= JOBS; id++)
        submit(id);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    sqlite3_commit_hook(store_handle(d.store), on_commit, NULL);
    return 0;
}

static int down(void **state)
{
    refuse = 0;
    commit_group_close(&d);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    active_jobs_fini(&jobs);
    store_close(d.store);
    return uv_loop_close(&d.loop) == 0 ? store_teardown(state) : -1;
}

#define CHECKPOINT(step) "{\"generation\":1,\"step\":" #step ",\"path\":\"/c\",\"bytes\":5,\"digest\":\"\"}"

static void events_wait_for_the_end_of_the_turn(void **state)
{
    (void)state;
    struct err err = { 0 };
    const int64_t before = stored();
    const int was = applied[1];
    d.die_at_event = 1000;
    assert_int_equal(apply(1, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(20), 2, &err), 0);
    assert_int_equal(apply(2, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(30), 2, &err), 0);
    assert_int_equal(apply(1, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(40), 3, &err), 0);
    assert_int_equal(active_jobs_find(&jobs, 1)->core.checkpoint, 40);
    assert_int_equal(stored(), before);
    assert_int_equal(applied[1], was);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    assert_int_equal(stored(), before + 3);
    assert_int_equal(applied[1], was + 1); /* one acknowledgement, of the newest */
    assert_int_equal(acked[1], 3);
    assert_int_equal(acked[2], 2);
    assert_int_equal(acked[3], 1);
    assert_int_equal(d.die_at_event, 997); /* counts each event */
    uv_run(&d.loop, UV_RUN_NOWAIT);
    assert_int_equal(applied[1], was + 1);
    /* An event with an effect takes the others along, at once. */
    assert_int_equal(apply(1, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(50), 4, &err), 0);
    assert_int_equal(apply(2, CORE_STOP, NULL, "{\"reason\":\"cancelled\",\"limit\":false,\"now\":false}", 0, &err), 0);
    assert_int_equal(effects[2], DO_STOP);
    assert_int_equal(acked[1], 4);
    assert_int_equal(stored(), before + 5);
}

/* A commit that fails: no job has changed, none was acknowledged, and each agent sends its events again. */
static void a_commit_that_fails_changes_nothing(void **state)
{
    (void)state;
    struct err err = { 0 };
    const int64_t before = stored();
    const struct job_core one = active_jobs_find(&jobs, 1)->core, two = active_jobs_find(&jobs, 2)->core;
    const int64_t seq = active_jobs_find(&jobs, 1)->stored.last_seq;
    assert_int_equal(apply(1, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(20), 2, &err), 0);
    assert_int_equal(apply(1, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(40), 3, &err), 0);
    assert_int_equal(apply(2, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(30), 2, &err), 0);
    refuse = 1;
    uv_run(&d.loop, UV_RUN_NOWAIT);
    refuse = 0;
    assert_int_equal(stored(), before);
    assert_memory_equal(&active_jobs_find(&jobs, 1)->core, &one, sizeof(one));
    assert_memory_equal(&active_jobs_find(&jobs, 2)->core, &two, sizeof(two));
    assert_int_equal(active_jobs_find(&jobs, 1)->stored.last_seq, seq);
    assert_true(lost[1] == 1 && lost[2] == 1 && lost[3] == 0);
    assert_true(acked[1] == 1 && acked[2] == 1);
    /* Sent again, they are stored once. */
    assert_int_equal(apply(1, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(20), 2, &err), 0);
    assert_int_equal(apply(2, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(30), 2, &err), 0);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    assert_int_equal(stored(), before + 2);
    assert_true(acked[1] == 2 && acked[2] == 2);
    /* The same where an input of a third job takes them along: that one fails, too. */
    assert_int_equal(apply(1, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(60), 3, &err), 0);
    const struct job_core three = active_jobs_find(&jobs, 3)->core;
    refuse = 1;
    assert_int_equal(apply(3, CORE_STOP, NULL, "{\"reason\":\"c\",\"limit\":false,\"now\":false}", 0, &err), -1);
    refuse = 0;
    assert_true(err.code != 0);
    assert_memory_equal(&active_jobs_find(&jobs, 3)->core, &three, sizeof(three));
    assert_int_equal(active_jobs_find(&jobs, 1)->core.checkpoint, 20);
    assert_true(lost[1] == 2 && lost[3] == 0); /* nobody waits for an acknowledgement of the third */
    assert_int_equal(stored(), before + 2);
}

/* A job.json that is damaged, or of another job, is named. */
static void a_damaged_file_of_a_job(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "{}", "{\"format\":1,\"id\":9,\"sum\":\"0\"}" };
    struct err err = { 0 };
    char path[400];
    assert_null(job_file_read(store_dir, 9, &err));
    assert_int_equal(err.errnum, ENOENT);
    snprintf(path, sizeof(path), "%s/jobs", store_dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/jobs/9", store_dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/jobs/9/job.json", store_dir);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(texts[i], f);
        fclose(f);
        err = (struct err){ 0 };
        assert_null(job_file_read(store_dir, 9, &err));
        assert_int_equal(err.code, ERR_DATA);
        assert_non_null(strstr(err.text, "/jobs/9/job.json is damaged"));
    }
}

/* The disk is full while the events of one job are written: that input fails, and the group goes on without it. */
static void a_full_disk_fails_one_input(void **state)
{
    (void)state;
    struct err err = { 0 };
    char full[80], *big = malloc(100000);
    snprintf(big, 100000, "{\"generation\":1,\"text\":\"%09000d\"}", 0);
    snprintf(full, sizeof(full), "PRAGMA max_page_count=%lld", (long long)number(d.store, "PRAGMA page_count"));
    run(d.store, full);
    const struct job_core was = active_jobs_find(&jobs, 1)->core;
    int rc = 0;
    for (int64_t seq = 2; rc == 0 && seq < 100; seq++)
        rc = apply(1, CORE_AGENT_EVENT, "warning", big, seq, &err);
    assert_int_equal(rc, -1);
    assert_int_equal(err.errnum, ENOSPC);
    assert_int_equal(d.store_state.errnum, ENOSPC);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    run(d.store, "PRAGMA max_page_count=1000000");
    assert_int_equal(active_jobs_find(&jobs, 1)->core.state, was.state);
    assert_int_equal(apply(1, CORE_AGENT_EVENT, "checkpoint", CHECKPOINT(20), 100, &err), 0);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    assert_int_equal(acked[1], 100);
    assert_int_equal(d.store_state.errnum, 0);
    free(big);
}

/* In the order of their ids, beyond the first allocation. */
static void jobs_are_found(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct job *twice = active_jobs_find(&jobs, 2);
    json_t *spec = json_pack("{s:s}", "name", "y");
    assert_int_equal(active_jobs_add(&jobs, twice, &err), -1);
    assert_int_equal(err.code, ERR_BUG);
    assert_int_equal(active_jobs_add(&jobs, active_jobs_find(&jobs, JOBS), NULL), -1); /* the newest once more */
    for (int64_t id = 10; id < 210; id += 2)
        assert_int_equal(active_jobs_add(&jobs, job_create(&d, id, spec, NULL), NULL), 0);
    for (int64_t id = 0; id < 212; id++) {
        const struct job *job = active_jobs_find(&jobs, id);
        assert_int_equal(job ? job->core.id : -1, (id >= 1 && id <= JOBS) || (id >= 10 && id < 210 && id % 2 == 0) ? id : -1);
    }
    active_jobs_remove(&jobs, active_jobs_find(&jobs, 100));
    assert_null(active_jobs_find(&jobs, 100));
    assert_int_equal(active_jobs_find(&jobs, 102)->core.id, 102);
    assert_int_equal(jobs.count, JOBS + 99);
    json_decref(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_wait_for_the_end_of_the_turn, up, down),
        cmocka_unit_test_setup_teardown(a_commit_that_fails_changes_nothing, up, down),
        cmocka_unit_test_setup_teardown(a_full_disk_fails_one_input, up, down),
        cmocka_unit_test_setup_teardown(a_damaged_file_of_a_job, up, down),
        cmocka_unit_test_setup_teardown(jobs_are_found, up, down),
    };
    return cmocka_run_group_tests_name("job_apply", tests, NULL, NULL);
}
