/* SPDX-License-Identifier: Apache-2.0 */
/* test_glossary.c - every word that a table of ours prints is in docs/GLOSSARY.md, or for causes, events and fields in the
 * page that it names */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/core/cause.h"
#include "agent/core/goodput.h"
#include "controller/base/terminal.h"
#include "controller/help/glossary.h"
#include "controller/job/event_kind.h"
#include "controller/job/job_core.h"
#include "controller/job/job_fsm.h"
#include "controller/job/job_view.h"
#include "engine/contract/flight.h"

static int missing;

enum { TERMS_MAX = 80 };

static char *page, *glossary; /* the three pages; docs/GLOSSARY.md */

static int load(void **state)
{
    static const char *const paths[] = { "docs/API.md", "docs/RECOVERY.md", "docs/GLOSSARY.md" };
    size_t size = 0;
    FILE *all = open_memstream(&page, &size);
    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        FILE *f = fopen(paths[i], "r");
        assert_non_null(f);
        for (int c; (c = fgetc(f)) != EOF;)
            fputc(c, all);
        fclose(f);
    }
    fclose(all);
    glossary = strstr(page, "# Glossary\n");
    assert_non_null(glossary);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    free(page);
    return 0;
}

/* Is it the term of a row, or between backticks in one? */
static bool has(const char *term)
{
    char first[80], quoted[80];
    snprintf(first, sizeof(first), "| %s |", term);
    snprintf(quoted, sizeof(quoted), "`%s`", term);
    for (const char *line = page, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *at = strstr(line, quoted);
        if (line[0] == '|' && strncmp(line, "| term |", 8) != 0 &&
            (strncmp(line, first, strlen(first)) == 0 || (at && at < end)))
            return true;
    }
    return false;
}

static void wants(const char *term, const char *what)
{
    if (has(term))
        return;
    print_error("no row of docs/GLOSSARY.md, RECOVERY.md or API.md has %s '%s'\n", what, term);
    missing++;
}

static void every_term_has_a_row(void **state)
{
    (void)state;
    missing = 0;
    for (int i = CAUSE_NONE + 1; i < CAUSES; i++)
        wants(cause_name((enum cause)i), "the cause");
    for (int i = JOB_PENDING; i <= JOB_DONE; i++)
        wants(job_state_name((enum job_state)i), "the state");
    for (int i = RESULT_NONE + 1; i < RESULTS; i++)
        wants(job_result_name((enum job_result)i), "the result");
    for (int i = 0; i < BUCKETS; i++)
        wants(bucket_name((enum bucket)i), "the bucket of goodput");
    for (int i = 0; i < FLIGHT_PHASES; i++)
        wants(flight_phase_name((enum flight_phase)i), "the phase");
    for (int i = 1; i < EVENT_KINDS; i++)
        wants(event_kind_name((enum event_kind)i), "the event");
    for (int i = 0; job_view_column(i); i++)
        wants(job_view_column(i), "the column");
    assert_int_equal(missing, 0);
}

/* Words of sentences, which no table has. */
static void words_of_sentences(void **state)
{
    static const char *const words[] = {
        "attempt", "generation", "rank", "agent", "leader", "follower", "flight page", "snapshot", "goodput",
        "rejoin", "lease", "mirror", "cleanup", "orphan", "host cache", "drain",
        "cause", "incident", "fallback", "spool", "plan", "facts", "adopt", "preempted", "quarantined", "drill",
        "back-off", "collective",
    };
    (void)state;
    missing = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        wants(words[i], "the word");
    assert_int_equal(missing, 0);
}

static void nothing_else_is_found(void **state)
{
    (void)state;
    assert_false(has("term"));
    assert_false(has("---"));
    assert_false(has("flight"));
    assert_false(has("Slurm"));
    assert_false(has("State that outlives ranks"));
}

/* Few enough to be read. */
static void it_is_short(void **state)
{
    (void)state;
    int rows = 0;
    for (const char *at = glossary; (at = strstr(at, "\n| ")); at++)
        rows += strncmp(at, "\n| term |", 9) != 0;
    assert_in_range(rows, 40, TERMS_MAX - 1);
}

/* As `jobctl help glossary` prints it: sections, terms, the peers' words, no marks of the page. */
static void it_is_printed(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    struct terminal t;
    terminal_init(&t, f);
    glossary_print(&t);
    fclose(f);
    assert_non_null(strstr(text, "\nTime\n"));
    assert_non_null(strstr(text, "  rank               one process of a job, and its number (torchrun: worker; Slurm: task)\n"));
    assert_non_null(strstr(text, "  back-off           the wait before a restart, longer each time\n"));
    assert_null(strchr(text, '|'));
    assert_null(strchr(text, '`'));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_term_has_a_row),
        cmocka_unit_test(words_of_sentences),
        cmocka_unit_test(nothing_else_is_found),
        cmocka_unit_test(it_is_short),
        cmocka_unit_test(it_is_printed),
    };
    return cmocka_run_group_tests_name("glossary", tests, load, unload);
}
