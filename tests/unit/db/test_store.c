/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - commits are durable, agent events are stored once, stores of other versions are refused */
#include <math.h>
#include <stdlib.h>

#include "agent/core/goodput.h"
#include "db/attempts.h"
#include "db/checkpoints.h"
#include "db/events.h"
#include "db/goodput_rows.h"
#include "db/metrics.h"
#include "db/nodes.h"
#include "db/orphans.h"
#include "db/schema.h"
#include "tests/unit/db/store_fixture.h"

static void job_round_trip(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    int64_t id = 0;
    assert_int_equal(jobs_next_id(&id, s, &err), 0);
    assert_int_equal(id, 1);
    struct job_row row = some_job(1, "sana", "pending"), back;
    row.priority = -7;
    row.retry_of = 3;
    snprintf(row.after, sizeof(row.after), "[2,9]");
    snprintf(row.reason, sizeof(row.reason), "waits for job 2");
    assert_int_equal(jobs_insert(s, &row, "name: sana", "{\"schema\":1}", &err), 0);
    assert_int_equal(jobs_get(&back, s, 1, &err), 0);
    assert_string_equal(back.name, "sana");
    assert_string_equal(back.result, "");
    assert_string_equal(back.after, "[2,9]");
    assert_int_equal(back.priority, -7);
    assert_int_equal(back.retry_of, 3);
    assert_int_equal(back.np, -1);
    assert_true(isnan(back.loss));
    assert_int_equal(back.submitted_ms, 1001);

    snprintf(row.state, sizeof(row.state), "done");
    snprintf(row.result, sizeof(row.result), "failed");
    row.exit_code = 93;
    row.loss = 0.25;
    row.np = 2;
    row.step = 0;
    row.started_ms = 5;
    row.ended_ms = 6;
    row.productive_ms = 1;
    row.last_seq = 12;
    assert_int_equal(jobs_update(s, &row, &err), 0);
    store_close(s);

    s = opened();
    assert_int_equal(jobs_get(&back, s, 1, &err), 0);
    assert_string_equal(back.state, "done");
    assert_string_equal(back.result, "failed");
    assert_string_equal(back.reason, "waits for job 2");
    assert_int_equal(back.exit_code, 93);
    assert_int_equal(back.np, 2);
    assert_int_equal(back.step, 0);
    assert_int_equal(back.started_ms, 5);
    assert_int_equal(back.ended_ms, 6);
    assert_int_equal(back.productive_ms, 1);
    assert_int_equal(back.last_seq, 12);
    assert_float_equal(back.loss, 0.25, 0);
    char *yaml, *canonical;
    assert_int_equal(jobs_spec(&yaml, &canonical, s, 1, &err), 0);
    assert_string_equal(yaml, "name: sana");
    assert_string_equal(canonical, "{\"schema\":1}");
    free(yaml);
    free(canonical);
    assert_int_equal(jobs_get(&back, s, 2, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.text, "job 2 does not exist");
    store_close(s);
}

static int collect(void *ctx, const struct job_row *row)
{
    char *text = ctx;
    sprintf(text + strlen(text), "%lld ", (long long)row->id);
    return 0;
}

static void job_lists(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    const struct {
        const char *name, *state;
    } rows[] = { { "a", "done" }, { "b", "running" }, { "a", "pending" }, { "c", "done" } };
    for (int i = 0; i < 4; i++)
        insert(s, i + 1, rows[i].name, rows[i].state);
    const struct {
        bool        open;
        int         before, limit;
        const char *ids;
    } cases[] = { { true, 0, 10, "3 2 " }, { false, 0, 10, "4 3 2 1 " }, { false, 3, 1, "2 " },
                  { true, 3, 10, "2 " } };
    for (int i = 0; i < 4; i++) {
        char got[64] = "";
        jobs_each(s, cases[i].open, cases[i].before, cases[i].limit, collect, got, &err);
        assert_string_equal(got, cases[i].ids);
    }
    int64_t id = 0;
    assert_int_equal(jobs_find(&id, s, "a", INT64_MAX, &err), 0);
    assert_int_equal(id, 3);
    assert_int_equal(jobs_find(&id, s, "a", 3, &err), 0);
    assert_int_equal(id, 1);
    assert_int_equal(jobs_find(&id, s, NULL, INT64_MAX, &err), 0);
    assert_int_equal(id, 4);
    assert_int_equal(jobs_find(&id, s, "z", INT64_MAX, &err), -1);
    assert_string_equal(err.text, "no job is named 'z'");
    store_close(s);
}

static void ids_are_never_reused(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    insert(s, 41, "x", "done");
    sqlite3_exec(store_handle(s), "DELETE FROM specs; DELETE FROM jobs", NULL, NULL, NULL);
    int64_t id = 0;
    assert_int_equal(jobs_next_id(&id, s, &err), 0);
    assert_int_equal(id, 42);
    store_close(s);
}

static int count_events(void *ctx, const struct event_row *row)
{
    int64_t *sum = ctx;
    *sum = *sum * 10 + row->seq;
    return 0;
}

static void events_come_once(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    insert(s, 1, "x", "running");
    struct event_row e = { .job = 1, .seq = 1, .at_ms = 5, .source = "controller",
                           .kind = "submitted", .agent_seq = -1, .body = "{}" };
    assert_int_equal(events_append(s, &e, &err), 0);
    struct event_row a = { .job = 1, .seq = 2, .at_ms = 6, .source = "agent", .kind = "plan",
                           .attempt = 1, .node = "n", .incarnation = 1, .agent_seq = 9,
                           .body = "{\"np\":2}" };
    assert_int_equal(events_append(s, &a, &err), 0);
    a.seq = 3;
    assert_int_equal(events_append(s, &a, &err), -1);       /* a duplicate */
    assert_int_equal(err.code, ERR_CONFLICT);
    err.code = ERR_NONE;
    a.incarnation = 2;
    assert_int_equal(events_append(s, &a, &err), 0);
    e.seq = 3;
    assert_int_equal(events_append(s, &e, &err), -1);       /* the seq is taken */
    err.code = ERR_NONE;
    e.seq = 4, e.job = 2;
    assert_int_equal(events_append(s, &e, &err), -1);       /* no such job */
    err.code = ERR_NONE;
    int64_t sum = 0;
    assert_int_equal(events_each(s, 1, 1, 10, count_events, &sum, &err), 0);
    assert_int_equal(sum, 23);
    store_close(s);
}

static int last_point(void *ctx, int64_t step, double value)
{
    double *out = ctx;
    out[0]++;
    out[1] = (double)step;
    out[2] = value;
    return 0;
}

static int last_checkpoint(void *ctx, const struct checkpoint_row *row)
{
    snprintf(ctx, 64, "%lld %s %s", (long long)row->step, row->path, row->trust);
    return 1;
}

static int all_orphans(void *ctx, const struct orphan_row *row)
{
    char *text = ctx;
    sprintf(text + strlen(text), "%d.%d.%d %s %s; ", (int)row->job, (int)row->attempt, (int)row->node,
            row->launcher, row->host);
    return 0;
}

static int last_node(void *ctx, const struct node_row *row)
{
    snprintf(ctx, 64, "%s %lld %lld %s %s", row->name, (long long)row->cpus,
             (long long)row->failures, row->error, row->drained ? row->drained : "-");
    return 0;
}

static void smaller_tables(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    insert(s, 1, "x", "running");
    struct attempt_row a = { .job = 1, .attempt = 2, .nonce = "abc", .node = "n", .run_dir = "/r",
                             .pid = -1, .start_time = -1, .started_ms = 3, .ended_ms = -1 }, b;
    assert_int_equal(attempts_insert(s, &a, &err), 0);
    a.pid = 77, a.start_time = 88, a.incarnation = 1, a.acked = 5;
    snprintf(a.boot_id, sizeof(a.boot_id), "boot");
    assert_int_equal(attempts_update(s, &a, &err), 0);
    assert_int_equal(attempts_get(&b, s, 1, 2, &err), 0);
    assert_string_equal(b.nonce, "abc");
    assert_string_equal(b.boot_id, "boot");
    assert_int_equal(b.pid, 77);
    assert_int_equal(b.start_time, 88);
    assert_int_equal(b.acked, 5);
    assert_int_equal(b.ended_ms, -1);
    assert_int_equal(attempts_get(&b, s, 1, 3, &err), -1);
    err.code = ERR_NONE;

    for (int i = 0; i < 100; i++)
        assert_int_equal(metrics_put(s, 1, "loss", i, 1.0 / (i + 1), &err), 0);
    double out[3] = { 0 };
    assert_int_equal(metrics_each(s, 1, "loss", 10, last_point, out, &err), 0);
    assert_true(out[0] <= 11 && out[0] >= 10);
    assert_int_equal((int)out[1], 99);
    assert_int_equal(metrics_thin(s, 1, "loss", 4, &err), 0);
    int64_t n = 0;
    assert_int_equal(metrics_count(&n, s, 1, "loss", &err), 0);
    assert_int_equal(n, 25);
    assert_int_equal(metrics_cut(s, 1, 50, &err), 0);
    assert_int_equal(metrics_count(&n, s, 1, "loss", &err), 0);
    assert_int_equal(n, 13);

    char text[64] = "";
    struct checkpoint_row c = { .step = 5, .path = "/c/5", .digest = "x", .trust = "written" };
    assert_int_equal(checkpoints_put(s, 1, &c, &err), 0);
    c.step = 9, c.path = "/c/9";
    assert_int_equal(checkpoints_put(s, 1, &c, &err), 0);
    assert_int_equal(checkpoints_distrust(s, 1, "/c/9", &err), 0);
    assert_int_equal(checkpoints_each(s, 1, 5, last_checkpoint, text, &err), 1);
    assert_string_equal(text, "9 /c/9 quarantined");

    struct goodput ran = { 0 }, all;
    for (int i = 0; i < BUCKETS; i++)
        goodput_put(&ran, (enum bucket)i, 1 << i);
    assert_int_equal(goodput_rows_add(s, 1, 1, 1, &ran, &err), 0);
    assert_int_equal(goodput_rows_add(s, 1, 1, 1, &ran, &err), 0);
    assert_int_equal(goodput_rows_add(s, 1, 1, 2, &ran, &err), 0);
    ran.rank_ms--;      /* its buckets do not sum to rank_ms */
    assert_int_equal(goodput_rows_add(s, 1, 1, 2, &ran, &err), -1);
    assert_int_equal(goodput_rows_sum(&all, s, 1, &err), 0);
    assert_int_equal(all.rank_ms, 3 * ((1 << BUCKETS) - 1));
    for (int i = 0; i < BUCKETS; i++)
        assert_int_equal(all.ms[i], 3 << i);

    struct orphan_row orphan = { 1, 2, 0, "ssh", "gpu1" };
    assert_int_equal(orphans_put(s, &orphan, &err), 0);
    orphan.host = "gpu2";       /* the newest row holds */
    assert_int_equal(orphans_put(s, &orphan, &err), 0);
    orphan = (struct orphan_row){ 1, 2, 3, "local", "gpu3" };
    assert_int_equal(orphans_put(s, &orphan, &err), 0);
    text[0] = 0;
    assert_int_equal(orphans_each(s, all_orphans, text, &err), 0);
    assert_string_equal(text, "1.2.0 ssh gpu2; 1.2.3 local gpu3; ");
    assert_int_equal(orphans_remove(s, 1, 2, 0, &err), 0);
    text[0] = 0;
    assert_int_equal(orphans_each(s, all_orphans, text, &err), 0);
    assert_string_equal(text, "1.2.3 local gpu3; ");

    struct node_row node = { .name = "n", .boot_id = "b", .cpus = 2, .facts = "{}" };
    assert_int_equal(nodes_put(s, &node, &err), 0);
    assert_int_equal(nodes_each(s, last_node, text, &err), 0);
    assert_string_equal(text, "n 2 0  -");
    /* facts do not change health, nor health facts */
    node = (struct node_row){ .name = "n", .failures = 3, .error = "gone", .drained = "disk" };
    assert_int_equal(nodes_put_health(s, &node, &err), 0);
    node = (struct node_row){ .name = "n", .boot_id = "c", .cpus = 4, .facts = "{}" };
    assert_int_equal(nodes_put(s, &node, &err), 0);
    assert_int_equal(nodes_each(s, last_node, text, &err), 0);
    assert_string_equal(text, "n 4 3 gone disk");
    assert_int_equal(nodes_remove(s, "n", &err), 0);
    text[0] = 0;
    assert_int_equal(nodes_each(s, last_node, text, &err), 0);
    assert_string_equal(text, "");
    store_close(s);
}

/* Neither a newer one nor one of before: it is refused, and stays as it is. */
static void another_version_is_refused(void **state)
{
    (void)state;
    static const int other[] = { SCHEMA_VERSION + 1, 99, -1 };
    struct err err = { 0 };
    struct store *s = opened();
    insert(s, 1, "theirs", "done");
    store_close(s);
    for (int i = 0; i < 3; i++) {
        char sql[64], said[128];
        s = opened();
        snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", other[i]);
        assert_int_equal(sqlite3_exec(store_handle(s), sql, NULL, NULL, NULL), SQLITE_OK);
        store_close(s);
        err.code = ERR_NONE;
        assert_int_equal(store_open(&s, store_path, &err), -1);
        snprintf(said, sizeof(said), "has version %d, but this jobctl reads version %d only; use the jobctl that wrote it",
                 other[i], SCHEMA_VERSION);
        assert_non_null(strstr(err.text, said));
        sqlite3 *db;
        assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
        snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", SCHEMA_VERSION);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
    }
    s = opened();
    struct job_row row;
    err.code = ERR_NONE;
    assert_int_equal(jobs_get(&row, s, 1, &err), 0);
    assert_string_equal(row.name, "theirs");
    store_close(s);
}

static void fill_and_remove(struct store *s, int jobs)
{
    struct err err = { 0 };
    char spec[4000];
    memset(spec, 'x', sizeof(spec));
    spec[sizeof(spec) - 1] = '\0';
    assert_int_equal(store_begin(s, &err), 0);
    for (int i = 1; i <= jobs; i++) {
        const struct job_row row = some_job(i, "x", "done");
        assert_int_equal(jobs_insert(s, &row, "", spec, &err), 0);
    }
    assert_int_equal(store_commit(s, &err), 0);
    assert_int_equal(sqlite3_exec(store_handle(s), "DELETE FROM specs WHERE job % 4", NULL, NULL, NULL), SQLITE_OK);
}

static void it_shrinks_in_portions(void **state)
{
    (void)state;
    enum { JOBS = 1000, PORTION = 64 };
    struct err err = { 0 };
    bool left = true;
    struct store *s = opened();
    fill_and_remove(s, JOBS);
    const int64_t most = number(s, "PRAGMA page_count");
    int64_t pages = most;
    assert_true(most > JOBS);
    while (left) {
        assert_int_equal(store_shrink(&left, s, PORTION, &err), 0);
        const int64_t now = number(s, "PRAGMA page_count");
        assert_true(now <= pages && pages - now <= PORTION + 2);    /* two pages that tell of others */
        pages = now;
    }
    assert_true(pages < most * 3 / 5);
    assert_true(number(s, "PRAGMA freelist_count") > 0);            /* some are kept for the next rows */
    assert_int_equal(number(s, "SELECT count(*) FROM specs"), JOBS / 4);
    assert_int_equal(integrity_check(store_handle(s), INTEGRITY_FULL, &err), 0);
    store_close(s);
}

static void many_finished_jobs(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    store_begin(s, &err);
    for (int i = 1; i <= 100000; i++)
        insert(s, i, i % 10 ? "a" : "b", i == 500 ? "running" : "done");
    assert_int_equal(store_commit(s, &err), 0);
    char got[64] = "";
    assert_int_equal(jobs_each(s, true, 0, 100, collect, got, &err), 0);
    int64_t id = 0;
    assert_int_equal(jobs_find(&id, s, "b", INT64_MAX, &err), 0);
    assert_string_equal(got, "500 ");
    assert_int_equal(id, 100000);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(job_round_trip),
        STORE_CASE(job_lists),
        STORE_CASE(ids_are_never_reused),
        STORE_CASE(events_come_once),
        STORE_CASE(smaller_tables),
        STORE_CASE(another_version_is_refused),
        STORE_CASE(it_shrinks_in_portions),
        STORE_CASE(many_finished_jobs),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
