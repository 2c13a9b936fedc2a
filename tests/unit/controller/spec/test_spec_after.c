/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/spec/spec_after.h"

static void entries_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char     *text, *job;
        enum spec_after kind;
    } table[] = {
        {"7", "7", AFTER_OK},           {"prep", "prep", AFTER_OK},       {"afterok:7", "7", AFTER_OK},
        {"afterany:prep", "prep", AFTER_ANY}, {"afternotok:7", "7", AFTER_NOTOK}, {"afterany:", "", AFTER_ANY},
        {"after:7", "after:7", AFTER_OK}, {"afterok", "afterok", AFTER_OK}, {":7", ":7", AFTER_OK},
        {"afteranyx:7", "afteranyx:7", AFTER_OK},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const char *job;
        assert_int_equal(spec_after_parse(&job, table[i].text), table[i].kind);
        assert_string_equal(job, table[i].job);
    }
}

static void a_done_job_meets_its_kind(void **state)
{
    (void)state;
    assert_true(spec_after_met(AFTER_OK, true) && !spec_after_met(AFTER_OK, false));
    assert_true(spec_after_met(AFTER_ANY, true) && spec_after_met(AFTER_ANY, false));
    assert_true(!spec_after_met(AFTER_NOTOK, true) && spec_after_met(AFTER_NOTOK, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries_are_parsed),
                                       cmocka_unit_test(a_done_job_meets_its_kind)};
    return cmocka_run_group_tests_name("spec_after", tests, NULL, NULL);
}
