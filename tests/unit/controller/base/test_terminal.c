/* SPDX-License-Identifier: Apache-2.0 */
/* test_terminal.c - text, tables and the progress line in all widths and character sets */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/table.h"
#include "controller/base/terminal.h"
#include "controller/cli/progress_line.h"
#include "controller/job/job_view.h"

static const struct {
    bool        utf8;
    int         columns;
    const char *text, *shown;
} fits[] = {
    {true, 0, "plain", "plain"},
    {true, 5, "plain", "plain"},
    {true, 4, "plain", "pla\xE2\x80\xA6"},
    {false, 4, "plain", "p..."},
    {false, 2, "plain", ".."},
    {true, 0, "a\nb\033[31m\x7F", "a b [31m "},
    {false, 0, "caf\xC3\xA9 \xE2\x86\x92 x", "caf? -> x"},
    {true, 0, "caf\xC3\xA9", "caf\xC3\xA9"},
    {true, 0, "bad \xC3 byte", "bad ? byte"},
    {true, 4, "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E", "\xE6\x97\xA5\xE2\x80\xA6"},
    {true, 6, "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E", "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E"},
};

static void test_fit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(fits) / sizeof(fits[0]); i++) {
        struct terminal t = {.utf8 = fits[i].utf8};
        char shown[128];
        terminal_fit(&t, shown, sizeof(shown), fits[i].text, fits[i].columns);
        assert_string_equal(shown, fits[i].shown);
        if (fits[i].columns)
            assert_true(terminal_columns(shown) <= fits[i].columns);
    }
}

/* Never writes past its buffer, whatever its size. */
static void test_fit_small_buffers(void **state)
{
    (void)state;
    for (size_t size = 8; size < 40; size++) {
        struct terminal t = {.utf8 = true};
        char *out = malloc(size);
        terminal_fit(&t, out, size, "a rather long text with caf\xC3\xA9 in it", 0);
        assert_true(strlen(out) < size);
        free(out);
    }
}

static char *draw(const struct table_column *columns, int n, const char *const *cells, int rows, int width)
{
    char *text = NULL;
    size_t size;
    struct terminal t = {.file = open_memstream(&text, &size), .width = width, .utf8 = false};
    table_print(&t, columns, n, cells, NULL, rows);
    fclose(t.file);
    return text;
}

static void test_table(void **state)
{
    (void)state;
    static const struct table_column columns[] = {
        {"ID", true, 0, 0}, {"NAME", false, 0, 0}, {"LOSS", true, 2, 0}, {"REASON", false, 1, 0}};
    static const char *const cells[] = {"7", "icons", "0.5", "waits for job 6",
                                        "12", "x", "-", "-"};
    static const struct {
        int         width;
        const char *text;
    } drawn[] = {
        {0, "ID  NAME   LOSS  REASON\n 7  icons   0.5  waits for job 6\n12  x         -  -\n"},
        {34, "ID  NAME   LOSS  REASON\n 7  icons   0.5  waits for job 6\n12  x         -  -\n"},
        {29, "ID  NAME   LOSS  REASON\n 7  icons   0.5  waits for...\n12  x         -  -\n"},
        {23, "ID  NAME   REASON\n 7  icons  waits for...\n12  x      -\n"},
        {16, "ID  NAME\n 7  icons\n12  x\n"},
    };
    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
        char *text = draw(columns, 4, cells, 2, drawn[i].width);
        assert_string_equal(text, drawn[i].text);
        free(text);
    }
}

/* Sentences that do not fit beside their rows are printed below; no column is dropped for them. */
static void test_table_below(void **state)
{
    (void)state;
    static const struct table_column columns[] = {
        {"ID", true, 0, 0}, {"NAME", false, 0, 0}, {"LOSS", true, 2, 0}, {"REASON", false, TABLE_BELOW, 0}};
    static const char *const cells[] = {"7", "icons", "0.5", "waits for job 6, which has the one GPU",
                                        "12", "x", "-", "-"};
    static const struct {
        int         width;
        const char *text;
    } drawn[] = {
        {60, "ID  NAME   LOSS  REASON\n 7  icons   0.5  waits for job 6, which has the one GPU\n12  x         -  -\n"},
        {30, "ID  NAME   LOSS\n 7  icons   0.5\n    waits for job 6, which has\n    the one GPU\n12  x         -\n"},
    };
    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
        char *text = draw(columns, 4, cells, 2, drawn[i].width);
        assert_string_equal(text, drawn[i].text);
        free(text);
    }
}

