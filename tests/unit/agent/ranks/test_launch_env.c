/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_env.c - what ranks inherit on each kind of node, from the submitter and from the node */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/os/env_file.h"
#include "agent/ranks/launch_env.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The value, or NULL; it must not stand there twice. */
static const char *value_of(char *const *env, const char *name)
{
    const size_t n = strlen(name);
    const char *found = NULL;
    for (; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') {
            assert_null(found);
            found = *env + n + 1;
        }
    return found;
}

static void each_variable_is_of_one_of_both(void **state)
{
    (void)state;
    char *const node[] = {(char[]){"PATH=/node"},     (char[]){"CUDA_VISIBLE_DEVICES=3"},
                          (char[]){"SLURM_JOB_ID=9"}, (char[]){"JOBCTL_HOME=/h"},
                          (char[]){"LANG=C"},         NULL};
    static const struct {
        const char *name;
        const char *want[3]; /* here, granted, host */
    } rows[] = {
        {"PATH", {"/submitter", "/submitter", "/node"}},
        {"CUDA_VISIBLE_DEVICES", {"0", "3", "3"}},
        {"SLURM_JOB_ID", {NULL, "9", "9"}},
        {"JOBCTL_HOME", {"/h", "/h", "/h"}},
        {"LANG", {NULL, NULL, "C"}},
        {"VIRTUAL_ENV", {"/venv", "/venv", NULL}},
        {"HF_TOKEN", {NULL, NULL, NULL}},
    };
    struct buf submitter = {NULL, 0, 0};
    env_file_put(&submitter, "PATH", "/submitter");
    env_file_put(&submitter, "CUDA_VISIBLE_DEVICES", "0");
    env_file_put(&submitter, "VIRTUAL_ENV", "/venv");
    env_file_put(&submitter, "HF_TOKEN", NULL); /* a name whose value is elsewhere */
    for (int place = SUBMIT_ENV_HERE; place <= SUBMIT_ENV_HOST; place++) {
        char **env = launch_env_base((enum submit_env_place)place, node, &submitter);
        assert_non_null(env);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            const char *got = value_of(env, rows[i].name), *want = rows[i].want[place];
            if (!got != !want || (got && strcmp(got, want) != 0))
                fail_msg("%s of %s: %s", rows[i].name, submit_env_place_name((enum submit_env_place)place),
                         got ? got : "(none)");
        }
        free(env);
    }
    buf_fini(&submitter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_variable_is_of_one_of_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
