/* SPDX-License-Identifier: Apache-2.0 */
/* test_canonical.c - canonical JSON from others is accepted exactly if an equivalent file would be
 *
 * Every spec of the museum comes back as it is.  Then each value of some of them is changed, deleted or joined by
 * another, one at a time: what passes, written as a file again, must give the same from jobspec_parse().
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

#include "controller/base/diagnostics.h"
#include "controller/spec/canonical.h"
#include "controller/spec/jobspec.h"
#include "engine/base/err.h"

#define FOLDER "tests/specs"
#define ORIGIN "10a7dad6f79ad95393db59769a310da8"

static char folder[PATH_MAX];

/* The JSON of a file, $DIR replaced. */
static json_t *read_spec(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), FOLDER "/%s", name);
    FILE *f = fopen(path, "re");
    char *raw = calloc(1, 1 << 20), *text = calloc(1, 1 << 21), *to = text;
    assert_true(f && raw && text);
    assert_true(fread(raw, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    for (const char *p = raw; *p;) {
        if (strncmp(p, "$DIR", 4) == 0) {
            to = stpcpy(to, folder);
            p += 4;
        } else {
            *to++ = *p++;
        }
    }
    json_t *spec = json_loads(text, 0, NULL);
    assert_non_null(spec);
    free(raw);
    free(text);
    return spec;
}

/* The same values: numbers within the last digits of seconds. */
static bool same(const json_t *a, const json_t *b)
{
    char *left = json_dumps(a, JSON_SORT_KEYS | JSON_REAL_PRECISION(12));
    char *right = json_dumps(b, JSON_SORT_KEYS | JSON_REAL_PRECISION(12));
    const bool equal = left && right && strcmp(left, right) == 0;
    free(left);
    free(right);
    return equal;
}

static int is_json(const struct dirent *d)
{
    const size_t n = strlen(d->d_name);
    return n > 5 && strcmp(d->d_name + n - 5, ".json") == 0;
}

static void the_museum_comes_back(void **state)
{
    (void)state;
    struct dirent **names;
    const int n = scandir(FOLDER, &names, is_json, alphasort);
    assert_true(n >= 8);
    for (int i = 0; i < n; i++) {
        json_t *spec = read_spec(names[i]->d_name), *out;
        struct diagnostics found;
        struct err err = {0};
        if (canonical_check(&out, spec, false, &found, &err) < 0)
            fail_msg("%s: %s", names[i]->d_name, err.text);
        if (!same(spec, out))
            fail_msg("%s: %s", names[i]->d_name, json_dumps(out, 0));
        json_decref(spec);
        json_decref(out);
        free(names[i]);
    }
    free(names);
}

/* --- as a file ----------------------------------------------------------------------------------------- */

static void to_duration(json_t *map, const char *key)
{
    const json_t *v = json_object_get(map, key);
    if (json_is_number(v))
        json_object_set_new(map, key, json_sprintf("%.11gs", json_number_value(v)));
}

/* What a user would write for it. */
static char *as_file(const json_t *canonical)
{
    json_t *spec = json_deep_copy(canonical), *watch;
    json_t *checkpoint = json_object_get(spec, "checkpoint"), *retry = json_object_get(spec, "retry");
    const json_t *every = json_object_get(checkpoint, "every"), *backoff = json_object_get(retry, "backoff");
    size_t i;
    json_object_del(spec, "schema");
    json_object_del(checkpoint, "origin");
    json_object_del(checkpoint, "lineage");
    to_duration(spec, "max_duration");
    to_duration(spec, "grace");
    to_duration(json_object_get(spec, "slurm"), "time");
    to_duration(json_object_get(spec, "slurm"), "grace");
    to_duration(json_object_get(spec, "hang"), "step");
    to_duration(json_object_get(spec, "hang"), "first_step");
    to_duration(json_object_get(spec, "hang"), "silent");
    to_duration(retry, "disk_wait");
    to_duration(retry, "same_line_within");
    json_array_foreach (json_object_get(spec, "watch"), i, watch) {
        to_duration(watch, "every");
        to_duration(watch, "start_within");
    }
    json_object_set_new(retry, "backoff",
                        json_sprintf("%.11gs..%.11gs", json_number_value(json_array_get(backoff, 0)),
                                     json_number_value(json_array_get(backoff, 1))));
    json_object_set_new(checkpoint, "every",
                        json_object_get(every, "steps")
                            ? json_sprintf("%lld steps", (long long)json_integer_value(json_object_get(every, "steps")))
                            : json_sprintf("%.11gs", json_number_value(json_object_get(every, "seconds"))));
    char *text = json_dumps(spec, JSON_ENSURE_ASCII);
    json_decref(spec);
    return text;
}

static void is_what_a_file_gives(const json_t *out, const char *what)
{
    json_t *parsed, *bare = json_deep_copy(out);
    struct diagnostics found;
    struct err err = {0};
    char *text = as_file(out);
    json_object_del(json_object_get(bare, "checkpoint"), "origin");
    json_object_del(json_object_get(bare, "checkpoint"), "lineage");
    if (jobspec_parse(&parsed, text, "/x.yaml", "/", NULL, 0, &found, &err) < 0) {
        if (!strstr(err.text, "does not exist")) /* paths are not looked for */
            fail_msg("%s passes, and as a file: %s\n%s", what, err.text, text);
    } else if (!same(parsed, bare)) {
        fail_msg("%s passes, and as a file is: %s\n%s", what, json_dumps(parsed, 0), text);
    }
    json_decref(parsed);
    json_decref(bare);
    free(text);
}

/* The text for a file, as jobctl writes it. */
static void a_text_gives_the_same(void **state)
{
    (void)state;
    struct dirent **names;
    const int n = scandir(FOLDER, &names, is_json, alphasort);
    for (int i = 0; i < n; i++) {
        json_t *spec = read_spec(names[i]->d_name), *parsed = NULL;
        struct diagnostics found;
        struct err err = {0};
        char *text = NULL;
        if (json_object_get(spec, "sweep"))
            json_object_del(spec, "array");     /* it is for members, which have neither */
        json_object_del(spec, "sweep");
        json_object_del(spec, "max_parallel");
        assert_int_equal(canonical_text(&text, spec, &err), 0);
        if (jobspec_parse(&parsed, text, "/x.yaml", "/", NULL, 0, &found, &err) < 0) {
            if (!strstr(err.text, "does not exist") && !strstr(err.text, "max_parallel"))
                fail_msg("%s: %s\n%s", names[i]->d_name, err.text, text);
        } else if (!same(parsed, spec)) {
            fail_msg("%s: %s\n%s", names[i]->d_name, json_dumps(parsed, 0), text);
        }
        json_decref(parsed);
        json_decref(spec);
        free(text);
        free(names[i]);
    }
    free(names);
}

/* --- mutations ------------------------------------------------------------------------------------------ */

static int tried, passed;

/* What was given is in what came out; only missing keys were added. */
static bool holds(const json_t *out, const json_t *given)
{
    const char *key;
    json_t *v;
    size_t i;
    if (json_is_number(given) && json_is_number(out))
        return json_number_value(given) == json_number_value(out);
    if (json_is_object(given))
        json_object_foreach ((json_t *)(uintptr_t)given, key, v)
            if (!holds(json_object_get(out, key), v))
                return false;
    if (json_is_array(given))
        json_array_foreach ((json_t *)(uintptr_t)given, i, v)
            if (!holds(json_array_get(out, i), v))
                return false;
    return json_is_object(given) || json_is_array(given) ? json_typeof(given) == (out ? json_typeof(out) : JSON_NULL)
                                                         : out && json_equal(given, out);
}

static void try(const json_t *spec, const char *what)
{
    json_t *out, *again = NULL;
    struct diagnostics found;
    struct err err = {0};
    tried++;
    if (canonical_check(&out, spec, true, &found, &err) < 0) {
        if (out || err.code != ERR_USAGE || !err.text[0] || found.count < 1)
            fail_msg("%s: refused without a sentence (%s)", what, err.text);
        return;
    }
    passed++;
    if (!holds(out, spec))
        fail_msg("%s passes as %s", what, json_dumps(out, 0));
    if (canonical_check(&again, out, true, &found, &err) < 0 || !same(out, again))
        fail_msg("%s: what came out does not pass: %s", what, err.text);
    is_what_a_file_gives(out, what);
    json_decref(out);
    json_decref(again);
}

static const char *const others[] = {
    "null", "true", "false", "0", "-1", "3", "1e300", "0.5", "9007199254740993", "\"\"", "\"x\"", "\"auto\"", "\"5\"",
    "\"5s\"", "\"/a/../b\"", "\"/no such\"", "\"a//b\"", "\"500 steps\"", "\"latest\"", "[]", "[1]", "[5.0, 1.0]",
    "[\"a\", \"a\"]", "[null]", "{}", "{\"a\": 1}", "{\"steps\": 0}", "{\"steps\": 3, \"seconds\": 4.0}",
    "{\"seconds\": 1e9}",
};

static void mutate(json_t *root, json_t *at, const char *path);

/* All that can become of one value; `set` puts another one in its place. */
static void change(json_t *root, json_t *in, const char *key, size_t i, const char *path)
{
    json_t *old = json_incref(key ? json_object_get(in, key) : json_array_get(in, i));
    for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++) {
        char what[400];
        json_t *other = json_loads(others[k], JSON_DECODE_ANY, NULL);
        assert_non_null(other);
        snprintf(what, sizeof(what), "%.200s = %s", path, others[k]);
        if (key)
            json_object_set_new(in, key, other);
        else
            json_array_set_new(in, i, other);
        try(root, what);
    }
    if (key)
        json_object_set(in, key, old);
    else
        json_array_set(in, i, old);
    mutate(root, old, path);
    json_decref(old);
}

