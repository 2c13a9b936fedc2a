/* SPDX-License-Identifier: Apache-2.0 */
/* test_body_check.c - fields of a request's body: known, of their type, none missing */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/http/body_check.h"
#include "engine/base/err.h"

static void each_type_is_checked(void **state)
{
    (void)state;
    static const char fields[] = "name:s! on:b n:i list:l any:o map:m";
    static const struct { const char *body, *error; } table[] = {
        { "{\"name\":\"x\"}", "" },
        { "{\"name\":\"x\",\"on\":false,\"n\":-1,\"list\":[],\"any\":{\"a\":1},\"map\":{}}", "" },
        { "{\"name\":\"x\",\"list\":[\"a\",\"b\"],\"map\":{\"a\":\"b\",\"c\":\"d\"}}", "" },
        { "{}", "the body lacks 'name'" },
        { "{\"name\":null}", "'name' in the body is not a text" },
        { "{\"name\":\"x\",\"on\":0}", "'on' in the body is not true or false" },
        { "{\"name\":\"x\",\"n\":1.5}", "'n' in the body is not a whole number" },
        { "{\"name\":\"x\",\"list\":{}}", "'list' in the body is not a list of texts" },
        { "{\"name\":\"x\",\"list\":[\"a\",1]}", "'list' in the body is not a list of texts" },
        { "{\"name\":\"x\",\"any\":[]}", "'any' in the body is not an object" },
        { "{\"name\":\"x\",\"map\":[\"a\"]}", "'map' in the body is not a map of texts" },
        { "{\"name\":\"x\",\"map\":{\"a\":\"b\",\"c\":2}}", "'map' in the body is not a map of texts" },
        { "{\"name\":\"x\",\"nam\":1}", "the body has a field that is not one of: name:s! on:b n:i list:l any:o map:m" },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct err err = { 0 };
        json_t *body = json_loads(table[i].body, 0, NULL);
        assert_non_null(body);
        assert_int_equal(body_check(body, fields, &err), table[i].error[0] ? -1 : 0);
        assert_string_equal(err.text, table[i].error);
        json_decref(body);
    }
}

static void a_body_without_fields(void **state)
{
    (void)state;
    struct err err = { 0 };
    json_t *empty = json_object(), *full = json_pack("{s:i}", "x", 1);
    assert_int_equal(body_check(empty, NULL, &err), 0);
    assert_int_equal(body_check(full, NULL, &err), -1);
    assert_string_equal(err.text, "the body has a field that is not one of: (it has none)");
    assert_int_equal(err.code, ERR_USAGE);
    json_decref(empty);
    json_decref(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_type_is_checked),
                                        cmocka_unit_test(a_body_without_fields) };
    return cmocka_run_group_tests_name("body_check", tests, NULL, NULL);
}
