/* SPDX-License-Identifier: Apache-2.0 */
/* test_redact.c - which parts of a text are removed and which stay */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "controller/base/redact.h"

static void secrets_go_and_the_rest_stays(void **state)
{
    (void)state;
    static const struct {
        const char *text, *clean;
    } rows[] = {
        {"", ""},
        {"step 4 loss 0.25\n", "step 4 loss 0.25\n"},
        {"key correct-horse used", "key [redacted] used"},
        {"WANDB_API_KEY=0123abc, ok", "WANDB_API_KEY=[redacted], ok"},
        {"{\"hf_token\": \"x1\", \"steps\": 4}", "{\"hf_token\": \"[redacted]\", \"steps\": 4}"},
        {"Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"},
        {"--password hunter2", "--password hunter2"}, /* no = or colon: may be prose */
        {"login hf_abcdefghijklmnopqrstuvwx done", "login [redacted] done"},
        {"hf_short stays", "hf_short stays"},
        {"tokens: 512", "tokens: [redacted]"}, /* rather too much than too little */
        {"AKIAIOSFODNN7EXAMPLE1", "[redacted]"},
    };
    struct redact *r = redact_create();
    redact_add(r, "correct-horse");
    redact_add(r, "ok");
    redact_add(r, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t size;
        char *clean = redact_text(r, rows[i].text, &size);
        assert_non_null(clean);
        assert_string_equal(clean, rows[i].clean);
        assert_int_equal(size, strlen(clean));
        free(clean);
    }
    redact_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(secrets_go_and_the_rest_stays)};
    return cmocka_run_group_tests_name("redact", tests, NULL, NULL);
}
