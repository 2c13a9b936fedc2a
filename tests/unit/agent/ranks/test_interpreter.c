/* SPDX-License-Identifier: Apache-2.0 */
/* test_interpreter.c - which Python a command will run, by its words and PATH */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ranks/interpreter.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[80], path[300];

/* In the second directory of PATH is a python3, in the third another one and a python3.11; in the first, one that
 * cannot be run. */
static int up(void **state)
{
    (void)state;
    static const char *const names[] = {"a/python3", "b/python3", "c/python3", "c/python3.11"};
    char name[160];
    scratch_dir_create(dir, sizeof(dir), "python");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s/%c", dir, 'a' + i);
        assert_int_equal(mkdir(name, 0700), 0);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(name, sizeof(name), "%s/%s", dir, names[i]);
        FILE *f = fopen(name, "w");
        assert_non_null(f);
        fclose(f);
        assert_int_equal(chmod(name, i ? 0700 : 0600), 0);
    }
    snprintf(path, sizeof(path), "PATH=%s/a:%s/b::%s/c", dir, dir, dir);
    return 0;
}

static int down(void **state)
{
    (void)state;
    return scratch_dir_remove(dir);
}

static void the_first_in_path(void **state)
{
    (void)state;
    static const struct { const char *command, *is; } table[] = { /* "~": the directory */
        {"python3 train.py", "~/b/python3"}, {"python3.11 -m x", "~/c/python3.11"}, {"nice python3 x.py", "~/b/python3"},
        {"A=1 && (python3 x)", "~/b/python3"}, {"/opt/v/bin/python3 x", "/opt/v/bin/python3"}, {"python4 x", ""},
        {"./python_utils.py", ""}, {"bash run.sh", ""}, {"", ""}, {"source v/bin/activate; python3 x", ""},
        {"conda run python3 x", ""}, {"PATH=/x python3 y", ""}, {". ./env && python3 x", ""},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char out[300], want[300];
        const char *const argv[] = {"sh", "-c", table[i].command, NULL};
        char first[] = "A=B", *env[] = {first, path, NULL};
        interpreter_guess(out, sizeof(out), argv, env);
        snprintf(want, sizeof(want), "%s%s", table[i].is[0] == '~' ? dir : "", table[i].is + (table[i].is[0] == '~'));
        assert_string_equal(out, want);
    }
    char out[300], *none[] = {NULL};
    interpreter_guess(out, sizeof(out), (const char *const[]){"python3", NULL}, none);
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(the_first_in_path, up, down)};
    alarm(60); /* ends a search that does not */
    return cmocka_run_group_tests_name("interpreter", tests, NULL, NULL);
}
