/* SPDX-License-Identifier: Apache-2.0 */
/* test_slurm_refusal.c - each known Slurm error: is it temporary, and what does the job report */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "controller/remote/slurm_refusal.h"

#if __has_include(<slurm/slurm_errno.h>)
#include <slurm/slurm_errno.h>
#define SAME(number, name) _Static_assert((number) == (name), "this Slurm has another number for " #name)
#else
#define SAME(number, name) _Static_assert(1, "")
#endif

/* Numbers are written out where this is compiled without Slurm. */
SAME(2000, ESLURM_INVALID_PARTITION_NAME);
SAME(2001, ESLURM_DEFAULT_PARTITION_NOT_SET);
SAME(2007, ESLURM_ERROR_ON_DESC_TO_RECORD_COPY);
SAME(2014, ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE);
SAME(2015, ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE);
SAME(2016, ESLURM_NODES_BUSY);
SAME(2018, ESLURM_INVALID_NODE_NAME);
SAME(2029, ESLURM_INVALID_FEATURE);
SAME(2037, ESLURM_DISABLED);
SAME(2044, ESLURM_INVALID_TASK_MEMORY);
SAME(2045, ESLURM_INVALID_ACCOUNT);
SAME(2048, ESLURM_INVALID_LICENSES);
SAME(2050, ESLURM_ACCOUNTING_POLICY);
SAME(2051, ESLURM_INVALID_TIME_LIMIT);
SAME(2053, ESLURM_RESERVATION_INVALID);
SAME(2056, ESLURM_RESERVATION_NOT_USABLE);
SAME(2066, ESLURM_INVALID_QOS);
SAME(2070, ESLURM_PARTITION_NOT_AVAIL);
SAME(2072, ESLURM_INVALID_GRES);
SAME(2090, ESLURM_INTERNAL);
SAME(2101, ESLURM_PARTITION_DOWN);
SAME(2105, ESLURM_SUBMISSIONS_DISABLED);
SAME(2119, ESLURM_INVALID_GRES_TYPE);
SAME(2125, ESLURM_DEFER);
SAME(2134, ESLURM_INSUFFICIENT_GRES);
SAME(8000, ESLURM_MISSING_TIME_LIMIT);

#define ALL "\"partitions\": [\"main\", \"low\", \"high\"], "

