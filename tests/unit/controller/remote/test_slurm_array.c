/* SPDX-License-Identifier: Apache-2.0 */
/* test_slurm_array.c - the texts of a job array, and which of Slurm's records belongs to a task */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/remote/sbatch.h"
#include "controller/remote/slurm_array.h"
#include "controller/remote/slurm_job.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

/* All members of a sweep have one script, which has nothing of a single one of them. */
static void one_script_for_all(void **state)
{
    (void)state;
    struct err err = { 0 };
    char *scripts[2], comment[SBATCH_COMMENT];
    sbatch_array_comment(comment, 7, 8, "c0ffee");
    assert_string_equal(comment, "jobctl-array:7.8:c0ffee");
    for (int i = 0; i < 2; i++) {
        json_t *spec = json_pack("{s:o, s:{s:i}}", "name", json_sprintf("lr[%d]", i), "resources", "gpus", 1);
        const struct sbatch s = { .spec = spec, .job = 8 + i, .attempt = 1, .nonce = i ? "beef" : "c0ffee",
                                  .run_dir = "/run/7/1", .agent = "/a", .array = "/run/7/arrays/c0",
                                  .array_comment = comment };
        scripts[i] = sbatch_render(&s, &err);
        assert_non_null(scripts[i]);
        json_decref(spec);
    }
    assert_string_equal(scripts[0], scripts[1]);
    static const char *const has[] = {
        "#SBATCH --job-name=lr\n", "#SBATCH --comment=jobctl-array:7.8:c0ffee\n", "#SBATCH --chdir=/run/7/arrays/c0\n",
        "#SBATCH --output=/run/7/arrays/c0/%a.log\n", " <\"/run/7/arrays/c0/$SLURM_ARRAY_TASK_ID.task\" || exit 4\n",
    };
    for (size_t i = 0; i < sizeof(has) / sizeof(has[0]); i++)
        if (!strstr(scripts[0], has[i]))
            fail_msg("no line %s in %s", has[i], scripts[0]);
    free(scripts[0]);
    free(scripts[1]);
}

static void the_line_with_the_tasks(void **state)
{
    (void)state;
    static const struct { int count; int64_t most; const char *is; } table[] = {
        { 12, 3, "#!/bin/bash\n#SBATCH --array=0-11%3\n#SBATCH --nodes=1\n" },
        { 12, 0, "#!/bin/bash\n#SBATCH --array=0-11\n#SBATCH --nodes=1\n" },
        { 12, 12, "#!/bin/bash\n#SBATCH --array=0-11\n#SBATCH --nodes=1\n" },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char *script = slurm_array_script("#!/bin/bash\n#SBATCH --nodes=1\n", "0-11", table[i].count, table[i].most);
        assert_string_equal(script, table[i].is);
        free(script);
    }
}

/* The shell of a task reads it as the script does. */
static void a_task_finds_its_attempt(void **state)
{
    (void)state;
    char *text = slurm_array_task_text("/home/me/.jobctl/jobs/9/1", 9, 1, "c0ffee");
    assert_string_equal(text, "/home/me/.jobctl/jobs/9/1\n9 1 c0ffee\n");
    free(text);
}

static void which_record_is_that_of_a_task(void **state)
{
    (void)state;
    static const struct { const char *job; int task; bool is; const char *number; } table[] = {
        { "{\"job\":12,\"comment\":\"jobctl-array:7.8:c0\",\"task\":3}", 3, true, "12_3" },
        { "{\"job\":12,\"comment\":\"jobctl-array:7.8:c0\",\"task\":4}", 3, false, NULL },
        { "{\"job\":12,\"comment\":\"jobctl-array:7.8:c0\",\"tasks\":\"1,3-5\"}", 4, true, "12_4" },
        { "{\"job\":12,\"comment\":\"jobctl-array:7.8:c0\",\"tasks\":\"1,3-5\"}", 2, false, NULL },
        { "{\"job\":12,\"comment\":\"jobctl-array:7.8:c0\",\"tasks\":\"\"}", 0, false, NULL },
        { "{\"job\":12,\"comment\":\"jobctl-array:7.8:c0\"}", 0, false, NULL },
        { "{\"job\":12,\"comment\":\"jobctl-array:7.8:c1\",\"task\":3}", 3, false, NULL },
        { "{\"job\":12,\"comment\":\"jobctl:9.1:c0\"}", 3, false, "12" },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct slurm_array_member m = { .comment = "jobctl-array:7.8:c0", .task = table[i].task };
        char number[SLURM_JOB_NUMBER];
        json_t *job = json_loads(table[i].job, 0, NULL);
        assert_non_null(job);
        if (slurm_array_is(&m, job) != table[i].is)
            fail_msg("row %zu", i);
        if (table[i].number)
            assert_string_equal(slurm_job_number(number, job, m.task), table[i].number);
        m.comment[0] = '\0';
        assert_false(slurm_array_is(&m, job));  /* an attempt without an array */
        json_decref(job);
    }
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Without the script, which is written last, nothing was submitted. */
static void an_array_of_an_earlier_daemon(void **state)
{
    (void)state;
    char dir[128], text[400];
    scratch_dir_create(dir, sizeof(dir), "slurm-array");
    struct remote_link link = { .run_dir = dir };
    struct slurm_array_member m = { .link = &link };
    assert_false(slurm_array_recall(&m));
    snprintf(text, sizeof(text), "{\"dir\":\"%s\",\"task\":5,\"comment\":\"jobctl-array:7.8:c0\"}", dir);
    write_text(dir, "array.json", text);
    assert_false(slurm_array_recall(&m));
    assert_string_equal(m.comment, "");
    write_text(dir, "script", "#!/bin/bash\n");
    assert_true(slurm_array_recall(&m));
    assert_int_equal(m.task, 5);
    assert_string_equal(m.comment, "jobctl-array:7.8:c0");
    assert_string_equal(m.dir, dir);
    static const char *const bad[] = { "", "[]", "{\"dir\":7,\"task\":5,\"comment\":\"c\"}",
                                       "{\"dir\":\"/x\",\"comment\":\"c\"}" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_text(dir, "array.json", bad[i]);
        assert_false(slurm_array_recall(&m));
    }
    assert_int_equal(scratch_dir_remove(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_script_for_all), cmocka_unit_test(the_line_with_the_tasks),
        cmocka_unit_test(a_task_finds_its_attempt), cmocka_unit_test(which_record_is_that_of_a_task),
        cmocka_unit_test(an_array_of_an_earlier_daemon),
    };
    return cmocka_run_group_tests_name("slurm_array", tests, NULL, NULL);
}
