/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "controller/job/job_list.h"
#include "engine/base/err.h"

static const struct {
    int         id;
    const char *state, *result;
    int         held, priority;
} jobs[] = {
    {1, "done", "failed", 0, 0},   {2, "pending", "", 0, 0},       {3, "running", "", 0, 0},
    {4, "pending", "", 1, 9},      {5, "pending", "", 0, 5},       {6, "done", "succeeded", 0, 0},
    {7, "recovering", "", 0, 0},   {8, "running", "", 0, 0},       {9, "starting", "", 0, 0},
    {10, "stopping", "", 0, 0},    {11, "done", "cancelled", 0, 0}, {12, "pending", "", 0, 0},
    {13, "done", "succeeded", 1, 0},
};

static json_t *rows_of(job_list_words words)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        json_t *row = json_pack("{s:i, s:s, s:o, s:b, s:i}", "id", jobs[i].id, "state", jobs[i].state, "result",
                                jobs[i].result[0] ? json_string(jobs[i].result) : json_null(), "held", jobs[i].held,
                                "priority", jobs[i].priority);
        if (job_list_has(words, row))
            json_array_append(rows, row);
        json_decref(row);
    }
    return rows;
}

/* The ids of what a filter lets pass, sorted. */
static void ids_of(char *out, size_t size, const char *filter)
{
    job_list_words words;
    struct err err = {0};
    size_t at = 0;
    assert_int_equal(job_list_parse(&words, filter, &err), 0);
    json_t *rows = rows_of(words);
    job_list_sort(rows);
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(rows); i++)
        at += (size_t)snprintf(out + at, size - at, "%lld ",
                               (long long)json_integer_value(json_object_get(json_array_get(rows, i), "id")));
    json_decref(rows);
}

static void states_are_filtered_and_ordered(void **state)
{
    (void)state;
    static const struct { const char *filter, *ids; } table[] = {
        {"active,done", "8 3 7 10 9 5 2 12 4 13 11 6 1 "},
        {"active", "8 3 7 10 9 5 2 12 4 "},
        {"done", "13 11 6 1 "},
        {"failed,running", "8 3 1 "},
        {"pending", "5 2 12 "},
        {"held", "4 "},
        {"cancelled,succeeded", "13 11 6 "},
        {"starting,stopping,recovering", "7 10 9 "},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char ids[128];
        ids_of(ids, sizeof(ids), table[i].filter);
        assert_string_equal(ids, table[i].ids);
    }
}

static void unknown_states_are_refused(void **state)
{
    (void)state;
    static const struct { const char *filter, *text; } table[] = {
        {"runing", "unknown state \"runing\"; states: running, "},
        {"", "unknown state \"\"; states: "},
        {"failed,", "unknown state \"\"; states: "},
        {"failed, running", "unknown state \" running\"; "},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        job_list_words words;
        struct err err = {0};
        assert_int_equal(job_list_parse(&words, table[i].filter, &err), -1);
        assert_int_equal(err.code, ERR_USAGE);
        assert_memory_equal(err.text, table[i].text, strlen(table[i].text));
    }
}

static void totals_are_told_by_state(void **state)
{
    (void)state;
    char text[200];
    json_t *rows = rows_of(JOB_LIST_ACTIVE | JOB_LIST_DONE), *none = json_array(), *one = rows_of(1u << 5);
    job_list_totals(text, sizeof(text), rows);
    assert_string_equal(text, "13 jobs: 2 running, 1 recovering, 1 stopping, 1 starting, 3 pending, 1 held, 2 succeeded, "
                              "1 failed, 1 cancelled");
    job_list_totals(text, sizeof(text), one);
    assert_string_equal(text, "1 job: 1 held");
    job_list_totals(text, sizeof(text), none);
    assert_string_equal(text, "");
    job_list_totals(text, 10, rows);
    assert_string_equal(text, "13 jobs: ");
    json_decref(rows);
    json_decref(none);
    json_decref(one);
}

/* As the daemon does it, from its jobs in memory. */
static void items_are_sorted_and_counted(void **state)
{
    (void)state;
    const int pending = job_list_word("pending", false, ""), held = job_list_word("pending", true, ""),
              runs = job_list_word("running", true, "");
    struct job_list_item items[] = {{held, 9, 1, NULL},    {pending, 0, 2, NULL}, {runs, 0, 3, NULL},
                                    {pending, 5, 4, NULL}, {pending, 0, 5, NULL}, {runs, 0, 6, NULL}};
    static const int64_t order[] = {6, 3, 4, 2, 5, 1};
    char text[200];
    size_t total = 0;
    job_list_order(items, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(items[i].id, order[i]);
    struct job_list_item two[] = {{pending, 0, 7, NULL}, {runs, 0, 8, NULL}};
    job_list_order(two, 2);
    assert_int_equal(two[0].id, 8);
    json_t *counts = job_list_count(items, 6);
    job_list_totals_of(text, sizeof(text), counts, &total);
    assert_string_equal(text, "6 jobs: 2 running, 3 pending, 1 held");
    assert_int_equal(total, 6);
    json_decref(counts);
    job_list_totals_of(text, sizeof(text), NULL, &total);
    assert_string_equal(text, "");
    assert_int_equal(total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_filtered_and_ordered),
        cmocka_unit_test(unknown_states_are_refused),
        cmocka_unit_test(totals_are_told_by_state),
        cmocka_unit_test(items_are_sorted_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
