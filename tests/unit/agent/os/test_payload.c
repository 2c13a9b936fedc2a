/* SPDX-License-Identifier: Apache-2.0 */
/* test_payload.c - short shell texts are arguments, long ones files that only the user reads */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "agent/os/payload.h"
#include "engine/base/tree.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256];

static int setup(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "payload");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    struct err err = {0};
    return tree_remove(AT_FDCWD, dir, &err);
}

static char *text_of(size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, '#', size);
    text[size] = '\0';
    return text;
}

static void is_file(const char *path, const char *text)
{
    struct stat st;
    const size_t size = strlen(text);
    char *read = malloc(size);
    assert_non_null(read);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, size);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fread(read, 1, size, f), size);
    assert_memory_equal(read, text, size);
    fclose(f);
    free(read);
}

/* A word from the end of a command. */
static const char *last(const char *const argv[PAYLOAD_WORDS], int back)
{
    int n = 0;
    while (n < PAYLOAD_WORDS && argv[n])
        n++;
    assert_in_range(n, back + 1, PAYLOAD_WORDS - 1);
    return argv[n - 1 - back];
}

static void is_command(const char *const *argv, const char *words)
{
    char line[400] = "";
    for (int i = 0; argv[i]; i++)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s", i ? "|" : "", argv[i]);
    assert_string_equal(line, words);
}

static void the_first_failure_ends_a_shell(void **state)
{
    (void)state;
    const char *argv[PAYLOAD_WORDS];
    payload_shell(argv, "/bin/bash", "echo a b", NULL);
    is_command(argv, "/bin/bash|-eo|pipefail|-c|echo a b");
    payload_shell(argv, "/bin/bash", NULL, "/d/run.sh");
    is_command(argv, "/bin/bash|-eo|pipefail|/d/run.sh");
    payload_shell(argv, NULL, "echo a b", NULL);
    is_command(argv, "/bin/sh|-e|-c|echo a b");
    payload_shell(argv, NULL, NULL, "/d/run.sh");
    is_command(argv, "/bin/sh|-e|/d/run.sh");
}

static void long_text_goes_through_a_file(void **state)
{
    (void)state;
    struct err err = {0};
    struct payload p;
    char path[300];
    char *limit = text_of(PAYLOAD_ARGUMENT), *beyond = text_of(PAYLOAD_ARGUMENT + 1);

    json_t *spec = json_pack("{s:s, s:s}", "run", limit, "setup", limit);
    assert_int_equal(payload_make(&p, spec, dir, "/nowhere", &err), 0);
    assert_string_equal(last(p.argv, 1), "-c");
    assert_string_equal(last(p.argv, 0), limit);
    assert_string_equal(last(p.setup_argv, 0), limit);
    json_decref(spec);

    spec = json_pack("{s:s, s:s}", "run", beyond, "setup", beyond);
    assert_int_equal(payload_make(&p, spec, dir, "/nowhere", &err), 0);
    snprintf(path, sizeof(path), "%s/run.sh", dir);
    assert_string_equal(last(p.argv, 0), path);
    assert_string_not_equal(last(p.argv, 1), "-c");
    is_file(path, beyond);
    snprintf(path, sizeof(path), "%s/setup.sh", dir);
    assert_string_equal(last(p.setup_argv, 0), path);
    is_file(path, beyond);
    json_decref(spec);
    free(limit);
    free(beyond);
}

static void overwrite(const char *path)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 2, SEEK_SET), 0);
    assert_int_equal(fputc('!', f), '!');
    fclose(f);
}

/* Each generation runs what the job was submitted with, whatever became of the files meanwhile. */
static void damaged_files_are_written_again(void **state)
{
    (void)state;
    static const char *const names[] = {"run.sh", "setup.sh", "spec.json"};
    struct err err = {0};
    struct payload p;
    char path[300], *beyond = text_of(PAYLOAD_ARGUMENT + 1);
    json_t *script = json_pack("{s:s, s:s}", "run", beyond, "setup", beyond);
    json_t *train = json_pack("{s:{s:i}}", "train", "seed", 2);
    for (int i = 0; i < 3; i++) {
        const json_t *spec = i < 2 ? script : train;
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        assert_int_equal(payload_make(&p, spec, dir, "/bin/sh", &err), 0);
        overwrite(path);
        assert_int_equal(payload_renew(&p, spec, &err), 0);
        is_file(path, i < 2 ? beyond : "{\"train\":{\"seed\":2}}");
    }
    free(beyond);
    json_decref(script);
    json_decref(train);
}

static void a_directory_that_cannot_be_written_is_told(void **state)
{
    (void)state;
    struct err err = {0};
    struct payload p;
    json_t *spec = json_pack("{s:{}}", "train");
    assert_int_equal(payload_make(&p, spec, "/nowhere at all", "/nowhere", &err), -1);
    assert_string_equal(err.text, "cannot write '/nowhere at all/spec.json': No such file or directory");
    json_decref(spec);
    spec = json_pack("{s:s}", "run", "true");
    assert_int_equal(payload_make(&p, spec, "/nowhere at all", "/nowhere", &err), 0);      /* writes nothing */
    assert_string_equal(p.spec_path, "");
    json_decref(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_ends_a_shell),
        cmocka_unit_test_setup_teardown(long_text_goes_through_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_files_are_written_again, setup, teardown),
        cmocka_unit_test(a_directory_that_cannot_be_written_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
