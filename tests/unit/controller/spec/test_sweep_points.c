/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec/sweep_points.h"
#include "engine/base/err.h"

static json_t *spec_of(const char *more)
{
    char text[2000];
    json_error_t why;
    snprintf(text, sizeof(text), "{\"name\": \"lr\", \"run\": \"x\", \"env\": {\"A\": \"1\"}, \"checkpoint\": {\"dir\": "
             "\"auto\"}%s}", more);
    json_t *spec = json_loads(text, 0, &why);
    if (!spec)
        fail_msg("%s: %s", text, why.text);
    return spec;
}

static void assert_json(json_t *is, const char *text)
{
    json_t *want = json_loads(text, 0, NULL);
    char *shown = json_dumps(is, 0);
    if (!json_equal(is, want))
        fail_msg("%s, not %s", shown, text);
    free(shown);
    json_decref(want);
    json_decref(is);
}

static void the_last_key_varies_fastest(void **state)
{
    (void)state;
    json_t *spec = spec_of(", \"sweep\": {\"a.b\": [1, 2], \"c\": [\"x\", \"y\", \"z\"]}");
    assert_true(sweep_points_is(spec));
    assert_int_equal(sweep_points_count(spec), 6);
    assert_json(sweep_points_at(spec, 0), "{\"a.b\": 1, \"c\": \"x\"}");
    assert_json(sweep_points_at(spec, 2), "{\"a.b\": 1, \"c\": \"z\"}");
    assert_json(sweep_points_at(spec, 3), "{\"a.b\": 2, \"c\": \"x\"}");
    assert_json(sweep_points_at(spec, 5), "{\"a.b\": 2, \"c\": \"z\"}");
    assert_null(sweep_points_at(spec, 6));
    assert_null(sweep_points_at(spec, -1));
    json_decref(spec);
}

static void a_member_is_a_plain_spec(void **state)
{
    (void)state;
    json_t *spec = spec_of(", \"sweep\": [{\"env.B\": \"8\", \"new.deep.key\": [1]}, {\"env.B\": \"16\", "
                           "\"new.deep.key\": null}], \"max_parallel\": 2");
    json_t *before = json_deep_copy(spec);
    assert_json(sweep_points_member(spec, 1), "{\"name\": \"lr[1]\", \"run\": \"x\", \"env\": {\"A\": \"1\", \"B\": "
                "\"16\", \"JOBCTL_ARRAY_INDEX\": \"1\"}, \"checkpoint\": {\"dir\": \"auto\"}, \"new\": {\"deep\": "
                "{\"key\": null}}}");
    assert_true(json_equal(spec, before));
    json_decref(before);
    json_decref(spec);
}

static void an_array_has_indices_only(void **state)
{
    (void)state;
    struct index_list list;
    struct err err = {0};
    json_t *spec = spec_of(", \"array\": \"5-7\", \"env\": null");
    assert_int_equal(sweep_points_indices(&list, spec, &err), 0);
    assert_int_equal(list.count, 3);
    assert_int_equal(sweep_points_count(spec), 0);
    assert_json(sweep_points_at(spec, 6), "{}");
    assert_json(sweep_points_member(spec, 6), "{\"name\": \"lr[6]\", \"run\": \"x\", \"env\": {\"JOBCTL_ARRAY_INDEX\": "
                "\"6\"}, \"checkpoint\": {\"dir\": \"auto\"}}");
    json_decref(spec);
}

static void forms_are_checked_together(void **state)
{
    (void)state;
    static const struct {
        const char *more, *says;    /* NULL: sound */
    } table[] = {
        {"", NULL},
        {", \"array\": \"0-3\"", NULL},
        {", \"array\": \"0,2\", \"sweep\": {\"a\": [1, 2, 3]}", NULL},
        {", \"sweep\": {\"checkpoint.dir\": [\"/a\", \"/b\"]}, \"checkpoint\": {\"dir\": \"/a\"}", NULL},
        {", \"max_parallel\": 2", "max_parallel: needs sweep or array"},
        {", \"sweep\": {}", "sweep: is empty"},
        {", \"sweep\": []", "sweep: is empty"},
        {", \"sweep\": [{}]", "sweep: is empty"},
        {", \"sweep\": [5]", "sweep: is empty"},
        {", \"sweep\": {\"a\": []}", "sweep: a: the list is empty"},
        {", \"sweep\": {\"a\": 5}", "sweep: a: the list is empty"},
        {", \"sweep\": {\"\": [5]}", "is not the path of a key"},
        {", \"sweep\": [{\"a\": 1}, {\"b\": 1}]", "sweep: point 1 has no value for a"},
        {", \"sweep\": [{\"a\": 1}, {\"a\": 1, \"b\": 1}]", "sweep: point 1 has other keys"},
        {", \"array\": \"0-2\", \"sweep\": {\"a\": [1, 2]}", "array: there is no point 2"},
        {", \"array\": \"2-1\"", "array: the range 2-1 runs backwards"},
        {", \"array\": \"0-3%2\", \"max_parallel\": 3", "max_parallel: array has %2"},
        {", \"array\": \"0-3\", \"checkpoint\": {\"dir\": \"/a\"}", "checkpoint.dir: all members would write there"},
        {", \"array\": \"0-3\", \"checkpoint\": {\"mirror\": \"/a\"}", "checkpoint.mirror: all members"},
        {", \"array\": \"0-3\", \"name\": \"a123456789012345678901234567890123456789012345678901234567\"",
         "name: at most 57 characters"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        json_t *spec = spec_of(table[i].more);
        struct err err = {0};
        const int rc = sweep_points_check(spec, &err);
        if (table[i].says ? rc == 0 || !strstr(err.text, table[i].says) : rc < 0)
            fail_msg("%s: %s", table[i].more, err.text);
        json_decref(spec);
    }
}

static void the_number_of_points_is_limited(void **state)
{
    (void)state;
    json_t *spec = spec_of(", \"sweep\": {}"), *values = json_array();
    struct err err = {0};
    for (int i = 0; i < 101; i++)
        json_array_append_new(values, json_integer(i));
    json_object_set(json_object_get(spec, "sweep"), "a", values);
    assert_int_equal(sweep_points_check(spec, &err), 0);
    json_object_set(json_object_get(spec, "sweep"), "b", values);
    assert_int_equal(sweep_points_check(spec, &err), -1);
    assert_non_null(strstr(err.text, "more than 10000 points"));
    json_object_set(json_object_get(spec, "sweep"), "c", values);       /* no overflow */
    for (char key[] = "d"; key[0] <= 'p'; key[0]++)
        json_object_set(json_object_get(spec, "sweep"), key, values);
    assert_int_equal(sweep_points_count(spec), INDEX_COUNT_MAX + 1);
    json_decref(values);
    json_decref(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_key_varies_fastest), cmocka_unit_test(a_member_is_a_plain_spec),
        cmocka_unit_test(an_array_has_indices_only),   cmocka_unit_test(forms_are_checked_together),
        cmocka_unit_test(the_number_of_points_is_limited),
    };
    return cmocka_run_group_tests_name("sweep_points", tests, NULL, NULL);
}
