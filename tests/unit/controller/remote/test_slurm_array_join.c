/* SPDX-License-Identifier: Apache-2.0 */
/* test_slurm_array_join.c - which attempts share an array, its files, and Slurm's answers, given by this test */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/base/file_work.h"
#include "controller/remote/slurm_array.h"
#include "controller/remote/slurm_client.h"
#include "engine/base/err.h"
#include "engine/base/json_file.h"
#include "tests/unit/agent/os/loop_fixture.h"
#include "tests/unit/engine/contract/scratch_dir.h"

enum { MEMBERS = 6, PATIENCE_MS = 60000 };

/* In place of jobctl-slurm. */
static struct {
    json_t         *request;
    slurm_answer_fn answer;
    void           *arg;
    int             asked;
} slurm;

void slurm_client_ask(json_t *request, slurm_answer_fn answer, void *arg)
{
    json_decref(slurm.request);
    slurm.request = request;
    slurm.answer = answer;
    slurm.arg = arg;
    slurm.asked++;
}

void slurm_client_forget(const void *arg)
{
    slurm.arg = slurm.arg == arg ? NULL : slurm.arg;
}

static void answer(const char *text)
{
    json_t *body = json_loads(text, 0, NULL);
    assert_non_null(slurm.arg);
    slurm.answer(slurm.arg, body);
    json_decref(body);
}

static char dir[80];
static struct file_work *files;
static struct {
    struct slurm_array_member m; /* first: tell() gets it */
    struct remote_link        link;
    char                      run_dir[120];
    int                       told[3];
} at[MEMBERS];
static int ended; /* members that were told ANSWERED or ALONE */

static void tell(struct slurm_array_member *m, enum slurm_array_end end, const json_t *body)
{
    for (int i = 0; i < MEMBERS; i++)
        at[i].told[end] += m == &at[i].m;
    assert_int_equal(end == SLURM_ARRAY_ANSWERED, body != NULL);
    ended += end != SLURM_ARRAY_ASKED;
}

static void wait_longer(struct slurm_array_member *m, const char *text)
{
    (void)m;
    (void)text;
}

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "join");
    uv_loop_init(&loop);
    memset(&slurm, 0, sizeof(slurm));
    memset(at, 0, sizeof(at));
    ended = 0;
    files = file_work_open(&loop, PATIENCE_MS, NULL);
    for (int i = 0; i < MEMBERS; i++) {
        snprintf(at[i].run_dir, sizeof(at[i].run_dir), "%s/run%d", dir, i);
        assert_int_equal(mkdir(at[i].run_dir, 0700), 0);
        at[i].link = (struct remote_link){.loop = &loop, .files = files, .job = 10 + i, .attempt = 1,
                                          .nonce = "c0ffee", .run_dir = at[i].run_dir};
        at[i].m = (struct slurm_array_member){.link = &at[i].link, .of.sweep = 7, .tell = tell, .wait = wait_longer};
        snprintf(at[i].m.sweep_dir, sizeof(at[i].m.sweep_dir), "%s/7", dir);
    }
    return files ? 0 : -1;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < MEMBERS; i++)
        slurm_array_leave(&at[i].m);
    file_work_close(files);
    run_until(NULL, 0, 1);
    json_decref(slurm.request);
    return uv_loop_close(&loop) == 0 ? scratch_dir_remove(dir) : -1;
}

