/* SPDX-License-Identifier: Apache-2.0 */
/* test_hang_rules.c - the limits as documented, and as printed by `jobctl plan` */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/hang_rules.h"
#include "engine/base/buf.h"

#define DOCUMENT "docs/RECOVERY.md"
#define DRAWN    "<!-- drawn: hangs -->\n\n"

static const struct hang_rules engine = {.engine = true}, command;

static const char *floor_of(char out[32], const struct hang_rules *r, enum flight_phase phase)
{
    const int64_t s = hang_rules_floor_ms(r, phase) / 1000;
    snprintf(out, 32, s < 120 ? "%lld s" : "%lld min", (long long)(s < 120 ? s : s / 60));
    return s > 0 ? out : "none";
}

static void draw(struct buf *out)
{
    const struct hang_rules step = {.step_ms = 1};
    char a[32], b[32];
    buf_print(out, "| phase | floor, engine | floor, `run:` | set by `hang.step` | progress of the engine, beside its page |\n"
                   "|---|---|---|---|---|\n");
    for (int i = 0; i < FLIGHT_PHASES; i++) {
        const enum flight_phase p = (enum flight_phase)i;
        const bool files = hang_rules_files_count(p), life = hang_rules_life_counts(&engine, p);
        buf_print(out, "| %s | %s | %s | %s |%s%s%s |\n", flight_phase_name(p), floor_of(a, &engine, p),
                  floor_of(b, &command, p), hang_rules_is_set(&step, p, true) ? "yes" : "no",
                  files ? " MiB of I/O" : "", files && life ? "," : "", life ? " signs of life" : "");
    }
}

static void a_window_is_a_quarter_of_the_shortest_limit(void **state)
{
    (void)state;
    static const struct {
        struct hang_rules rules;
        int64_t           window_ms;
    } rows[] = {
        {{0}, 10000},
        {{.silent_ms = 40000}, 10000},
        {{.silent_ms = 20000, .step_ms = 60000}, 5000},
        {{.step_ms = 10000, .silent_ms = 3600000}, 2500},
        {{.silent_ms = 3000}, 1000},
        {{.engine = true}, 1250}, /* a step may be judged after 5 s */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(hang_rules_window_ms(&rows[i].rules), rows[i].window_ms);
}

static void the_document_has_this_table(void **state)
{
    (void)state;
    static char doc[65536];
    struct buf table;
    FILE *f = fopen(DOCUMENT, "r");
    assert_non_null(f);
    size_t n = fread(doc, 1, sizeof(doc) - 1, f);
    doc[n] = '\0';
    fclose(f);
    buf_init(&table);
    draw(&table);
    char *begin = strstr(doc, DRAWN), *end = begin ? strstr(begin, "\n\n<!-- end -->") : NULL;
    assert_non_null(end);
    begin += strlen(DRAWN);
    bool same = (size_t)(end + 1 - begin) == table.size && memcmp(begin, table.data, table.size) == 0;
    if (!same && getenv("JOBCTL_DRAW")) {
        f = fopen(DOCUMENT, "w");
        fprintf(f, "%.*s%s%s", (int)(begin - doc), doc, table.data, end + 1);
        fclose(f);
    } else if (!same) {
        fail_msg("%s has another table; JOBCTL_DRAW=1 writes it anew:\n%s", DOCUMENT, table.data);
    }
    buf_fini(&table);
}

static const struct {
    const char *hang;
    bool        engine;
    const char *said; /* the sentences, each with a newline */
} plans[] = {
    {"{}", false,
     "a stopped process (SIGSTOP): 5 s\n"
     "no sign of life from any rank (output, CPU work, bytes read or written, network traffic, work on a GPU): 10 min in "
     "the first hour, then 4 times the longest quiet time, at least 60 s; in the first hour of a job that reports steps "
     "regularly, 100 times the time between two reports, at least 100 s (hang.silent)\n"
     "a rank with a flight page (NCCL 2.26, jobctl_progress.py) stays in a phase of a step without a "
     "sign of life, or in a collective: 5 min (hang.step)\n"},
    {"{\"silent\": 90.0}", false,
     "a stopped process (SIGSTOP): 5 s\n"
     "no sign of life from any rank (output, CPU work, bytes read or written, network traffic, work on a GPU): 90 s "
     "(hang.silent)\n"
     "a rank with a flight page (NCCL 2.26, jobctl_progress.py) stays in a phase of a step without a "
     "sign of life, or in a collective: 5 min (hang.step)\n"},
    {"{\"step\": 7.5, \"first_step\": 300.0}", false,
     "a stopped process (SIGSTOP): 5 s\n"
     "no sign of life from any rank (output, CPU work, bytes read or written, network traffic, work on a GPU): 7.5 s "
     "(hang.step)\n"
     "no step, regardless of other activity: 7.5 s (hang.step); without a flight page, no output\n"},
    {"{\"step\": \"auto\", \"first_step\": 600.0, \"silent\": \"auto\"}", true,
     "a stopped process (SIGSTOP): 5 s\n"
     "no progress in a phase of a step: 4 times its usual maximum, at least 5 s, for data 20 s "
     "(hang.step)\n"
     "no first step, and no sign of work: 10 min (hang.first_step)\n"},
    {"{\"step\": 30.0, \"silent\": 7200.0}", true,
     "a stopped process (SIGSTOP): 5 s\n"
     "no progress in a phase of a step: 30 s (hang.step)\n"
     "no first step, and no sign of work: 5 min (hang.first_step)\n"
     "no sign of life from any rank: 2 h (hang.silent)\n"},
};

static void what_is_watched_is_said(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(plans) / sizeof(plans[0]); k++) {
        char text[1000] = "";
        struct hang_rules r;
        size_t i;
        const json_t *row;
        json_t *spec = json_pack("{s:o}", "hang", json_loads(plans[k].hang, 0, NULL));
        hang_rules_read(&r, spec, plans[k].engine);
        json_t *said = hang_rules_say(&r);
        json_array_foreach(said, i, row)
        {
            strcat(strcat(text, json_string_value(row)), "\n");
        }
        assert_string_equal(text, plans[k].said);
        json_decref(said);
        json_decref(spec);
    }
}

