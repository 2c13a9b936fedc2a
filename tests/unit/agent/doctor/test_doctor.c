/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor.c - the doctor's rows for various findings, and the route to an address */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/doctor/doctor.h"
#include "agent/probe/route.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define ROUTES                                                                                     \
    "\"routes\":[{\"to\":\"0.0.0.0/0\",\"interface\":\"eth0\",\"metric\":100},"                     \
    "{\"to\":\"0.0.0.0/0\",\"interface\":\"wlan0\",\"metric\":600},"                                \
    "{\"to\":\"10.0.0.0/8\",\"interface\":\"ib0\",\"metric\":0},"                                    \
    "{\"to\":\"10.7.0.0/16\",\"interface\":\"tun0\",\"metric\":50},"                                 \
    "{\"to\":\"10.7.9.1/32\",\"interface\":\"lo9\",\"metric\":0}]"

static void the_narrowest_route_counts(void **state)
{
    static const struct {
        const char *address, *interface;
    } rows[] = {
        {"8.8.8.8", "eth0"}, {"10.1.2.3", "ib0"},   {"10.7.1.1", "tun0"}, {"10.7.9.1", "lo9"},
        {"11.0.0.1", "eth0"}, {"10.255.255.255", "ib0"},
    };
    (void)state;
    json_t *facts = json_loads("{" ROUTES "}", 0, NULL), *none = json_loads("{\"routes\":[]}", 0, NULL);
    assert_non_null(facts);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(route_interface(facts, rows[i].address), rows[i].interface);
    assert_null(route_interface(facts, "fe80::1"));
    assert_null(route_interface(facts, "gpu7"));
    assert_null(route_interface(facts, NULL));
    assert_null(route_interface(none, "8.8.8.8"));
    json_decref(facts);
    json_decref(none);
}

/* One row each: facts, spec, what was looked at; the row, its status, words of it (NULL: no row). */
static const struct {
    const char *facts, *spec, *looked, *check, *status, *seen;
} cases[] = {
    {"{\"session\":{\"limit_s\":7200,\"age_s\":3600,\"ends_at_s\":null}}",
     "{\"train\":{\"steps\":10000}}", "{\"step_ms\":1000,\"last_step\":1000}", "time", "warn",
     "9000 steps of 1000 ms take 2.5 h, but the machine has 1.0 h left"},
    {"{\"session\":{\"limit_s\":7200,\"age_s\":3600,\"ends_at_s\":null}}",
     "{\"train\":{\"steps\":2000}}", "{\"step_ms\":1000,\"last_step\":1000}", "time", "ok", "0.3 h"},
    {"{\"session\":{\"limit_s\":null,\"age_s\":null,\"ends_at_s\":1800}}",
     "{\"train\":{\"steps\":2000}}", "{\"step_ms\":1000,\"last_step\":0,\"now_s\":900}", "time", "warn",
     "the machine has 0.2 h left"},
    {"{\"session\":{\"limit_s\":7200,\"age_s\":3600,\"ends_at_s\":null}}",
     "{\"max_duration\":7200,\"train\":{\"steps\":2000}}", "{\"step_ms\":0,\"last_step\":0}", "time",
     "warn", "max_duration is 2.0 h"},
    {"{\"session\":null}", "{\"train\":{\"steps\":2000}}", "{\"step_ms\":1000,\"last_step\":0}", "time",
     NULL, NULL},
    {"{" ROUTES "}", "{\"run\":\"x\"}",
     "{\"peers\":[{\"host\":\"gpu2\",\"address\":\"10.1.2.3\"}]}", "route to gpu2", "ok",
     "10.1.2.3 over ib0"},
    {"{\"routes\":[]}", "{\"run\":\"x\"}",
     "{\"peers\":[{\"host\":\"gpu2\",\"address\":\"10.1.2.3\"}]}", "route to gpu2", "fail",
     "no interface reaches 10.1.2.3"},
    {"{" ROUTES "}", "{\"run\":\"x\"}", "{\"peers\":[{\"host\":\"gpu2\",\"address\":null}]}",
     "route to gpu2", "unknown", "does not resolve on this machine"},
    {"{\"cpus\":8,\"gpus\":[{\"index\":0,\"uuid\":\"GPU-a\",\"name\":\"H\",\"healthy\":true}],"
     "\"net\":[{\"name\":\"eth0\",\"up\":true,\"default_route\":true}]," ROUTES "}",
     "{\"run\":\"x\",\"resources\":{\"nodes\":2}}",
     "{\"peers\":[{\"host\":\"gpu2\",\"address\":\"10.1.2.3\"}]}", "route to gpu2", "warn",
     "10.1.2.3 is reached over ib0, but NCCL uses eth0"},
    {"{}", "{\"train\":{\"steps\":2}}",
     "{\"train\":{\"samples\":24,\"steps\":2,\"data_digest\":\"xxh3:00ff\"}}", "data", "ok",
     "24 samples, 2 steps, xxh3:00ff"},
    {"{\"pairs\":[{\"a\":0,\"b\":1,\"sum\":\"hangs\",\"sum_needs\":\"NCCL_P2P_DISABLE=1\"}]}", NULL,
     "{}", "GPU sums", "fail", "GPU 0 and GPU 1: hangs; ok with NCCL_P2P_DISABLE=1"},
    {"{\"pairs\":[{\"a\":0,\"b\":1,\"sum\":\"ok\"}]}", NULL, "{}", "GPU sums", "ok", "NCCL sums are correct"},
};

static void rows_say_what_was_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *facts = json_loads(cases[i].facts, 0, NULL), *looked = json_loads(cases[i].looked, 0, NULL);
        json_t *spec = cases[i].spec ? json_loads(cases[i].spec, 0, NULL) : NULL;
        assert_true(facts && looked && (spec || !cases[i].spec));
        json_t *answer = doctor_check(facts, spec, looked), *row;
        const char *status = NULL, *seen = "";
        size_t k;
        json_array_foreach(json_object_get(answer, "rows"), k, row)
        {
            if (strcmp(json_string_value(json_object_get(row, "check")), cases[i].check) == 0) {
                status = json_string_value(json_object_get(row, "status"));
                seen = json_string_value(json_object_get(row, "seen"));
            }
        }
        if (cases[i].status ? !status || strcmp(status, cases[i].status) != 0 ||
                                  !strstr(seen, cases[i].seen)
                            : status != NULL)
            fail_msg("case %zu, %s: %s, %s", i, cases[i].check, status ? status : "no row", seen);
        json_decref(answer);
        json_decref(facts);
        json_decref(looked);
        json_decref(spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_narrowest_route_counts),
        cmocka_unit_test(rows_say_what_was_found),
    };
    return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
