/* SPDX-License-Identifier: Apache-2.0 */
/* test_packed_events.c - packed events read back as they were, and a damaged one is named */
#include <stdlib.h>
#include <unistd.h>

#include "db/events.h"
#include "db/packed_events.h"
#include "db/rebuild.h"
#include "db/removed.h"
#include "tests/unit/db/store_fixture.h"

enum { MANY = 2 * PACKED_EVENTS_CHUNK + 7, WORK = 1 << 20 };

/* Events of all shapes: of an agent and ours, with texts that JSON escapes, and numbers that it could change. */
static void add_event(struct store *s, int64_t job, int64_t seq)
{
    static const char *const bodies[] = {
        "{}", "{\"text\":\"a \\\"word\\\", a \\\\ and \\u00e9\\n\"}", "{\"loss\":0.1,\"big\":9223372036854775807,\"e\":1e-09}",
        "{\"zero\":-0.0,\"twice\":1,\"twice\":2,\"list\":[1.0,null,[true,{}]]}", "{\"euro\":\"\xe2\x82\xac\",\"slash\":\"\\/\"}",
    };
    struct err err = { 0 };
    const int agent = seq % 3 == 0;
    const struct event_row e = { .job = job, .seq = seq, .at_ms = 1790000000000 + seq,
                                 .kind = agent ? "step" : "placed", .source = agent ? "agent" : "controller",
                                 .attempt = seq / 100, .node = agent ? "n \"1\"" : NULL, .incarnation = agent ? 2 : -1,
                                 .agent_seq = agent ? seq : -1, .body = bodies[seq % 5] };
    assert_int_equal(events_append(s, &e, &err), 0);
}

static void add_job(struct store *s, int64_t id, const char *state, int events)
{
    struct err err = { 0 };
    struct job_row row = { .id = id, .name = "x", .after = "[]", .submitted_ms = 1, .ended_ms = id * 10,
                           .last_seq = events };
    snprintf(row.state, sizeof(row.state), "%s", state);
    assert_int_equal(jobs_insert(s, &row, "", "{}", &err), 0);
    for (int i = 1; i <= events; i++)
        add_event(s, id, i);
}

static int write_row(void *ctx, const struct event_row *e)
{
    fprintf(ctx, "%lld %lld %lld %s %s %lld %s %lld %lld %s\n", (long long)e->job, (long long)e->seq,
            (long long)e->at_ms, e->source, e->kind, (long long)e->attempt, e->node ? e->node : "(none)",
            (long long)e->incarnation, (long long)e->agent_seq, e->body);
    return 0;
}

/* The caller frees it. */
static char *rows(struct store *s, int64_t job, int64_t after, int64_t limit)
{
    struct err err = { 0 };
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_int_equal(events_each(s, job, after, limit, write_row, f, &err), 0);
    fclose(f);
    return text;
}

static void pack(struct store *s, int64_t before)
{
    struct err err = { 0 };
    bool left = true;
    while (left)
        assert_int_equal(packed_events_some(&left, s, before, WORK, &err), 0);
}

static void the_rows_are_the_same(void **state)
{
    (void)state;
    static const int64_t from[][2] = { { 0, INT64_MAX }, { 0, 1 }, { 3, 300 }, { 255, 2 }, { 256, 1 }, { MANY - 1, 9 },
                                       { MANY, 9 }, { 100, MANY } };
    enum { CASES = sizeof(from) / sizeof(from[0]) };
    struct store *s = opened();
    char *before[CASES], *after;
    add_job(s, 1, "done", MANY);
    for (int i = 0; i < CASES; i++)
        before[i] = rows(s, 1, from[i][0], from[i][1]);
    pack(s, 1000);
    assert_int_equal(number(s, "SELECT count(*) FROM events"), 0);
    assert_int_equal(number(s, "SELECT count(*) FROM packed_events"), 3);
    assert_int_equal(number(s, "SELECT packed FROM jobs"), 1);
    for (int i = 0; i < CASES; i++) {
        after = rows(s, 1, from[i][0], from[i][1]);
        assert_string_equal(before[i], after);
        free(before[i]);
        free(after);
    }
    assert_true(rebuild_intact(s, 1, MANY));
    assert_false(rebuild_intact(s, 1, MANY + 1));
    store_close(s);
}