static void mutate(json_t *root, json_t *at, const char *path)
{
    char below[300];
    size_t i;
    json_t *v;
    const char *key;
    void *next;
    if (json_is_object(at)) {
        json_object_set_new(at, "extra", json_integer(1));
        try(root, path);
        json_object_del(at, "extra");
        json_t *keys = json_copy(at);
        json_object_foreach_safe (keys, next, key, v) {
            snprintf(below, sizeof(below), "%.200s.%.60s", path, key);
            change(root, at, key, 0, below);
        }
        json_object_foreach_safe (keys, next, key, v) { /* last, for it changes the order */
            json_object_del(at, key);
            snprintf(below, sizeof(below), "%.200s without %.60s", path, key);
            try(root, below);
            json_object_set(at, key, v);
        }
        json_decref(keys);
    } else if (json_is_array(at)) {
        for (i = 0; i < json_array_size(at); i++) {
            snprintf(below, sizeof(below), "%.200s[%zu]", path, i);
            change(root, at, NULL, i, below);
        }
    }
}

static void mutations_of(const char *name)
{
    json_t *spec = read_spec(name), *out;
    struct diagnostics found;
    struct err err = {0};
    json_object_set_new(json_object_get(spec, "checkpoint"), "origin", json_string(ORIGIN));
    json_object_set_new(json_object_get(spec, "checkpoint"), "lineage", json_pack("[s]", ORIGIN));
    tried = passed = 0;
    if (canonical_check(&out, spec, true, &found, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    json_decref(out);
    mutate(spec, spec, name);
    print_message("%s: %d mutations, %d pass\n", name, tried, passed);
    assert_true(tried > 800);
    assert_true(passed > 40 && passed < tried / 5);
    json_decref(spec);
}

static void what_passes_is_what_a_file_gives(void **state)
{
    (void)state;
    mutations_of("900-everything.json");
    mutations_of("045-train-two-ranks.json");
}

static void refusals_name_the_key(void **state)
{
    (void)state;
    static const struct { const char *key, *sub, *value, *text; } rows[] = {
        {"retry", "max", "\"10\"", "retry.max: expected a whole number or auto, not \"10\""},
        {"run", NULL, "5", "run: expected text, not 5"},
        {"workdir", NULL, "\"here\"", "workdir: expected an absolute path, not \"here\""},
        {"workdir", NULL, "\"/a//b\"", "workdir: expected /a/b, not /a//b"},
        {"rnu", NULL, "\"x\"", "unknown key \"rnu\"; did you mean \"run\"?"},
        {"checkpoint", "origin", "\"" ORIGIN "\"", "checkpoint.origin: set by jobctl only; remove it"},
        {"checkpoint", "lineage", "[]", "checkpoint.lineage: set by jobctl only; remove it"},
        {"schema", NULL, "2", "schema: expected 1"},
        {"watch", NULL, "[{\"name\": \"x\"}]", "watch[0]: pattern is missing"},
        {"after", NULL, "[\"3\"]", "after[0]: expected the number or the name of a job"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *spec = read_spec("901-hello.json"), *out;
        json_t *in = rows[i].sub ? json_object_get(spec, rows[i].key) : spec;
        struct diagnostics found;
        struct err err = {0};
        assert_non_null(in);
        json_object_set_new(in, rows[i].sub ? rows[i].sub : rows[i].key,
                            json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        assert_int_equal(canonical_check(&out, spec, false, &found, &err), -1);
        assert_string_equal(err.text, rows[i].text);
        json_decref(spec);
    }
    json_t *out;
    struct diagnostics found;
    struct err err = {0};
    json_t *list = json_array();
    assert_int_equal(canonical_check(&out, list, false, &found, &err), -1);
    assert_string_equal(err.text, "a canonical spec is a map of keys");
    json_decref(list);
}

/* What an earlier version stored lacks keys of today. */
static void a_missing_key_gets_its_default(void **state)
{
    (void)state;
    json_t *spec = read_spec("901-hello.json"), *out;
    struct diagnostics found;
    struct err err = {0};
    json_object_del(json_object_get(spec, "retry"), "disk_wait");
    json_object_del(spec, "schema");
    assert_int_equal(canonical_check(&out, spec, false, &found, &err), 0);
    assert_true(json_number_value(json_object_get(json_object_get(out, "retry"), "disk_wait")) == 1800);
    json_decref(spec);
    json_decref(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_museum_comes_back),
        cmocka_unit_test(a_text_gives_the_same),
        cmocka_unit_test(what_passes_is_what_a_file_gives),
        cmocka_unit_test(refusals_name_the_key),
        cmocka_unit_test(a_missing_key_gets_its_default),
    };
    assert_non_null(realpath(FOLDER, folder));
    setenv("HOME", "/home/nobody", 1);
    return cmocka_run_group_tests_name("canonical", tests, NULL, NULL);
}