static void a_deadline_doubles_with_each_false_alarm(void **state)
{
    (void)state;
    const struct hang_rules set = {.silent_ms = 7000};
    assert_int_equal(hang_rules_silent_ms(&command, 0, 0, 0, 0), HANG_SILENT_NEW_MS);
    assert_int_equal(hang_rules_silent_ms(&command, 0, 0, 0, 2), 4 * HANG_SILENT_NEW_MS);
    assert_int_equal(hang_rules_silent_ms(&command, HANG_NEW_MS, 100000, 0, 1), 800000);
    assert_int_equal(hang_rules_silent_ms(&set, 0, 100000, 100, 5), 7000);
    assert_int_equal(hang_rules_silent_ms(&engine, 0, 0, 100, 0), -1);
    assert_int_equal(hang_rules_silent_ms(&command, 0, 0, 600, 0), HANG_RHYTHM_MS);
    assert_int_equal(hang_rules_silent_ms(&command, 0, 0, 3000, 1), 600000);
    assert_int_equal(hang_rules_silent_ms(&command, 0, 90000, 600, 0), 360000);
    assert_int_equal(hang_rules_silent_ms(&command, 0, 0, 60000, 0), HANG_SILENT_NEW_MS);
    assert_int_equal(hang_rules_silent_ms(&command, HANG_NEW_MS, 0, 600, 0), HANG_SILENT_MS);
    assert_true(hang_rules_doubled_ms(5000, 1000000) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_a_quarter_of_the_shortest_limit),
        cmocka_unit_test(the_document_has_this_table),
        cmocka_unit_test(what_is_watched_is_said),
        cmocka_unit_test(a_deadline_doubles_with_each_false_alarm),
    };
    return cmocka_run_group_tests_name("hang_rules", tests, NULL, NULL);
}