/* Long names are cut before a column is dropped; of many rows each is one line. */
static void test_table_long(void **state)
{
    (void)state;
    static const struct table_column columns[] = {
        {"ID", true, 0, 0}, {"NAME", false, 0, 8}, {"LOSS", true, 2, 0}, {"REASON", false, TABLE_BELOW, 0}};
    const char *cells[4 * (TABLE_SHORT + 1)];
    static const struct {
        int         width;
        const char *first;
    } drawn[] = {
        {40, "ID  NAME                LOSS\n 7  a-long-name-of-one   0.5\n"},
        {44, "ID  NAME                LOSS  REASON\n 7  a-long-name-of-one   0.5  waits for j...\n"},
        {21, "ID  NAME         LOSS\n 7  a-long-n...   0.5\n"},
        {18, "ID  NAME      LOSS\n 7  a-lon...   0.5\n"},
        {17, "ID  NAME\n 7  a-lon...\n"},
    };
    for (int i = 0; i <= TABLE_SHORT; i++) {
        cells[4 * i] = "7";
        cells[4 * i + 1] = "a-long-name-of-one";
        cells[4 * i + 2] = "0.5";
        cells[4 * i + 3] = "waits for job 6, which has the one GPU";
    }
    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
        char *text = draw(columns, 4, cells, TABLE_SHORT + 1, drawn[i].width);
        int lines = 0;
        for (const char *at = text; *at; at++)
            lines += *at == '\n';
        assert_int_equal(lines, TABLE_SHORT + 2);
        assert_memory_equal(text, drawn[i].first, strlen(drawn[i].first));
        free(text);
    }
}

static const char running[] =
    "{\"id\":7,\"state\":\"running\",\"phase\":\"forward\",\"step\":412,\"steps\":1475,"
    "\"loss\":0.31234,\"samples_per_s\":512.0,\"eta_s\":61.0,\"goodput\":0.97}";
static const char recovering[] =
    "{\"id\":7,\"state\":\"recovering\",\"step\":412,\"steps\":1475,\"loss\":null}";
static const char shell[] = "{\"id\":8,\"state\":\"pending\",\"step\":null,\"steps\":null}";

static const char waiting[] = "{\"id\":9,\"state\":\"pending\",\"step\":null,\"steps\":null,\"goodput\":null,"
    "\"reason\":\"next in queue: needs 2 CPU slots, none free\"}";
static const char command[] = "{\"id\":9,\"state\":\"running\",\"step\":null,\"steps\":null,\"goodput\":0.8,"
    "\"started_at\":\"2026-01-01T00:00:00.000Z\",\"ended_at\":\"2026-01-01T00:00:00.000Z\"}";

static const struct {
    const char *row;
    bool        tty, utf8;
    int         width;
    const char *line;
} lines[] = {
    {running, false, false, 0, "job 7   412/1475  loss 0.3123   512/s  ETA  1m01s  goodput  97%"},
    {running, true, false, 80,
     "job 7  ###...........   412/1475  loss 0.3123   512/s  ETA  1m01s  goodput  97%"},
    {running, true, false, 50, "job 7   412/1475  loss 0.3123   512/s  ETA  1m..."},
    {running, true, true, 74, "job 7  \xE2\x96\x88\xE2\x96\x88\xE2\x96\x91\xE2\x96\x91\xE2\x96\x91"
     "\xE2\x96\x91\xE2\x96\x91\xE2\x96\x91   412/1475  loss 0.3123   512/s  ETA  1m01s  "
     "goodput  97%"},
    {recovering, false, false, 0, "job 7  recovering   412/1475"},
    {shell, true, false, 80, "job 8  pending"},
    {waiting, true, false, 80, "job 9  pending  next in queue: needs 2 CPU slots, none free"},
    {command, true, false, 80, "job 9  running for 0.0s"},
};

static void test_progress_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct terminal t = {.tty = lines[i].tty, .utf8 = lines[i].utf8, .width = lines[i].width};
        char line[PROGRESS_LINE_SIZE];
        json_t *row = json_loads(lines[i].row, 0, NULL);
        progress_line_make(line, sizeof(line), &t, row);
        assert_string_equal(line, lines[i].line);
        for (int width = 20; width < 120; width++) {
            t.width = width;
            progress_line_make(line, sizeof(line), &t, row);
            assert_true(terminal_columns(line) < width);
        }
        json_decref(row);
    }
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        double      seconds;
        const char *text;
    } rows[] = {{0, "0.0s"}, {-3, "0.0s"}, {0.004, "4ms"}, {0.094, "94ms"}, {0.095, "0.1s"}, {0.44, "0.4s"}, {9.96, "10s"}, {59.4, "59s"},
                {59.6, "1m00s"}, {3599, "59m59s"}, {3600, "1h00m"}, {90000, "1d01h"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[32];
        job_view_duration(text, sizeof(text), rows[i].seconds);
        assert_string_equal(text, rows[i].text);
    }
    assert_true(job_view_time("1970-01-02T00:00:01.250Z") == 86401.25);
    assert_true(job_view_time(NULL) < 0 && job_view_time("yesterday") < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_fit_small_buffers),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_below), cmocka_unit_test(test_table_long),
        cmocka_unit_test(test_progress_line),
        cmocka_unit_test(test_durations),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