static const struct {
    int         number;
    bool        passes;
    const char *spec, *more, *says;
} rows[] = {
    { 2000, false, "{\"slurm\": {\"partition\": \"gpu\"}}", ALL, "slurm.partition: gpu does not exist; partitions: main, low, high" },
    { 2000, false, "{\"slurm\": {\"partition\": \"main,gpu\"}}", ALL, "slurm.partition: gpu does not exist; partitions: main, low, high" },
    { 2000, false, "{\"slurm\": {\"partition\": \"a,b,lo\"}}", ALL, "slurm.partition: a, b, lo do not exist; partitions: main, low, high" },
    { 2000, false, "{\"slurm\": {\"partition\": \"gpu\"}}", "", "slurm.partition: gpu is refused by Slurm: TEXT" },
    { 2001, false, "{}", ALL, "slurm.partition: not set, and this cluster has no default; partitions: main, low, high" },
    { 2003, false, "{\"slurm\": {\"partition\": \"low\"}}", "", "slurm.partition: low is refused by Slurm: TEXT" },
    { 2045, false, "{\"slurm\": {\"account\": \"vision\"}}", "", "slurm.account: vision is refused by Slurm: TEXT" },
    { 2045, false, "{\"slurm\": {}}", "", "Slurm refuses it: TEXT" },
    { 2029, false, "{\"slurm\": {\"extra\": {\"constraint\": \"a100\"}}}", "", "slurm.extra.constraint: a100 is refused by Slurm: TEXT" },
    { 2066, false, "{\"slurm\": {\"extra\": {\"qos\": \"long\"}}}", "", "slurm.extra.qos: long is refused by Slurm: TEXT" },
    { 2053, false, "{\"slurm\": {\"extra\": {\"reservation\": \"r\"}}}", "", "slurm.extra.reservation: r is refused by Slurm: TEXT" },
    { 2048, false, "{\"slurm\": {\"extra\": {\"licenses\": \"foo\"}}}", "", "slurm.extra.licenses: foo is refused by Slurm: TEXT" },
    { 2018, false, "{\"slurm\": {\"extra\": {\"exclude\": \"n7\"}}}", "", "slurm.extra.exclude: n7 is refused by Slurm: TEXT" },
    { 2051, false, "{\"slurm\": {\"time\": 7200.0}}", "", "slurm.time: 7200 s is refused by Slurm: TEXT" },
    { 2072, false, "{\"slurm\": {\"gres\": \"gpu:a100\"}, \"resources\": {\"gpus\": 2}}", "", "slurm.gres: gpu:a100 is refused by Slurm: TEXT" },
    { 2134, false, "{\"resources\": {\"gpus\": 9}}", "", "resources.gpus: 9 is refused by Slurm: TEXT" },
    { 2014, false, "{\"resources\": {\"nodes\": 1, \"gpus\": 3, \"cpus\": \"auto\"}, \"slurm\": {\"extra\": {\"mem\": \"900G\"}}}", "",
      "resources.nodes: 1, resources.gpus: 3, slurm.extra.mem: 900G are refused by Slurm: TEXT" },
    { 8000, false, "{}", "", "Slurm refuses it: TEXT" },
    { 2002, false, "{}", "", "Slurm refuses it: TEXT" },
    { 0, false, "{}", "", "Slurm refuses it: TEXT" },
    { 4999, false, "{}", "", "Slurm refuses it: TEXT" },
    { 2007, true, "{}", "", "Slurm refuses it: TEXT" },
    { 2016, true, "{}", "", "Slurm refuses it: TEXT" },
    { 2037, true, "{}", "", "Slurm refuses it: TEXT" },
    { 2050, true, "{\"slurm\": {\"account\": \"vision\", \"extra\": {\"qos\": \"long\"}}}", "",
      "slurm.account: vision, slurm.extra.qos: long are refused by Slurm: TEXT" },
    { 2056, true, "{}", "", "Slurm refuses it: TEXT" },
    { 2070, true, "{\"slurm\": {\"partition\": \"low\"}}", "", "slurm.partition: low is refused by Slurm: TEXT" },
    { 2101, true, "{\"slurm\": {\"partition\": \"low\"}}", "", "slurm.partition: low is refused by Slurm: TEXT" },
    { 2105, true, "{}", "", "Slurm refuses it: TEXT" },
    { 2125, true, "{}", "", "Slurm refuses it: TEXT" },
};

static void each_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[400];
        json_t *spec = json_loads(rows[i].spec, 0, NULL), *whole = json_sprintf("{%s\"number\": %d, \"error\": \"TEXT\"}",
                                                                                 rows[i].more, rows[i].number);
        json_t *answer = json_loads(json_string_value(whole), 0, NULL);
        assert_non_null(spec);
        assert_non_null(answer);
        slurm_refusal_text(text, sizeof(text), answer, spec);
        assert_string_equal(text, rows[i].says);
        assert_int_equal(slurm_refusal_passes(rows[i].number), rows[i].passes);
        json_decref(answer);
        json_decref(whole);
        json_decref(spec);
    }
}

static void a_long_list_is_cut(void **state)
{
    (void)state;
    char text[400];
    json_t *list = json_array();
    for (int i = 0; i < 200; i++)
        json_array_append_new(list, json_sprintf("partition%d", i));
    json_t *answer = json_pack("{s:i, s:s, s:o}", "number", 2000, "error", "TEXT", "partitions", list);
    json_t *spec = json_pack("{s:{s:s}}", "slurm", "partition", "gpu");
    slurm_refusal_text(text, sizeof(text), answer, spec);
    assert_non_null(strstr(text, "partition0, partition1, "));
    assert_non_null(strstr(text, " more"));
    slurm_refusal_text(text, sizeof(text), NULL, NULL);
    assert_string_equal(text, "Slurm refuses it: ");
    json_decref(answer);
    json_decref(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_named),
        cmocka_unit_test(a_long_list_is_cut),
    };
    return cmocka_run_group_tests_name("slurm_refusal", tests, NULL, NULL);
}
