/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_nodes.c - rows about several nodes, from what each has answered */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/doctor/doctor_nodes.h"

#define FACTS "\"facts\":{\"hostname\":\"h\",\"cpus\":2,\"arch\":\"x86_64\",\"net\":[],"                \
              "\"routes\":[{\"to\":\"10.0.0.0/8\",\"interface\":\"ib0\",\"metric\":0}]}"
#define V(agent, train) "\"versions\":{\"jobctl-agent\":\"" agent "\",\"jobctl-train\":\"" train "\"}"
#define LOOK(more) "\"look\":{" FACTS "," more "}"
#define NODE(name, more) "{\"node\":\"" name "\"," more "}"
#define GOOD LOOK(V("1", "1"))
#define TWO "{\"run\":\"x\",\"resources\":{\"nodes\":2,\"gpus\":0}}"
#define ONE "{\"run\":\"x\",\"resources\":{\"nodes\":1,\"gpus\":0}}"

/* One row each: the nodes, the spec; a row of the answer, NULL in status: there is no such row. */
static const struct {
    const char *nodes, *spec, *node, *check, *status, *seen;
} cases[] = {
    {NODE("a", "\"error\":\"a cannot be reached\""), TWO, "a", "reachable", "fail", "a cannot be reached"},
    {NODE("a", "\"look\":{\"error\":\"no memory\"}"), TWO, "a", "reachable", "fail", "no memory"},
    {NODE("a", GOOD) "," NODE("b", GOOD), TWO, "all", "versions", "ok", "all nodes have 1"},
    {NODE("a", GOOD) "," NODE("b", LOOK(V("1", "2"))), TWO, "all", "versions", "fail",
     "jobctl-train is 1 on a but 2 on b"},
    {NODE("a", GOOD) "," NODE("b", GOOD), TWO, "all", "plan", "ok", "2 ranks: on each of 2 nodes"},
    {NODE("a", GOOD) "," NODE("b", GOOD), ONE, "all", "plan", NULL, NULL},
    {NODE("a", "\"ahead_ms\":100.0,\"within_ms\":5.0," GOOD) ","
     NODE("b", "\"ahead_ms\":-2900.0,\"within_ms\":9.0," GOOD), TWO, "all", "clocks", "warn",
     "a is 3.0 s ahead of b (to within 18 ms)"},
    {NODE("a", "\"ahead_ms\":100.0,\"within_ms\":5.0," GOOD) ","
     NODE("b", "\"ahead_ms\":90.0,\"within_ms\":9.0," GOOD), TWO, "all", "clocks", "ok",
     "at most 28 ms apart"},
    {NODE("a", "\"ahead_ms\":2000.0,\"within_ms\":800.0," GOOD) ","
     NODE("b", "\"ahead_ms\":0.0,\"within_ms\":9.0," GOOD), TWO, "all", "clocks", "ok", "apart"},
    {NODE("a", "\"reached\":[{\"host\":\"b\",\"address\":\"10.0.0.2\",\"ms\":0.5}]," GOOD) ","
     NODE("b", "\"reached\":[{\"host\":\"a\",\"error\":\"10.0.0.1, port 5: refused\"}]," GOOD), TWO, "a",
     "routes", "ok", "1 other node answers over ib0 within 0.5 ms"},
    {NODE("a", "\"reached\":[{\"host\":\"b\",\"address\":\"10.0.0.2\",\"ms\":0.5}]," GOOD) ","
     NODE("b", "\"reached\":[{\"host\":\"a\",\"error\":\"10.0.0.1, port 5: refused\"}]," GOOD), TWO, "b",
     "route to a", "fail", "no connection to a: 10.0.0.1, port 5: refused"},
    {NODE("a", "\"left\":{\"path\":\"/c/x\"},\"found\":{}," GOOD) "," NODE("b", "\"found\":{}," GOOD), ONE,
     "all", "checkpoint.dir", "ok", "shared: all nodes see what a writes"},
    {NODE("a", "\"left\":{\"path\":\"/c/x\"},\"found\":{}," GOOD) ","
     NODE("b", "\"found\":{\"error\":\"it is not here\"}," GOOD), ONE, "all", "checkpoint.dir", "fail",
     "b: it is not here"},
    {NODE("a", "\"left\":{\"error\":\"cannot write\"}," GOOD) "," NODE("b", GOOD), ONE, "all",
     "checkpoint.dir", "fail", "a: cannot write"},
    {NODE("a", LOOK(V("1", "1") ",\"train\":{\"data_digest\":\"xxh3:1\"}")) ","
     NODE("b", LOOK(V("1", "1") ",\"train\":{\"data_digest\":\"xxh3:2\"}")), ONE, "all", "files", "fail",
     "the data digest is xxh3:1 on a but xxh3:2 on b"},
    {NODE("a", LOOK(V("1", "1") ",\"train\":{\"data_digest\":\"xxh3:1\"}")) ","
     NODE("b", LOOK(V("1", "1") ",\"train\":{\"data_digest\":\"xxh3:1\"}")), ONE, "all", "files", "ok",
     "all nodes read the same data, digest xxh3:1"},
    {NODE("a", LOOK(V("1", "1") ",\"consistency\":{\"data\":{\"path\":\"/d\",\"files\":2,\"bytes\":9,"
                    "\"digest\":\"x\"}}")) ","
     NODE("b", LOOK(V("1", "1") ",\"consistency\":{\"data\":{\"path\":\"/d\",\"files\":1,\"bytes\":9,"
                    "\"digest\":\"y\"}}")), ONE, "all", "files", "fail", "a has 2 files of 9 bytes, b has 1 file"},
    {NODE("a", LOOK(V("1", "1") ",\"rows\":[{\"check\":\"disk\",\"status\":\"warn\",\"seen\":\"1 GiB\"}]")),
     TWO, "a", "disk", "warn", "1 GiB"},
};

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void rows_name_the_node_and_what_differs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *list = json_sprintf("[%s]", cases[i].nodes), *row;
        json_t *nodes = json_loads(json_string_value(list), 0, NULL);
        json_t *spec = json_loads(cases[i].spec, 0, NULL);
        assert_true(nodes && spec);
        json_t *answer = doctor_nodes_check(nodes, spec);
        const char *status = NULL, *seen = "";
        int fails = 0;
        size_t k;
        json_array_foreach(json_object_get(answer, "rows"), k, row)
        {
            fails += strcmp(text_of(row, "status"), "fail") == 0;
            if (strcmp(text_of(row, "check"), cases[i].check) == 0 &&
                strcmp(text_of(row, "node"), cases[i].node) == 0) {
                status = text_of(row, "status");
                seen = text_of(row, "seen");
            }
        }
        if (cases[i].status ? !status || strcmp(status, cases[i].status) != 0 ||
                                  !strstr(seen, cases[i].seen)
                            : status != NULL)
            fail_msg("case %zu, %s: %s, %s", i, cases[i].check, status ? status : "no row", seen);
        assert_int_equal(json_integer_value(json_object_get(answer, "fail")), fails);
        json_decref(answer);
        json_decref(nodes);
        json_decref(list);
        json_decref(spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_name_the_node_and_what_differs)};
    return cmocka_run_group_tests_name("doctor_nodes", tests, NULL, NULL);
}
