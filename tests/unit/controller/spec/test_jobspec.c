/* SPDX-License-Identifier: Apache-2.0 */
/* test_jobspec.c - a collection of specs: tests/specs/NNN-name.yaml with .err or .json beside it
 *
 * An invalid spec has a .err, "NAME:LINE:COLUMN: text" for each mistake; a valid one has the
 * canonical .json.  Lines "# set: a.b=c" at the top are passed as --set.  The folder's absolute
 * path is written as $DIR.  UPDATE=1 writes the present results; review the diff before you
 * commit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/diagnostics.h"
#include "controller/spec/jobspec.h"
#include "controller/spec/spec_rows.h"
#include "engine/base/err.h"

#define FOLDER "tests/specs"

enum { SETS = 8 };

static char folder[PATH_MAX];

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = calloc(1, 4 << 20);
    size_t n = fread(text, 1, (4 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* `text` with every occurrence of the folder's path replaced by $DIR; the caller frees it. */
static char *anonymous(const char *text)
{
    size_t n = strlen(folder);
    char *out = malloc(strlen(text) + 8), *to = out;
    while (*text) {
        if (strncmp(text, folder, n) == 0) {
            to = stpcpy(to, "$DIR");
            text += n;
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
    return out;
}

static int read_sets(char *text, const char **set)
{
    int n = 0;
    while (strncmp(text, "# set: ", 7) == 0 && n < SETS) {
        char *end = text + strcspn(text, "\n");
        set[n++] = strndup(text + 7, (size_t)(end - text - 7));
        text = end + 1;
    }
    return n;
}

/* All mistakes, one per line, as the command line prints them. */
static char *told(const char *name, const struct diagnostics *found)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    for (int i = 0; i < found->count; i++) {
        const struct finding *one = &found->list[i];
        assert_true(one->err.code == ERR_USAGE);
        if (one->line)
            fprintf(f, "%s:%d:%d: ", name, one->line, one->column);
        fprintf(f, "%s\n", one->err.text);
    }
    if (found->more)
        fprintf(f, "and %d more mistake%s\n", found->more, found->more == 1 ? "" : "s");
    fclose(f);
    return text;
}

/* The parser's result for a file, in the format of *ending. */
static char *actual(const char *name, const char **ending)
{
    char path[PATH_MAX], line[1024];
    snprintf(path, sizeof(path), FOLDER "/%s", name);
    char *text = read_file(path), *raw;
    assert_non_null(text);
    const char *set[SETS];
    int nset = read_sets(text, set);
    json_t *spec;
    struct diagnostics found;
    struct err err = {0};
    if (jobspec_parse(&spec, text, path, getcwd(line, sizeof(line)), set, nset, &found, &err) < 0) {
        assert_null(spec);
        assert_int_equal(err.code, ERR_USAGE);
        assert_string_equal(err.text, found.list[0].err.text);
        raw = told(name, &found);
        *ending = "err";
    } else {
        char *json = json_dumps(spec, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
        assert_true(asprintf(&raw, "%s\n", json) > 0);
        free(json);
        json_decref(spec);
        *ending = "json";
    }
    char *out = anonymous(raw);
    for (int i = 0; i < nset; i++)
        free((void *)(uintptr_t)set[i]);
    free(raw);
    free(text);
    return out;
}

static int check_file(const char *name)
{
    char path[PATH_MAX];
    const char *ending;
    char *now = actual(name, &ending);
    snprintf(path, sizeof(path), FOLDER "/%.*s.%s", (int)strlen(name) - 5, name, ending);
    if (getenv("UPDATE") && strcmp(getenv("UPDATE"), "1") == 0)
        write_file(path, now);
    char *expected = read_file(path);
    int bad = !expected || strcmp(expected, now) != 0;
    if (bad)
        print_error("%s\n  expected (%s): %s  found: %s", name, path, expected ? expected : "no such file\n", now);
    free(expected);
    free(now);
    return bad;
}

static int is_spec(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && strcmp(d->d_name + n - 5, ".yaml") == 0;
}

/* Checks every file of the folder; `good` counts those with a .json. */
static void test_museum(void **state)
{
    (void)state;
    struct dirent **names;
    int n = scandir(FOLDER, &names, is_spec, alphasort), bad = 0, good = 0;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        bad += check_file(names[i]->d_name);
        snprintf(path, sizeof(path), FOLDER "/%.*s.json", (int)strlen(names[i]->d_name) - 5, names[i]->d_name);
        good += access(path, R_OK) == 0;
        free(names[i]);
    }
    free(names);
    assert_int_equal(bad, 0);
    assert_true(good >= 8);
    assert_true(n - good >= 60);
}

/* Each row has the fields that the checker and `help spec` need. */
static void test_rows_are_whole(void **state)
{
    (void)state;
    struct spec_row row;
    size_t cursor = 0;
    int rows = 0;
    for (; spec_row_next(&row, &cursor); rows++) {
        assert_ptr_equal(spec_row_find(row.path), row.field);
        assert_non_null(row.field->help);
        if (row.field->def) {
            json_t *def = json_loads(row.field->def, JSON_DECODE_ANY, NULL);
            if (!def)
                fail_msg("the default of %s is not JSON", row.path);
            json_decref(def);
        }
        if (row.field->type == FIELD_ENUM)
            assert_non_null(row.field->choices);
        if (row.field->type == FIELD_INT || row.field->type == FIELD_NUMBER)
            if (row.field->min >= row.field->max)
                fail_msg("%s has no limits", row.path);
    }
    assert_true(rows > 60);
}

/* No input crashes the parser: every prefix of a valid spec, and every spec with one changed
 * byte. */
static void test_damaged_text(void **state)
{
    (void)state;
    char *text = read_file(FOLDER "/900-everything.yaml");
    assert_non_null(text);
    size_t n = strlen(text);
    for (size_t i = 0; i <= n * 2; i++) {
        char *damaged = strdup(text);
        if (i < n)
            damaged[i] = '\0';
        else
            damaged[(i - n) % n] = "\t:{}[]*&!|\"'%\xff"[i % 15];
        json_t *spec;
        struct diagnostics found;
        struct err err = {0};
        int rc = jobspec_parse(&spec, damaged, FOLDER "/x.yaml", folder, NULL, 0, &found, &err);
        assert_true(rc == 0 ? spec != NULL : err.code == ERR_USAGE && err.text[0]);
        json_decref(spec);
        free(damaged);
    }
    free(text);
}

static void test_caps(void **state)
{
    (void)state;
    size_t size = (1 << 20) + 2;
    char *text = malloc(size + 1);
    memset(text, ' ', size);
    text[size] = '\0';
    json_t *spec;
    struct diagnostics found;
    struct err err = {0};
    assert_int_equal(jobspec_parse(&spec, text, "x", "/", NULL, 0, &found, &err), -1);
    assert_non_null(strstr(err.text, "larger than 1 MiB"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_museum),
        cmocka_unit_test(test_rows_are_whole),
        cmocka_unit_test(test_damaged_text),
        cmocka_unit_test(test_caps),
    };
    assert_non_null(realpath(FOLDER, folder));
    setenv("HOME", "/home/nobody", 1);
    return cmocka_run_group_tests_name("jobspec", tests, NULL, NULL);
}
