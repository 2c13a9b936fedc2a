/* SPDX-License-Identifier: Apache-2.0 */
/* test_consistency.c - data and programs that must be equal on all nodes: listed quickly, differences reported with
 * both values */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/doctor/consistency.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

/* Two nodes: the same directory "d", once in a and once in b. */
static char root[200];

static void put(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void take(const char *name)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(remove(path), 0);
}

static json_t *list_of(const char *node, const char *spec)
{
    char text[400];
    assert_int_equal(chdir(root), 0);
    assert_int_equal(chdir(node), 0);
    snprintf(text, sizeof(text), "%s", spec);
    json_t *s = json_loads(text, 0, NULL), *list = consistency_list(s);
    assert_non_null(list);
    json_decref(s);
    assert_int_equal(chdir("/"), 0);
    return list;
}

static const char data_spec[] = "{\"train\":{\"data\":{\"path\":\"d\"}},\"workdir\":\"d\"}";
static const char run_spec[] = "{\"run\":\"x\",\"workdir\":\"d\"}";

/* Rows: what of b is other than a; words of the sentence, NULL: they are alike. */
static const struct {
    const char *spec, *name, *a, *b, *says;
} rows[] = {
    {data_spec, "d/one.png", "12345", "12345", NULL},
    {data_spec, "d/one.png", "12345", "1234",
     "train.data.path 'd' differs between nodes: gpu1 has 2 files of 8 bytes, gpu2 has 2 files of 7 bytes"},
    {data_spec, "d/more/two.png", "1", NULL, "gpu1 has 3 files of 4 bytes, gpu2 has 1 file of 3 bytes"},
    {data_spec, "d/.hidden", "1", NULL, NULL},
    {run_spec, "d/train.py", "import x", "import x", NULL},
    {run_spec, "d/train.py", "import x", "import y",
     "train.py in workdir 'd' differs between nodes: gpu1 has 8 bytes ("},
    {run_spec, "d/lib/deep.py", "x", NULL, "lib/deep.py in workdir 'd' differs between nodes: gpu1 has 1 "
                                           "bytes ("},
    {run_spec, "d/lib/deep.py", NULL, "x", "gpu1 has no such file, gpu2 has 1 bytes ("},
    {run_spec, "d/train.log", "step 1", "step 2 and more", NULL},
    {run_spec, "d/a/b/c/far.py", "x", NULL, NULL},
};

static void what_differs_is_told_with_both_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char a[64], b[64];
        struct err err = {0};
        snprintf(a, sizeof(a), "a/%s", rows[i].name);
        snprintf(b, sizeof(b), "b/%s", rows[i].name);
        if (rows[i].a)
            put(a, rows[i].a);
        if (rows[i].b)
            put(b, rows[i].b);
        if (rows[i].a && strstr(rows[i].name, "more/"))
            put("a/d/three.png", "");
        json_t *ours = list_of("a", rows[i].spec), *theirs = list_of("b", rows[i].spec);
        int rc = consistency_compare(ours, theirs, "gpu1", "gpu2", &err);
        if (rows[i].says ? rc == 0 || !strstr(err.text, rows[i].says) : rc < 0)
            fail_msg("row %zu: %s", i, rc < 0 ? err.text : "alike");
        assert_int_equal(consistency_compare(ours, ours, "gpu1", "gpu1", NULL), 0);
        json_decref(ours);
        json_decref(theirs);
        if (rows[i].a && strstr(rows[i].name, "more/"))
            take("a/d/three.png");
        if (rows[i].a)
            take(a);
        if (rows[i].b)
            take(b);
    }
}

/* More than can be listed in a moment: which ones come first is not the same everywhere. */
static void too_many_are_not_compared(void **state)
{
    static const char cut[] = "{\"data\":{\"path\":\"d\",\"files\":20000,\"bytes\":1,\"digest\":\"x\","
                              "\"cut\":true}}";
    static const char all[] = "{\"data\":{\"path\":\"d\",\"files\":9,\"bytes\":1,\"digest\":\"y\","
                              "\"cut\":false}}";
    json_t *a = json_loads(cut, 0, NULL), *b = json_loads(all, 0, NULL), *big;
    (void)state;
    assert_int_equal(consistency_compare(a, b, "gpu1", "gpu2", NULL), 0);
    assert_int_equal(consistency_compare(b, a, "gpu1", "gpu2", NULL), 0);
    char *text = malloc((1 << 20) + 1);
    memset(text, 'x', 1 << 20);
    text[1 << 20] = '\0';
    for (int i = 0; i < 65; i++) { /* 64 MiB of programs are enough */
        char name[64];
        snprintf(name, sizeof(name), "big/d/%d.py", i);
        put(name, text);
    }
    big = list_of("big", run_spec);
    assert_true(json_is_true(json_object_get(json_object_get(big, "workdir"), "cut")));
    json_decref(big);
    for (int i = 0; i < 65; i++) {
        char name[64];
        snprintf(name, sizeof(name), "big/d/%d.py", i);
        take(name);
    }
    take("big/d");
    take("big");
    free(text);
    json_decref(a);
    json_decref(b);
}

static void a_directory_that_is_not_there_is_told(void **state)
{
    struct err err = {0};
    (void)state;
    json_t *ours = list_of("a", run_spec), *theirs = list_of("nothing", run_spec);
    assert_int_equal(consistency_compare(ours, theirs, "gpu1", "gpu2", &err), -1);
    assert_non_null(strstr(err.text, "workdir 'd' exists on gpu1 but not on gpu2"));
    json_decref(ours);
    json_decref(theirs);
    err = (struct err){0};
    ours = list_of("nothing", data_spec);
    theirs = list_of("a", data_spec);
    assert_int_equal(consistency_compare(ours, theirs, "gpu1", "gpu2", &err), -1);
    assert_non_null(strstr(err.text, "gpu1 has nothing, gpu2 has 1 file of 3 bytes"));
    json_decref(ours);
    json_decref(theirs);
}

static int make_nodes(void **state)
{
    (void)state;
    scratch_dir_create(root, sizeof(root), "alike");
    put("a/d/base.png", "abc");
    put("b/d/base.png", "abc");
    put("nothing/x", "");
    return 0;
}

static int remove_nodes(void **state)
{
    static const char *const all[] = {
        "a/d/base.png", "b/d/base.png", "nothing/x", "a/d/more", "a/d/lib", "b/d/lib", "a/d/a/b/c",
        "a/d/a/b", "a/d/a", "a/d", "b/d", "a", "b", "nothing", ""};
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        take(all[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_is_told_with_both_values),
        cmocka_unit_test(a_directory_that_is_not_there_is_told),
        cmocka_unit_test(too_many_are_not_compared),
    };
    return cmocka_run_group_tests_name("consistency", tests, make_nodes, remove_nodes);
}
