/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu_numbers.c - numbers of GPUs in a plan against the driver's list, from a recorded /proc */
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

#include "agent/probe/gpu_numbers.h"
#include "agent/ranks/launch_env.h"

enum { GPUS = 3 };

static char root[] = "/tmp/gpu_numbers.XXXXXX";

/* One GPU of the driver's list; NULL: not there. */
static void put(int number, const char *uuid)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/0000:%02x:00.0/information", root, number + 1);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    if (!uuid)
        return;
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/information");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "Model: \t\t Tesla T4\nIRQ:   \t\t 11\nGPU UUID: \t %s\n", uuid);
    fclose(f);
}

static void numbers_are_compared_by_uuid(void **state)
{
    static const struct {
        const char *uuids[GPUS], *ranks;
        bool        hold;
    } rows[] = {
        {{"GPU-a", "GPU-b", "GPU-c"}, "[{\"gpu\":\"GPU-b\",\"index\":1},{\"gpu\":\"GPU-c\",\"index\":2}]", true},
        {{"GPU-b", "GPU-c", NULL}, "[{\"gpu\":\"GPU-b\",\"index\":1},{\"gpu\":\"GPU-c\",\"index\":2}]", false},
        {{"GPU-a", "GPU-?\?-?", "GPU-c"}, "[{\"gpu\":\"GPU-a\",\"index\":0}]", true},
        {{"GPU-a", "GPU-?\?-?", "GPU-c"}, "[{\"gpu\":\"GPU-c\",\"index\":2}]", false},
        {{"GPU-b", "GPU-c", NULL}, "[{\"gpu\":\"GPU-b\"}]", true},  /* given by UUID */
        {{NULL, NULL, NULL}, "[{\"gpu\":\"GPU-b\",\"index\":1}]", true},
        {{"GPU-b", NULL, NULL}, "[{\"gpu\":null}]", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *ranks = json_loads(rows[i].ranks, 0, NULL);
        for (int k = 0; k < GPUS; k++)
            put(k, rows[i].uuids[k]);
        if (gpu_numbers_hold(ranks) != rows[i].hold)
            fail_msg("row %zu", i);
        json_decref(ranks);
    }
}

/* A rank then gets UUIDs, unless the job sets the variable itself. */
static void moved_gpus_are_given_by_uuid(void **state)
{
    static const struct {
        const char *own, *want;
        bool        moved;
    } rows[] = {{"[]", "CUDA_VISIBLE_DEVICES=1,2", false},
                {"[]", "CUDA_VISIBLE_DEVICES=GPU-b,GPU-c", true},
                {"[{\"name\":\"CUDA_VISIBLE_DEVICES\",\"value\":\"0\"}]", "CUDA_VISIBLE_DEVICES=0", true}};
    char *const none[] = {NULL};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *plan = json_pack("{s:s, s:[{s:s, s:s}], s:o}", "uuids", "GPU-b,GPU-c", "env", "name",
                                 "CUDA_VISIBLE_DEVICES", "value", "1,2", "user_env", json_loads(rows[i].own, 0, NULL));
        const struct launch_env e = {.generation = 2, .name = "n", .nonce = "0", .run_dir = "/r", .ckpt_dir = "/c",
                                     .world_size = 2, .plan = plan, .gpus_moved = rows[i].moved};
        char **env = launch_env_make(&e, 0, none, NULL);
        int found = 0;
        for (char **at = env; *at; at++)
            found += strcmp(*at, rows[i].want) == 0;
        assert_int_equal(found, 1);
        free(env);
        json_decref(plan);
    }
}

static int make_root(void **state)
{
    static const char *const parts[] = {"proc", "driver", "nvidia", "gpus"};
    char path[200];
    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(path, sizeof(path), "%s", root);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", parts[i]);
        if (mkdir(path, 0700) < 0)
            return -1;
    }
    return setenv("JOBCTL_SYSROOT", root, 1);
}

static int remove_root(void **state)
{
    char path[200];
    (void)state;
    for (int k = 0; k < GPUS; k++)
        put(k, NULL);
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus", root);
    for (; strlen(path) >= strlen(root); *strrchr(path, '/') = '\0')
        rmdir(path);
    return unsetenv("JOBCTL_SYSROOT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_compared_by_uuid),
        cmocka_unit_test(moved_gpus_are_given_by_uuid),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
