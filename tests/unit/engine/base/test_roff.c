/* SPDX-License-Identifier: Apache-2.0 */
/* test_roff.c - what roff would read as a request or an escape reaches the page as text */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/roff.h"

static void texts(void **state)
{
    static const struct { const char *text, *roff; } rows[] = {
        {"plain", "plain\n"},
        {"", ""},
        {".TH is a request", "\\&.TH is a request\n"},
        {"'so", "\\(aqso\n"},
        {"--set a=b", "\\-\\-set a=b\n"},
        {"C:\\n", "C:\\en\n"},
        {"`x` ~/y ^z", "\\(gax\\(ga \\(ti/y \\(haz\n"},
        {"one\n\n  .two", "one\n.PP\n\\&.two\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *out = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&out, &size);
        roff_text(f, rows[i].text);
        fclose(f);
        assert_string_equal(out, rows[i].roff);
        free(out);
    }
}

static void page(void **state)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    (void)state;
    roff_page(f, "jobctl-x", "1", "2026-01-31", "jobctl 1", "do x");
    roff_section(f, "OPTIONS");
    roff_term(f, "--a \"b\"", "c");
    roff_example(f, "x:\n  y: 1");
    roff_reference(f, "jobctl", "1", 0);
    roff_reference(f, "sh", "1", 1);
    fclose(f);
    assert_string_equal(out, ".TH JOBCTL-X 1 2026-01-31 \"jobctl 1\"\n.ad l\n.SH NAME\njobctl\\-x \\- do x\n.SH OPTIONS\n"
                        ".TP\n\\fB\\-\\-a \"b\"\\fR\nc\n.nf\n.RS\nx:\n  y: 1\n.RE\n.fi\n"
                        "\\fBjobctl\\fR(1),\n\\fBsh\\fR(1)\n");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
