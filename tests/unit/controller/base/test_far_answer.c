/* SPDX-License-Identifier: Apache-2.0 */
/* test_far_answer.c - texts from another machine cannot control the terminal */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "controller/base/far_answer.h"

static void each_text_is_cleaned_where_it_is_not_raw_by_intent(void **state)
{
    static const struct {
        const char *before, *after;
    } rows[] = {
        {"{\"a\":\"plain \\u00e9\\n\\t\"}", "{\"a\":\"plain \\u00E9\\n\\t\"}"},
        {"{\"a\":\"\\u001b[2Jx\\u0007\"}", "{\"a\":\"?[2Jx?\"}"},
        {"{\"a\":[{\"b\":\"\\r\\u007f\\u009bK\\u00a0\"},\"\\b\"]}", "{\"a\":[{\"b\":\"???K\\u00A0\"},\"?\"]}"},
        {"{\"a\":\"\\u001b\",\"data\":\"\\u001b\"}", "{\"a\":\"?\",\"data\":\"\\u001B\"}"},
        {"{\"spec\":{\"run\":\"\\u001b\"},\"environment\":{\"A\":\"\\u001b\"}}",
         "{\"spec\":{\"run\":\"\\u001B\"},\"environment\":{\"A\":\"?\"}}"},
        {"{\"a\":1,\"b\":null,\"c\":[true,\"\"]}", "{\"a\":1,\"b\":null,\"c\":[true,\"\"]}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *answer = json_loads(rows[i].before, 0, NULL);
        assert_non_null(answer);
        far_answer_clean(answer);
        char *text = json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII);
        assert_string_equal(text, rows[i].after);
        free(text);
        json_decref(answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_is_cleaned_where_it_is_not_raw_by_intent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
