/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec/spec_merge.h"

static const struct {
    const char *stored, *was, *now, *out, *keys;
} rows[] = {
    {"{'a':1}", "{'a':1}", "{'a':2}", "{'a':2}", "['a']"},
    {"{'after':[7]}", "{'after':['prep']}", "{'after':['prep']}", "{'after':[7]}", "[]"},
    {"{'after':[7]}", "{'after':['prep']}", "{'after':[]}", "{'after':[]}", "['after']"},
    {"{'m':{'x':1,'dir':'/own'}}", "{'m':{'x':1,'dir':'auto'}}", "{'m':{'x':2,'dir':'auto'}}",
     "{'m':{'x':2,'dir':'/own'}}", "['m.x']"},
    {"{'run':'a','n':1}", "{'run':'a','n':1}", "{'train':{'s':1},'n':1}", "{'train':{'s':1},'n':1}", "['run','train']"},
    {"{'env':{'A':'1','B':'2'}}", "{'env':{'A':'1','B':'2'}}", "{'env':{'B':'2'}}", "{'env':{'B':'2'}}", "['env.A']"},
    {"{'later':1,'a':1}", "{'a':1}", "{'a':1}", "{'a':1,'later':1}", "[]"},
    {"{'checkpoint':{'origin':'f','lineage':['e'],'dir':'/a'}}", "{'checkpoint':{'origin':'f','dir':'/a'}}",
     "{'checkpoint':{'dir':'/b'}}", "{'checkpoint':{'origin':'f','lineage':['e'],'dir':'/b'}}", "['checkpoint.dir']"},
    {"{'a':{'b':1}}", "{'a':{'b':1}}", "{'a':[1]}", "{'a':[1]}", "['a']"},
    {"{'a':null}", "{'a':null}", "{'a':3}", "{'a':3}", "['a']"},
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

static void only_what_differs_is_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *stored = json_of(rows[i].stored), *was = json_of(rows[i].was), *now = json_of(rows[i].now);
        json_t *want = json_of(rows[i].out), *keys = json_of(rows[i].keys);
        json_t *out = spec_merge(stored, was, now), *differ = spec_merge_keys(stored, out);
        json_t *before = json_of(rows[i].stored);
        if (!json_equal(out, want) || !json_equal(differ, keys))
            fail_msg("row %zu: %s %s", i, json_dumps(out, 0), json_dumps(differ, 0));
        assert_true(json_equal(stored, before));
        json_t *const all[] = {stored, was, now, want, keys, out, differ, before};
        for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
            json_decref(all[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_differs_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
