/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec/spec_keys.h"

static const struct {
    const char *a, *b, *keys;
} rows[] = {
    {"{'a':1}", "{'a':2}", "['a']"},
    {"{'a':1}", "{'a':1}", "[]"},
    {"{'m':{'x':1,'dir':'/own'}}", "{'m':{'x':2,'dir':'/own'}}", "['m.x']"},
    {"{'run':'a','n':1}", "{'train':{'s':1},'n':1}", "['run','train']"},
    {"{'env':{'A':'1','B':'2'}}", "{'env':{'B':'2'}}", "['env.A']"},
    {"{'checkpoint':{'origin':'f','lineage':['e'],'dir':'/a'}}", "{'checkpoint':{'dir':'/b'}}", "['checkpoint.dir']"},
    {"{'a':{'b':1}}", "{'a':[1]}", "['a']"},
    {"{'a':null}", "{'a':3}", "['a']"},
};

static json_t *json_of(const char *text)
{
    char *copy = strdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    json_t *out = json_loads(copy, 0, NULL);
    assert_non_null(out);
    free(copy);
    return out;
}

static void keys_are_paths(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *a = json_of(rows[i].a), *b = json_of(rows[i].b), *want = json_of(rows[i].keys);
        json_t *keys = spec_keys_differ(a, b);
        if (!json_equal(keys, want))
            fail_msg("row %zu: %s", i, json_dumps(keys, 0));
        json_decref(a);
        json_decref(b);
        json_decref(want);
        json_decref(keys);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
