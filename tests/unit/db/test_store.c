/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - commits are durable, agent events are stored once, old stores are migrated */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/core/goodput.h"
#include "db/attempts.h"
#include "db/checkpoints.h"
#include "db/events.h"
#include "db/goodput_rows.h"
#include "db/jobs.h"
#include "db/metrics.h"
#include "db/migrate.h"
#include "db/nodes.h"
#include "db/orphans.h"
#include "db/removed.h"
#include "db/stmt.h"
#include "db/store.h"
#include "engine/contract/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256];
static char path[300];

static int setup(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "store");
    snprintf(path, sizeof(path), "%s/jobs.db", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return scratch_dir_remove(dir);
}

static struct store *opened(void)
{
    struct err err = { 0 };
    struct store *s = NULL;
    if (store_open(&s, path, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static struct job_row some_job(int64_t id, const char *name, const char *state)
{
    struct job_row row = { .id = id, .np = -1, .step = -1, .steps = -1, .exit_code = -1,
                           .retry_of = -1, .submitted_ms = 1000 + id, .started_ms = -1,
                           .ended_ms = -1, .loss = NAN, .samples_per_s = NAN };
    snprintf(row.name, sizeof(row.name), "%s", name);
    snprintf(row.state, sizeof(row.state), "%s", state);
    snprintf(row.after, sizeof(row.after), "[]");
    return row;
}

static void insert(struct store *s, int64_t id, const char *name, const char *state)
{
    struct err err = { 0 };
    struct job_row row = some_job(id, name, state);
    if (jobs_insert(s, &row, "name: x", "{}", &err) < 0)
        fail_msg("%s", err.text);
}

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
    assert_int_equal(jobs_find(&id, s, "a", &err), 0);
    assert_int_equal(id, 3);
    assert_int_equal(jobs_find(&id, s, NULL, &err), 0);
    assert_int_equal(id, 4);
    assert_int_equal(jobs_find(&id, s, "z", &err), -1);
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

static void rollback_leaves_nothing(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    assert_int_equal(store_begin(s, &err), 0);
    insert(s, 1, "x", "pending");
    store_rollback(s);
    struct job_row row;
    assert_int_equal(jobs_get(&row, s, 1, &err), -1);
    store_close(s);
}

static bool stored(struct store *s, int64_t id)
{
    struct job_row row;
    return jobs_get(&row, s, id, NULL) == 0;
}

static void write_in_group(struct store *s, int64_t id, bool keep)
{
    struct err err = { 0 };
    assert_int_equal(store_join(s, &err), 0);
    insert(s, id, "x", "pending");
    if (keep)
        assert_int_equal(store_leave(s, &err), 0);
    else
        store_undo(s);
}

/* Three writers, one transaction: one of them takes back what it wrote, and the others are not affected. */
static void a_group(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened(), *other = opened();      /* the other one sees what was committed */
    write_in_group(s, 1, true);
    write_in_group(s, 2, false);
    write_in_group(s, 3, true);
    assert_false(stored(other, 1));
    assert_int_equal(store_commit_group(s, &err), 0);
    assert_true(stored(other, 1));
    assert_false(stored(other, 2));
    assert_true(stored(other, 3));
    assert_int_equal(store_commit_group(s, &err), 0); /* nothing to do */
    store_close(other);
    store_close(s);
}

struct settling {
    struct store *store;
    int           calls;
};

static void settle(void *arg)
{
    struct settling *settling = arg;
    settling->calls++;
    store_commit_group(settling->store, NULL);
}

/* Nobody reads or joins what may still fail: whoever uses the store beside the group settles it first. */
static void a_group_is_settled(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened(), *other = opened();
    struct settling settling = { .store = s };
    store_on_settle(s, settle, &settling);
    write_in_group(s, 1, true);
    assert_int_equal(settling.calls, 0);
    assert_true(stored(s, 1));          /* a reader */
    assert_int_equal(settling.calls, 1);
    assert_true(stored(other, 1));
    write_in_group(s, 2, true);
    insert(s, 3, "x", "pending");       /* a writer by itself */
    assert_int_equal(settling.calls, 2);
    assert_true(stored(other, 2));
    write_in_group(s, 4, true);
    assert_int_equal(store_begin(s, &err), 0);  /* another transaction */
    assert_int_equal(settling.calls, 3);
    assert_true(stored(other, 4));
    store_rollback(s);
    assert_true(stored(s, 4));
    store_close(other);
    store_close(s);
}

/* The process dies between its commits without closing: exactly the committed rows
 * remain. */
static void killed_writer(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err = { 0 };
        struct store *s = NULL;
        if (store_open(&s, path, &err) < 0 || store_begin(s, &err) < 0)
            _exit(1);
        struct job_row row = some_job(1, "kept", "pending");
        if (jobs_insert(s, &row, "", "{}", &err) < 0 || store_commit(s, &err) < 0)
            _exit(1);
        store_begin(s, &err);
        row = some_job(2, "lost", "pending");
        jobs_insert(s, &row, "", "{}", &err);
        _exit(9);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 9);
    struct err err = { 0 };
    struct store *s = opened();
    struct job_row row;
    assert_int_equal(jobs_get(&row, s, 1, &err), 0);
    assert_int_equal(jobs_get(&row, s, 2, &err), -1);
    store_close(s);
}

static void migration(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    insert(s, 1, "old", "done");
    const int now = migrations_count();
    const char *good[16], *bad[16];
    memcpy(good, MIGRATIONS, sizeof(char *) * (size_t)now);
    memcpy(bad, good, sizeof(bad));
    good[now] = "ALTER TABLE jobs ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey'";
    bad[now] = "ALTER TABLE jobs ADD COLUMN colour TEXT; INSERT INTO nowhere VALUES (1)";

    assert_int_equal(migrate_run(store_handle(s), path, bad, now + 1, &err), -1);
    assert_non_null(strstr(err.text, "the store is unchanged"));
    err.code = ERR_NONE;
    assert_int_not_equal(sqlite3_exec(store_handle(s), "SELECT colour FROM jobs", 0, 0, 0),
                         SQLITE_OK);

    assert_int_equal(migrate_run(store_handle(s), path, good, now + 1, &err), 0);
    assert_int_equal(sqlite3_exec(store_handle(s), "SELECT colour FROM jobs", 0, 0, 0), SQLITE_OK);
    /* nothing more to do */
    assert_int_equal(migrate_run(store_handle(s), path, good, now + 1, &err), 0);
    char copy[600];
    snprintf(copy, sizeof(copy), "%s.v%d", path, now);
    struct stat st;
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    store_close(s);

    /* The file has a newer version than this program. */
    assert_int_equal(store_open(&s, path, &err), -1);
    assert_non_null(strstr(err.text, "use the newer jobctl"));

    /* The copy equals the old store. */
    err.code = ERR_NONE;
    assert_int_equal(store_open(&s, copy, &err), 0);
    struct job_row row;
    assert_int_equal(jobs_get(&row, s, 1, &err), 0);
    assert_string_equal(row.name, "old");
    store_close(s);
}

static int64_t number(struct store *s, const char *sql)
{
    sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite3_prepare_v2(store_handle(s), sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
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

/* Also one that was written before a store could: it is rewritten as it is opened, if it is small. */
static void it_shrinks_in_portions(void **state)
{
    (void)state;
    enum { JOBS = 1000, PORTION = 64 };
    struct err err = { 0 };
    bool left = true;
    struct store *s = opened();
    assert_int_equal(sqlite3_exec(store_handle(s), "PRAGMA journal_mode=DELETE; PRAGMA auto_vacuum=NONE; VACUUM; "
                                  "PRAGMA journal_mode=WAL", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(number(s, "PRAGMA auto_vacuum"), 0);
    store_close(s);
    s = opened();
    assert_int_equal(number(s, "PRAGMA auto_vacuum"), 2);
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

static void not_a_store(void **state)
{
    (void)state;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 100; i++)
        fputs("this is not a database at all\n", f);
    fclose(f);
    struct err err = { 0 };
    struct store *s = NULL;
    assert_int_equal(store_open(&s, path, &err), -1);
    assert_non_null(strstr(err.text, "jobs.db is damaged"));
    assert_non_null(strstr(err.text, "jobctl doctor --repair"));
}

static void seen(void *arg, const char *text)
{
    assert_non_null(strstr(text, "is damaged"));
    ++*(int *)arg;
}

/* An index of another table: the full check finds it, and the hook hears of it. */
static void a_damaged_store_is_told(void **state)
{
    (void)state;
    struct err err = { 0 };
    int told = 0;
    struct store *s = opened();
    insert(s, 1, "sana", "done");
    assert_int_equal(sqlite3_exec(store_handle(s), "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage = "
                                  "(SELECT rootpage FROM sqlite_schema WHERE name='attempts_ended') WHERE "
                                  "name='jobs_by_name'", 0, 0, 0), SQLITE_OK);
    store_close(s);
    integrity_hook(seen, &told);
    assert_int_equal(store_open(&s, path, &err), 0);
    store_close(s);
    assert_int_equal(told, 0);
    assert_int_equal(store_open_checked(&s, path, INTEGRITY_FULL, &err), -1);
    assert_non_null(strstr(err.text, "jobctl doctor --repair"));
    assert_int_equal(told, 1);
    integrity_hook(NULL, NULL);
}

/* What is no text is shown as such, and the row is known as damaged. */
static void a_damaged_row_is_told(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    struct job_row row;
    insert(s, 1, "sana", "done");
    insert(s, 2, "s\303\266", "done");
    assert_int_equal(sqlite3_exec(store_handle(s), "UPDATE jobs SET name=x'ff61' WHERE id=1", 0, 0, 0), SQLITE_OK);
    assert_int_equal(jobs_get(&row, s, 1, &err), 0);
    assert_true(row.damaged);
    assert_string_equal(row.name, "?a");
    assert_non_null(strstr(row.reason, "damaged"));
    assert_int_equal(jobs_get(&row, s, 2, &err), 0);
    assert_false(row.damaged);
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
    assert_int_equal(jobs_find(&id, s, "b", &err), 0);
    assert_string_equal(got, "500 ");
    assert_int_equal(id, 100000);
    store_close(s);
}

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

static void jobs_that_mention_others(struct store *s)
{
    assert_int_equal(mentioned_by(s, 1), 2);
    assert_int_equal(mentioned_by(s, 2), 0);    /* its own directory is no mention */
    assert_int_equal(mentioned_by(s, 12), 2);
    assert_int_equal(mentioned_by(s, 123), 0);
}

/* Also where the store is older than the table: migration 0007 looks through all specs. */
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
    jobs_that_mention_others(s);
    assert_int_equal(sqlite3_exec(store_handle(s), "DROP TABLE mentions", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(store_handle(s), MIGRATIONS[6], NULL, NULL, NULL), SQLITE_OK);
    jobs_that_mention_others(s);
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

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_job_goes_with_all_its_rows_and_one_stays), CASE(a_job_that_mentions_a_path_is_found),
        CASE(done_jobs_come_in_pages),
        CASE(job_round_trip),   CASE(job_lists),     CASE(ids_are_never_reused),
        CASE(events_come_once), CASE(smaller_tables), CASE(rollback_leaves_nothing), CASE(a_group), CASE(a_group_is_settled),
        CASE(killed_writer),    CASE(migration),     CASE(not_a_store),
        CASE(a_damaged_store_is_told), CASE(a_damaged_row_is_told),
        CASE(many_finished_jobs), CASE(it_shrinks_in_portions),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
