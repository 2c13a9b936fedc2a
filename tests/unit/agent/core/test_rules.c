/* SPDX-License-Identifier: Apache-2.0 */
/* test_rules.c - endings as they are seen in the field (tests/causes/), each with its cause and its line
 *
 * A file begins with "# key: value" lines: cause; exit or signal; line (part of what must be shown as
 * the proof); shown (the whole sentence); place (where another try would end the same); payload: engine;
 * reported: CAUSE | TEXT (the rank's own word); kernel (a line of the kernel's log); command (what the shell ran, lines
 * joined by ' ; '); stopped: yes (jobctl had asked for the end).  Then an empty line, then the output.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/cause.h"
#include "agent/core/rules.h"
#include "engine/base/buf.h"

#define FOLDER   "tests/causes"
#define DOCUMENT "docs/RECOVERY.md"
#define DRAWN    "<!-- drawn: causes -->\n\n"

struct ending {
    struct evidence evidence;
    char cause[32], line[200], reported[32], text[300], kernel[500], shown[600], place[100], command[500];
    char output[16384];
};

static void take_command(struct ending *e, const char *value)
{
    snprintf(e->command, sizeof(e->command), "%s", value);
    for (char *p; (p = strstr(e->command, " ; "));) {
        *p = '\n';
        memmove(p + 1, p + 3, strlen(p + 3) + 1);
    }
    e->evidence.command = e->command;
}

static void take_header(struct ending *e, const char *key, char *value)
{
    if (strcmp(key, "cause") == 0) {
        snprintf(e->cause, sizeof(e->cause), "%s", value);
    } else if (strcmp(key, "exit") == 0) {
        e->evidence.exit_code = atoi(value);
    } else if (strcmp(key, "signal") == 0) {
        e->evidence.signalled = true;
        e->evidence.signo = atoi(value);
    } else if (strcmp(key, "line") == 0) {
        snprintf(e->line, sizeof(e->line), "%s", value);
    } else if (strcmp(key, "shown") == 0) {
        snprintf(e->shown, sizeof(e->shown), "%s", value);
    } else if (strcmp(key, "place") == 0) {
        snprintf(e->place, sizeof(e->place), "%s", value);
    } else if (strcmp(key, "stopped") == 0) {
        e->evidence.stop_asked = true;
    } else if (strcmp(key, "command") == 0) {
        take_command(e, value);
    } else if (strcmp(key, "payload") == 0) {
        e->evidence.engine = strcmp(value, "engine") == 0;
    } else if (strcmp(key, "kernel") == 0) {
        snprintf(e->kernel, sizeof(e->kernel), "%s", value);
        e->evidence.kernel = e->kernel;
    } else if (strcmp(key, "reported") == 0) {
        assert_int_equal(sscanf(value, "%31s | %299[^\n]", e->reported, e->text), 2);
        e->evidence.reported = e->reported;
        e->evidence.text = e->text;
    } else {
        fail_msg("unknown header '%s'", key);
    }
}

static void read_ending(struct ending *e, const char *name)
{
    char path[300], line[1200], key[32];
    *e = (struct ending){0};
    snprintf(path, sizeof(path), FOLDER "/%s", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    int at;
    while (fgets(line, sizeof(line), f) && sscanf(line, "# %31[a-z]: %n", key, &at) == 1) {
        line[strcspn(line, "\n")] = '\0';
        take_header(e, key, line + at);
    }
    size_t n = fread(e->output, 1, sizeof(e->output) - 1, f);
    e->output[n] = '\0';
    e->evidence.last_lines = e->output;
    fclose(f);
}

static int check(const char *name)
{
    static struct ending e;
    struct verdict v;
    read_ending(&e, name);
    cause_classify(&v, &e.evidence, 0);
    bool helps = strcmp(e.cause, "config_error") && strcmp(e.cause, "data_error") &&
                 strcmp(e.cause, "duplicate_gpu") && strcmp(e.cause, "wrong_processor");
    if (strcmp(cause_name(v.cause), e.cause) == 0 && v.retry_helps == helps &&
        (strstr(v.text, e.line) || strstr(v.line, e.line)) && (!e.shown[0] || strcmp(e.shown, v.detail) == 0) &&
        (!e.place[0] || strcmp(v.place, e.place) == 0))
        return 0;
    print_message("%s: %s (another try %s), line '%s', place '%s'\n    %s\n", name, cause_name(v.cause),
                  v.retry_helps ? "helps" : "does not help", v.line, v.place, v.text);
    return 1;
}

static void every_ending_has_its_cause_and_its_line(void **state)
{
    (void)state;
    int n = 0, wrong = 0;
    DIR *d = opendir(FOLDER);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".txt")) {
            n++;
            wrong += check(e->d_name);
        }
    closedir(d);
    print_message("             %d endings, %d wrong\n", n, wrong);
    assert_true(n >= 170);
    assert_int_equal(wrong, 0);
}

static void every_pattern_is_valid_and_has_a_cause(void **state)
{
    (void)state;
    for (const struct rule *r = rules_all(); r->name; r++) {
        regex_t re;
        if (regcomp(&re, r->pattern, REG_EXTENDED) != 0)
            fail_msg("%s: the pattern is wrong", r->name);
        assert_int_not_equal(regexec(&re, "", 0, NULL, 0), 0); /* one that matches anything */
        regfree(&re);
        assert_true(r->cause > CAUSE_NONE && r->cause < CAUSES);
    }
}

static void strange_text_is_survived(void **state)
{
    (void)state;
    static char text[9000];
    const char *line;
    size_t len;
    assert_null(rules_find(NULL, &line, &len));
    assert_null(rules_find("", &line, &len));
    assert_null(rules_find("\n\n\n", &line, &len));
    memset(text, '(', sizeof(text) - 1);
    assert_null(rules_find(text, &line, &len));
    memcpy(text, "CUDA out of memory", 18);
    assert_non_null(rules_find(text, &line, &len));
    assert_ptr_equal(line, text);
}

/* The table of docs/RECOVERY.md, as causes and rules have it. */
static void draw(struct buf *out)
{
    buf_print(out, "| cause | meaning | retried | rules that recognise it |\n|---|---|---|---|\n");
    for (int c = CAUSE_NONE + 1; c < CAUSES; c++) {
        buf_print(out, "| `%s` | %s | %s |", cause_name((enum cause)c), cause_meaning((enum cause)c),
                  cause_retry_helps((enum cause)c) ? "yes" : "no");
        for (const struct rule *r = rules_all(); r->name; r++)
            if (r->cause == (enum cause)c)
                buf_print(out, " %s%s", r->name, r->kind == RULE_ECHO ? " (echo)" : "");
        buf_print(out, " |\n");
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ending_has_its_cause_and_its_line),
        cmocka_unit_test(every_pattern_is_valid_and_has_a_cause),
        cmocka_unit_test(strange_text_is_survived),
        cmocka_unit_test(the_document_has_this_table),
    };
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