/* The contract of events_append(), also where the job has an event behind the packed ones. */
static void an_event_is_stored_once(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    add_job(s, 1, "done", 4);
    pack(s, 1000);
    const struct event_row again = { .job = 1, .seq = 4, .source = "controller", .kind = "done", .agent_seq = -1,
                                     .incarnation = -1, .body = "{}" };
    assert_int_equal(events_append(s, &again, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    add_event(s, 1, 5);
    add_event(s, 1, 6);
    char *text = rows(s, 1, 3, 2);
    assert_non_null(strstr(text, "1 4 1790000000004"));
    assert_non_null(strstr(text, "1 5 1790000000005"));
    assert_null(strstr(text, "1 6 "));
    free(text);
    store_close(s);
}

static void open_and_fresh_jobs_stay(void **state)
{
    (void)state;
    struct store *s = opened();
    add_job(s, 1, "running", 3);
    add_job(s, 2, "done", 3);
    add_job(s, 3, "done", 3);
    pack(s, 30);                /* job 2 has ended before */
    assert_int_equal(number(s, "SELECT sum(job * 10 + packed) FROM (SELECT DISTINCT job, 0 AS packed FROM events)"), 40);
    assert_int_equal(number(s, "SELECT job FROM packed_events"), 2);
    store_close(s);
}

/* A call does little, however many jobs there are, and however long one of them is. */
static void in_portions(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    bool left = false;
    add_job(s, 1, "done", MANY);
    add_job(s, 2, "done", 1);
    assert_int_equal(packed_events_some(&left, s, 1000, 1, &err), 0);
    assert_true(left);
    assert_int_equal(number(s, "SELECT count(*) FROM events WHERE job = 1"), MANY - PACKED_EVENTS_CHUNK);
    char *text = rows(s, 1, 0, MANY);
    assert_non_null(strstr(text, "\n1 519 "));
    free(text);
    int calls = 1;
    for (; left; calls++)
        assert_int_equal(packed_events_some(&left, s, 1000, 1, &err), 0);
    assert_int_equal(calls, 5);
    assert_int_equal(number(s, "SELECT count(*) FROM events"), 0);
    store_close(s);
}

static void what_cannot_be_packed_stays(void **state)
{
    (void)state;
    static const char *const bodies[] = { "{\"torn", "{ \"spaces\" : 1 }", "\"word\"" };
    struct store *s = opened();
    for (int i = 0; i < 3; i++) {
        char sql[200];
        add_job(s, i + 1, "done", 4);
        snprintf(sql, sizeof(sql), "UPDATE events SET body = '%s' WHERE job = %d AND seq = 2", bodies[i], i + 1);
        run(s, sql);
    }
    add_job(s, 4, "done", 4);
    pack(s, 1000);
    assert_int_equal(number(s, "SELECT count(*) FROM events"), 12);
    assert_int_equal(number(s, "SELECT job FROM packed_events"), 4);
    assert_int_equal(number(s, "SELECT count(*) FROM jobs WHERE packed = 2"), 3);
    char *text = rows(s, 1, 0, 9);
    assert_non_null(strstr(text, "{\"torn\n"));
    free(text);
    store_close(s);
}

/* Each byte of a packed row in turn: it is named, or harmless. */
static void a_flipped_byte_is_named(void **state)
{
    (void)state;
    struct store *s = opened();
    add_job(s, 1, "done", 9);
    char *whole = rows(s, 1, 0, 99), *text = NULL;
    pack(s, 1000);
    const int64_t size = number(s, "SELECT length(rows) FROM packed_events");
    run(s, "CREATE TEMP TABLE sound AS SELECT rows FROM packed_events");
    int64_t named = 0;
    for (int64_t i = 0; i < size; i++) {
        char sql[300];
        size_t length = 0;
        struct err err = { 0 };
        FILE *f = open_memstream(&text, &length);
        snprintf(sql, sizeof(sql), "UPDATE packed_events SET rows = (SELECT CAST(substr(rows, 1, %lld) || x'5a' || "
                 "substr(rows, %lld) AS BLOB) FROM sound)", (long long)i, (long long)i + 2);
        run(s, sql);
        if (events_each(s, 1, 0, 99, write_row, f, &err) < 0) {
            named++;
            assert_int_equal(err.code, ERR_SYSTEM);
            assert_non_null(strstr(err.text, "the packed events of job 1 in the store are damaged ("));
            assert_non_null(strstr(err.text, "jobctl doctor --repair"));
            assert_false(rebuild_intact(s, 1, 9));
        }
        fclose(f);
        if (!err.text[0])
            assert_string_equal(text, whole);
        free(text);
    }
    assert_true(named >= size - 3);         /* a byte may have had this value */
    free(whole);
    store_close(s);
}

static void a_removed_job_leaves_nothing(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct store *s = opened();
    add_job(s, 1, "done", 9);
    add_job(s, 2, "done", 9);
    pack(s, 1000);
    const struct removed_row row = { .job = 1, .name = "x" };
    assert_int_equal(removed_put(s, &row, &err), 0);
    assert_int_equal(rebuild_drop(s, 2, &err), 0);
    assert_int_equal(number(s, "SELECT count(*) FROM packed_events"), 0);
    store_close(s);
}

static void another_store_takes_them(void **state)
{
    (void)state;
    struct err err = { 0 };
    char copy[400];
    int64_t taken = 0;
    struct store *s = opened();
    add_job(s, 1, "done", 9);
    char *whole = rows(s, 1, 0, 99);
    pack(s, 1000);
    store_close(s);
    snprintf(copy, sizeof(copy), "%s.copy", store_path);
    assert_int_equal(rebuild_copy(store_path, copy, &err), 0);
    unlink(store_path);
    s = opened();
    assert_int_equal(rebuild_take(&taken, s, copy, &err), 0);
    assert_int_equal(taken, 1);
    char *text = rows(s, 1, 0, 99);
    assert_string_equal(text, whole);
    free(text);
    free(whole);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASE(the_rows_are_the_same),
        STORE_CASE(an_event_is_stored_once),
        STORE_CASE(open_and_fresh_jobs_stay),
        STORE_CASE(in_portions),
        STORE_CASE(what_cannot_be_packed_stays),
        STORE_CASE(a_flipped_byte_is_named),
        STORE_CASE(a_removed_job_leaves_nothing),
        STORE_CASE(another_store_takes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
