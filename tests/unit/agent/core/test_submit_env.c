/* SPDX-License-Identifier: Apache-2.0 */
/* test_submit_env.c - which variables a job takes from its submitter, which are secret, which stay the node's */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/core/submit_env.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *name;
    enum submit_env_fate fate, in_job;
} fates[] = {
    {"PATH", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"VIRTUAL_ENV", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"CONDA_PREFIX", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"LOADEDMODULES", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"BASH_FUNC_module%%", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"BASH_ENV", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"LD_LIBRARY_PATH", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"LC_ALL", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"TOKENIZERS_PARALLELISM", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"MONKEY", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"WANDB_PROJECT", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"CUDA_VISIBLE_DEVICES", SUBMIT_ENV_TAKEN, SUBMIT_ENV_LEFT},
    {"OMP_NUM_THREADS", SUBMIT_ENV_TAKEN, SUBMIT_ENV_LEFT},
    {"NCCL_DEBUG", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"WANDB_API_KEY", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"HF_TOKEN", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"my_token", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"CLIENT_SECRET", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"DB_PASSWORD_FILE", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"PGPASSWORD", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"AWS_ACCESS_KEY_ID", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"AWS_SESSION_X", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"AWS_REGION", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"AWS_CA_BUNDLE", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"AWS_PROFILE_KEY", SUBMIT_ENV_SECRET, SUBMIT_ENV_SECRET},
    {"JOBCTL_HOME", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"JOBCTL_NONCE", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"SLURM_JOB_ID", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"SSH_AUTH_SOCK", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"SSH_SECRET_KEY", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"DISPLAY", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"DISPLAY_NAME", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"TMUX", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"_", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"_CE_CONDA", SUBMIT_ENV_TAKEN, SUBMIT_ENV_TAKEN},
    {"PWD", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"OLDPWD", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"SHLVL", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"MAKEFLAGS", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
    {"A=B", SUBMIT_ENV_LEFT, SUBMIT_ENV_LEFT},
};

static void each_name_has_its_fate(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(fates); i++) {
        const char *why;
        const enum submit_env_fate fate = submit_env_fate(fates[i].name, false, &why);
        if (fate != fates[i].fate || submit_env_fate(fates[i].name, true, NULL) != fates[i].in_job)
            fail_msg("%s: %d", fates[i].name, (int)fate);
        assert_true((why != NULL) == (fate == SUBMIT_ENV_LEFT));
    }
}

static void each_place_has_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool here, granted;
    } rows[] = {
        {"PATH", false, false},         {"LD_LIBRARY_PATH=/x", false, false},
        {"VIRTUAL_ENV", false, false},  {"CUDA_VISIBLE_DEVICES=0,1", false, true},
        {"SLURM_JOB_ID=4", false, true}, {"SLURMX", false, false},
        {"JOBCTL_HOME=/h", true, true}, {"JOBCTL_MACHINE_DIR=/m", true, true}, {"JOBCTL_HOMES", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (submit_env_is_nodes(SUBMIT_ENV_HERE, rows[i].name) != rows[i].here ||
            submit_env_is_nodes(SUBMIT_ENV_GRANTED, rows[i].name) != rows[i].granted ||
            !submit_env_is_nodes(SUBMIT_ENV_HOST, rows[i].name))
            fail_msg("%s", rows[i].name);
    for (int p = SUBMIT_ENV_HERE; p <= SUBMIT_ENV_HOST; p++)
        assert_int_equal(submit_env_place_of(submit_env_place_name((enum submit_env_place)p)), p);
    assert_int_equal(submit_env_place_of(""), SUBMIT_ENV_HOST);
    assert_int_equal(submit_env_place_of(NULL), SUBMIT_ENV_HOST);
}

static void what_the_kernel_refuses_is_said(void **state)
{
    (void)state;
    struct err err = {0};
    char *value = malloc(SUBMIT_ENV_ENTRY_MAX);
    memset(value, 'x', SUBMIT_ENV_ENTRY_MAX);
    value[SUBMIT_ENV_ENTRY_MAX - 6] = '\0'; /* with BIG= and the NUL: one byte less than too much */
    json_t *env = json_pack("{s:s, s:s}", "BIG", value, "A", "1");
    assert_int_equal(submit_env_check(env, NULL, &err), 0);
    value[SUBMIT_ENV_ENTRY_MAX - 6] = 'x';
    value[SUBMIT_ENV_ENTRY_MAX - 4] = '\0';
    json_object_set_new(env, "BIG", json_string(value));
    assert_int_equal(submit_env_check(env, NULL, &err), -1);
    assert_non_null(strstr(err.text, "BIG alone has 131073"));
    assert_non_null(strstr(err.text, "env_from: clean"));
    json_decref(env);

    value[100000] = '\0';
    env = json_object();
    for (int i = 0; i < 10; i++)
        json_object_set_new(env, (char[]){'V', (char)('0' + i), 0}, json_string(value));
    assert_int_equal(submit_env_check(env, NULL, &err), 0);
    assert_int_equal(submit_env_check(env, env, &err), -1);
    json_decref(env);
    free(value);
}

static void a_rank_is_known(void **state)
{
    (void)state;
    json_t *rank = json_pack("{s:s}", "JOBCTL_GENERATION", "1"), *shell = json_pack("{s:s}", "JOBCTL_HOME", "/h");
    assert_true(submit_env_in_job(rank));
    assert_false(submit_env_in_job(shell));
    assert_false(submit_env_in_job(NULL));
    json_decref(rank);
    json_decref(shell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_has_its_fate),
        cmocka_unit_test(each_place_has_its_own),
        cmocka_unit_test(what_the_kernel_refuses_is_said),
        cmocka_unit_test(a_rank_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