static void join(int i, int gpus)
{
    struct err err = {0};
    char nonce[16];
    json_t *spec = json_pack("{s:o, s:{s:i}}", "name", json_sprintf("lr[%d]", i), "resources", "gpus", gpus);
    snprintf(nonce, sizeof(nonce), "c0ffee%u", (unsigned char)i);
    const struct sbatch s = {.spec = spec, .job = 10 + i, .attempt = 1, .nonce = nonce,
                             .run_dir = at[i].run_dir, .agent = "/a"};
    if (slurm_array_join(&at[i].m, &s, NULL, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(spec);
    assert_non_null(at[i].m.array);
}

/* One array for those of a sweep, of a wave, with one script; what is submitted already takes nobody any more. */
static void who_shares_an_array(void **state)
{
    (void)state;
    at[2].m.of.sweep = 8;
    at[3].m.of.wave = 2;
    at[3].m.of.size = 2;
    join(0, 1);
    join(1, 1);
    join(2, 1); /* another sweep */
    join(3, 1); /* another wave */
    join(4, 2); /* another script */
    assert_ptr_equal(at[0].m.array, at[1].m.array);
    for (int i = 2; i <= 4; i++)
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(at[i].m.array, at[k].m.array);
    assert_true(run_until(&slurm.asked, 1, PATIENCE_MS));
    assert_int_equal(at[0].told[SLURM_ARRAY_ASKED] + at[1].told[SLURM_ARRAY_ASKED], 2);
    struct slurm_array *submitted = at[0].m.array;
    join(5, 1);
    assert_ptr_not_equal(at[5].m.array, submitted);
    answer("{\"ok\":true,\"job\":900}");
    assert_int_equal(at[0].told[SLURM_ARRAY_ANSWERED] + at[1].told[SLURM_ARRAY_ANSWERED], 2);
    assert_true(!at[0].m.array && !at[1].m.array && at[5].m.array);
    assert_true(run_until(&ended, 5, PATIENCE_MS)); /* 2, 4 and 5 are alone: separate jobs; 3 waits for its wave */
    for (int i = 2; i <= 5; i++)
        assert_int_equal(at[i].told[SLURM_ARRAY_ALONE], i != 3);
    assert_int_equal(slurm.asked, 1);
    assert_string_equal(at[5].m.dir, "");
}

static void assert_file(const char *folder, const char *name, const char *want)
{
    char path[400], text[4000] = "";
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    if (want)
        assert_string_equal(text, want);
}

/* A wave is complete with its last member; before the submission, all files are there. */
static void files_come_before_the_submission(void **state)
{
    (void)state;
    char text[400], log[200];
    for (int i = 0; i < 3; i++) {
        at[i].m.of.wave = 1;
        at[i].m.of.size = 3;
        at[i].m.of.most = 2;
        join(i, 1);
    }
    assert_true(run_until(&slurm.asked, 1, PATIENCE_MS));
    assert_string_equal(json_string_value(json_object_get(slurm.request, "op")), "submit");
    assert_non_null(strstr(json_string_value(json_object_get(slurm.request, "script")),
                           "#!/bin/bash\n#SBATCH --array=0-2%2\n"));
    for (int i = 0; i < 3; i++) {
        char name[20], path[400];
        snprintf(name, sizeof(name), "%d.task", i);
        snprintf(text, sizeof(text), "%s\n%d 1 c0ffee\n", at[i].run_dir, 10 + i);
        assert_int_equal(at[i].m.task, i);
        assert_file(at[i].m.dir, name, text);
        snprintf(path, sizeof(path), "%.300s/%d.log", at[i].m.dir, i);
        snprintf(text, sizeof(text), "%s/slurm.log", at[i].run_dir);
        log[readlink(path, log, sizeof(log) - 1)] = '\0';
        assert_string_equal(log, text);
        struct slurm_array_member again = {.link = &at[i].link};
        assert_true(slurm_array_recall(&again));
        assert_int_equal(again.task, i);
        assert_string_equal(again.dir, at[i].m.dir);
        assert_string_equal(again.comment, at[i].m.comment);
    }
    assert_file(at[0].m.dir, "script", NULL);
    /* Slurm does not answer: the attempts keep their array, and a later submission is for those that lack it. */
    answer("{\"ok\":false,\"away\":true,\"error\":\"x\"}");
    for (int i = 0; i < 3; i++)
        assert_int_equal(at[i].told[SLURM_ARRAY_ANSWERED], 1);
    at[1].m.of = at[2].m.of = (struct remote_array){.sweep = 7};
    join(1, 1);
    join(2, 1);
    assert_ptr_equal(at[1].m.array, at[2].m.array);
    join(3, 1);
    assert_ptr_not_equal(at[3].m.array, at[1].m.array); /* not in an array that Slurm may know */
    assert_true(run_until(&slurm.asked, 2, PATIENCE_MS));
    assert_non_null(strstr(json_string_value(json_object_get(slurm.request, "script")), "#SBATCH --array=1,2\n"));
}

/* Rejected as an array: separate jobs, and no file says that there may be an array. */
static void a_rejected_array_leaves_no_trace(void **state)
{
    (void)state;
    join(0, 1);
    join(1, 1);
    assert_true(run_until(&slurm.asked, 1, PATIENCE_MS));
    answer("{\"ok\":false,\"error\":\"Job array index too large\"}");
    for (int i = 0; i < 2; i++) {
        struct slurm_array_member again = {.link = &at[i].link};
        assert_int_equal(at[i].told[SLURM_ARRAY_ALONE], 1);
        assert_int_equal(at[i].told[SLURM_ARRAY_ANSWERED], 0);
        assert_string_equal(at[i].m.dir, "");
        assert_string_equal(at[i].m.comment, "");
        assert_false(slurm_array_recall(&again));
    }
}

/* Who is stopped leaves: the others do not wait for it, and the last one ends the array. */
static void leaving(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        at[i].m.of.wave = 1;
        at[i].m.of.size = 4;
        if (i < 3)
            join(i, 1);
    }
    slurm_array_leave(&at[1].m);
    assert_null(at[1].m.array);
    assert_false(run_until(&slurm.asked, 1, 20)); /* one is still missing */
    join(3, 1);
    assert_true(run_until(&slurm.asked, 1, PATIENCE_MS));
    assert_int_equal(at[3].m.task, 2);
    assert_int_equal(at[1].told[SLURM_ARRAY_ASKED], 0);
    slurm_array_leave(&at[0].m);
    answer("{\"ok\":true,\"job\":901}");
    assert_int_equal(at[0].told[SLURM_ARRAY_ANSWERED], 0);
    assert_int_equal(at[2].told[SLURM_ARRAY_ANSWERED] + at[3].told[SLURM_ARRAY_ANSWERED], 2);
    join(4, 1);
    join(5, 1);
    slurm_array_leave(&at[4].m);
    slurm_array_leave(&at[5].m);
    assert_null(slurm.arg);
    assert_false(run_until(&slurm.asked, 2, 600));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_shares_an_array, up, down),
        cmocka_unit_test_setup_teardown(files_come_before_the_submission, up, down),
        cmocka_unit_test_setup_teardown(a_rejected_array_leaves_no_trace, up, down),
        cmocka_unit_test_setup_teardown(leaving, up, down),
    };
    return cmocka_run_group_tests_name("slurm_array_join", tests, NULL, NULL);
}
