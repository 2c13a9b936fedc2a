/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_code.c - the code that a submit left becomes a job's, a retry's, and is kept as long as a job needs it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/base/daemon.h"
#include "controller/job/job_code.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

#define DIGEST "0123456789abcdef0123456789abcdef"

static struct daemon d;

static const char *in_home(const char *name)
{
    static char path[4][304];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof(path[0]), "%.150s/%.149s", d.home.path, name);
    return p;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(in_home(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static bool there(const char *name)
{
    return access(in_home(name), F_OK) == 0;
}

static int up(void **state)
{
    (void)state;
    int lock;
    char home[100];
    scratch_dir_create(home, sizeof(home), "code");
    snprintf(d.home.path, sizeof(d.home.path), "%s", home);
    assert_int_equal(job_code_open(&lock, d.home.path, NULL), 0);
    close(lock);
    return mkdir(in_home("jobs"), 0700);
}

static int down(void **state)
{
    (void)state;
    return scratch_dir_remove(d.home.path);
}

/* What `jobctl submit` leaves: a record with or without a snapshot, whose original lies beside it. */
static void stage(const char *name, bool snapshot)
{
    char file[100];
    snprintf(file, sizeof(file), "code/%s", name);
    assert_int_equal(mkdir(in_home(file), 0700), 0);
    snprintf(file, sizeof(file), "code/%s/info.json", name);
    put(file, "{\"snapshot\":\"" DIGEST "\",\"must\":false}");
    if (!snapshot)
        return;
    assert_int_equal(mkdir(in_home("code/" DIGEST), 0700), 0);
    put("code/" DIGEST "/manifest.json", "{}");
    snprintf(file, sizeof(file), "code/%s/manifest.json", name);
    assert_int_equal(job_code_link(in_home("code/" DIGEST "/manifest.json"), in_home(file), NULL), 0);
}

static void code_becomes_that_of_a_job(void **state)
{
    (void)state;
    struct err err = { 0 };
    char dir[PATH_MAX];
    stage(".tmp-1", true);
    assert_false(job_code_dir(dir, sizeof(dir), &d, 7));
    assert_int_equal(job_code_adopt(&d, 7, ".tmp-1", true, &err), 0);
    assert_false(there("code/.tmp-1"));
    assert_true(there("jobs/7/code/info.json"));
    assert_true(job_code_dir(dir, sizeof(dir), &d, 7));
    assert_string_equal(dir, in_home("jobs/7/code"));
    json_t *info = job_code_info(in_home("jobs/7"));
    assert_string_equal(json_string_value(json_object_get(info, "dir")), in_home("jobs/7/code"));
    json_decref(info);
    assert_null(job_code_info(in_home("jobs/8")));
    /* Without a record there is none, and what a job of this number left that was never stored goes. */
    assert_int_equal(mkdir(in_home("jobs/8"), 0700) + mkdir(in_home("jobs/8/code"), 0700), 0);
    put("jobs/8/code/info.json", "{}");
    assert_int_equal(job_code_adopt(&d, 8, "", false, &err), 0);
    assert_false(there("jobs/8/code"));
    assert_int_equal(job_code_adopt(&d, 9, ".tmp-gone", false, &err), 0); /* recorded in another home */
    assert_false(there("jobs/9"));
    job_code_discard(&d, 7);
    assert_false(there("jobs/7/code"));
}

static void what_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = { "x", ".tmp", "../.tmp-1", ".tmp-1/../../jobs", DIGEST, "lock" };
    stage(".tmp-1", false);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct err err = { 0 };
        assert_int_equal(job_code_adopt(&d, 7, names[i], false, &err), -1);
        assert_int_equal(err.code, ERR_USAGE);
    }
    for (int none = 0; none < 2; none++) { /* a snapshot is demanded, and there is none */
        struct err err = { 0 };
        assert_int_equal(job_code_adopt(&d, 7, none ? "" : ".tmp-1", true, &err), -1);
        assert_non_null(strstr(err.text, "snapshot: true needs the snapshot"));
    }
    assert_true(there("code/.tmp-1/info.json"));
    struct err err = { 0 };
    assert_int_equal(job_code_inherit(&d, 6, 7, true, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_false(there("jobs/7"));
}

static void a_retry_has_the_code_of_its_job(void **state)
{
    (void)state;
    struct stat st;
    stage(".tmp-1", true);
    put("code/.tmp-1/diff.patch", "+x\n");
    put("code/.tmp-1/other", "not a record\n");
    assert_int_equal(job_code_adopt(&d, 7, ".tmp-1", true, NULL), 0);
    assert_int_equal(job_code_inherit(&d, 7, 8, true, NULL), 0);
    assert_true(there("jobs/8/code/info.json") && there("jobs/8/code/diff.patch") && there("jobs/8/code/manifest.json"));
    assert_false(there("jobs/8/code/other") || there("jobs/8/code/commit"));
    assert_int_equal(stat(in_home("code/" DIGEST "/manifest.json"), &st), 0);
    assert_int_equal(st.st_nlink, 3);
    assert_int_equal(job_code_inherit(&d, 5, 9, false, NULL), 0); /* it had none */
    assert_false(there("jobs/9"));
}

/* An original goes with the last job that has a link to it, and not while a submit may be about to make one. */
static void originals_are_kept_while_needed(void **state)
{
    (void)state;
    int lock;
    stage(".tmp-1", true);
    put("code/notes.txt", "of a user\n");
    assert_int_equal(job_code_adopt(&d, 7, ".tmp-1", true, NULL), 0);
    job_code_collect(d.home.path);
    assert_true(there("code/" DIGEST));
    job_code_discard(&d, 7);
    assert_int_equal(job_code_open(&lock, d.home.path, NULL), 0);
    job_code_collect(d.home.path);
    assert_true(there("code/" DIGEST));
    close(lock);
    put("code/" DIGEST "/kept", ""); /* links cannot be counted there */
    job_code_collect(d.home.path);
    assert_true(there("code/" DIGEST));
    unlink(in_home("code/" DIGEST "/kept"));
    job_code_collect(d.home.path);
    assert_false(there("code/" DIGEST));
    assert_true(there("code/notes.txt") && there("code/lock"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(code_becomes_that_of_a_job, up, down),
        cmocka_unit_test_setup_teardown(what_is_refused, up, down),
        cmocka_unit_test_setup_teardown(a_retry_has_the_code_of_its_job, up, down),
        cmocka_unit_test_setup_teardown(originals_are_kept_while_needed, up, down),
    };
    return cmocka_run_group_tests_name("job_code", tests, NULL, NULL);
}
