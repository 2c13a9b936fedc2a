/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c - each row is a machine and a spec; then the environment of the ranks */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/plan/plan.h"
#include "agent/probe/probe.h"
#include "agent/ranks/launch_env.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define GPU(uuid, healthy, mig)                                                                    \
    "{\"index\":0,\"uuid\":\"" uuid                                                                \
    "\",\"name\":\"NVIDIA A100\",\"memory_bytes\":1,\"pci\":\"p\","                                \
    "\"compute\":\"8.0\",\"mig\":" mig ",\"healthy\":" healthy ",\"note\":\"lost\"}"
#define MACHINE(cpus, rest, gpus)                                                                  \
    "{\"cpus\":" cpus ",\"shm_bytes\":99999999999" rest ",\"gpus\":[" gpus "]}"

/* Recorded shapes: a bare VM, a notebook with one A100, two GPUs, and sick ones. */
#define BARE    MACHINE("2", ",\"cgroup_cpus\":null", "")
#define LIMITED MACHINE("64", ",\"cgroup_cpus\":3.5", "")
#define COLAB   MACHINE("12", "", GPU("GPU-a", "true", "false"))
#define TWO     MACHINE("16", "", GPU("GPU-a", "true", "false") "," GPU("GPU-b", "true", "false"))
#define TWO_NCCL                                                                                   \
    MACHINE("16", ",\"nccl\":\"2.28.9\"",                                                           \
            GPU("GPU-a", "true", "false") "," GPU("GPU-b", "true", "false"))
#define NUMBERED                                                                                   \
    MACHINE("16", "",                                                                              \
            GPU("GPU-a", "true", "false") ",{\"index\":1,\"uuid\":\"GPU-b\",\"pci\":\"q\","            \
            "\"name\":\"NVIDIA A100\",\"mig\":false,\"healthy\":true}")
#define TWICE   MACHINE("16", "", GPU("GPU-a", "true", "false") "," GPU("GPU-a", "true", "false"))
#define OUT(gpus)                                                                                  \
    MACHINE("16", ",\"excluded\":{" gpus "}",                                                      \
            GPU("GPU-a", "true", "false") "," GPU("GPU-b", "true", "false"))
#define SICK    MACHINE("16", "", GPU("GPU-a", "false", "false") "," GPU("GPU-b", "true", "false"))
#define HELD                                                                                       \
    MACHINE("16", "",                                                                              \
            "{\"index\":0,\"uuid\":\"GPU-a\",\"name\":\"NVIDIA A100\",\"healthy\":true,"             \
            "\"held\":\"held by bob since 14:02 UTC\"}," GPU("GPU-b", "true", "false"))
#define SLICED  MACHINE("16", "", GPU("GPU-a", "true", "true"))
#define SMALL                                                                                      \
    "{\"cpus\":4,\"shm_bytes\":67108864,\"gpus\":[" GPU("GPU-a", "true", "false") "," GPU(         \
        "GPU-b", "true", "false") "]}"
#define RUN   "\"run\":\"x\""
#define TRAIN "\"train\":{}"

static const struct {
    const char *what, *facts, *spec;
    int np;           /* 0: refused with text */
    const char *text; /* else contained in the printed plan */
} rows[] = {
    {"bare VM", BARE, "{" RUN "}", 1, "no GPU is used"},
    {"another user's GPU", HELD, "{" RUN "}", 1, "GPU 0 (NVIDIA A100) is not used: held by bob since 14:02 UTC"},
    {"... is not shared", HELD, "{" RUN ",\"resources\":{\"share_gpus\":true}}", 1, "is not used: held by bob"},
    {"... nor by its name", HELD, "{" RUN ",\"env\":{\"CUDA_VISIBLE_DEVICES\":\"GPU-a\"}}", 0,
     "cannot be used: it is held by bob since 14:02 UTC"},
    {"bare VM, engine", BARE, "{" TRAIN "}", 1, "\"OMP_NUM_THREADS\",\"value\":\"2\""},
    {"control group", LIMITED, "{" TRAIN "}", 1,
     "\"value\":\"3\",\"why\":\"the engine uses all 3 "
     "CPUs of its cgroup limit"},
    {"four CPU ranks", BARE, "{" RUN ",\"resources\":{\"ranks\":4}}", 4, "set by resources.ranks"},
    {"cpus shared", BARE, "{" RUN ",\"resources\":{\"ranks\":2,\"cpus\":8}}", 2,
     "\"OMP_NUM_THREADS\",\"value\":\"4\",\"why\":\"resources.cpus: 8 CPUs for 2 ranks"},
    {"fewer cpus than ranks", BARE, "{" RUN ",\"resources\":{\"ranks\":4,\"cpus\":2}}", 4,
     "\"OMP_NUM_THREADS\",\"value\":\"1\""},
    {"notebook", COLAB, "{" RUN "}", 1, "one rank for each of 1 distinct healthy GPU\""},
    {"auto words", COLAB, "{" RUN ",\"resources\":{\"gpus\":\"auto\",\"ranks\":\"auto\"}}", 1,
     "\"CUDA_VISIBLE_DEVICES\",\"value\":\"0\""},
    {"numbers in order", NUMBERED, "{" RUN "}", 2, "\"CUDA_VISIBLE_DEVICES\",\"value\":\"0,1\""},
    {"... in its own order", NUMBERED, "{" RUN ",\"env\":{\"CUDA_DEVICE_ORDER\":\"FASTEST_FIRST\"}}", 2,
     "\"CUDA_VISIBLE_DEVICES\",\"value\":\"GPU-a,GPU-b\""},
    {"one per rank", NUMBERED, "{" RUN ",\"resources\":{\"gpus\":\"one\"}}", 1, "\"value\":\"0\""},
    {"one per rank of two", NUMBERED, "{" RUN ",\"resources\":{\"gpus\":\"one\",\"ranks\":2}}", 2, "\"value\":\"0,1\""},
    {"one per rank, no GPU", BARE, "{" RUN ",\"resources\":{\"gpus\":\"one\",\"ranks\":2}}", 2, "\"device\":\"cpu\""},
    {"two GPUs", TWO, "{" RUN "}", 2, "\"CUDA_VISIBLE_DEVICES\",\"value\":\"GPU-a,GPU-b\""},
    {"one of two", TWO, "{" RUN ",\"resources\":{\"gpus\":1}}", 1, "\"value\":\"GPU-a\""},
    {"no GPU wanted", TWO, "{" RUN ",\"resources\":{\"gpus\":0}}", 1,
     "\"CUDA_VISIBLE_DEVICES\",\"value\":\"\",\"why\":\"the job requested no GPU"},
    {"listed twice", TWICE, "{" RUN "}", 1, "\"value\":\"GPU-a\""},
    {"one is sick", SICK, "{" RUN "}", 1, "GPU 0 (NVIDIA A100) is not used: lost"},
    {"one failed in this job before", OUT("\"GPU-b\":\"rank 1 crashed twice in a row\""), "{" RUN "}", 1,
     "GPU 0 (NVIDIA A100) is not used: rank 1 crashed twice in a row"},
    {"and the job names it", OUT("\"GPU-a\":\"ECC\""),
     "{" RUN ",\"env\":{\"CUDA_VISIBLE_DEVICES\":\"GPU-a,GPU-b\"}}", 1, "is not used: ECC"},
    {"all have failed in this job", OUT("\"GPU-a\":\"x\",\"GPU-b\":\"y\""), "{" RUN "}", 2,
     "so they are tried again"},
    {"the engine moves to the other one", OUT("\"GPU-a\":\"ECC\""), "{" TRAIN "}", 1,
     "\"CUDA_VISIBLE_DEVICES\",\"value\":\"GPU-b\""},
    {"a number is a promise", OUT("\"GPU-b\":\"ECC\""), "{" RUN ",\"resources\":{\"gpus\":2}}", 0,
     "GPU 0 (NVIDIA A100) is not used: ECC: set `gpus: auto` to use all of them"},
    {"sliced", SLICED, "{" RUN "}", 1, "in MIG mode"},
    {"shared on purpose", COLAB, "{" RUN ",\"resources\":{\"ranks\":2,\"share_gpus\":true}}", 2,
     "several ranks share a GPU"},
    {"small /dev/shm", SMALL, "{" RUN "}", 2, "/dev/shm has only 64 MiB"},
    {"user's word wins", BARE, "{" RUN ",\"env\":{\"OMP_NUM_THREADS\":\"7\"}}", 1,
     "\"value\":\"7\",\"why\":\"set by the job, overriding jobctl's value\""},
    {"user's own", BARE, "{" RUN ",\"env\":{\"A\":\"b\"}}", 1, "\"why\":\"set by the job\""},

    {"two ranks on one GPU", COLAB, "{" RUN ",\"resources\":{\"ranks\":2}}", 0,
     "resources.ranks is 2, but the job has 1 GPU: NVIDIA A100 (GPU-a). Two ranks on one GPU fail in "
     "NCCL with \"Duplicate GPU detected\". Set `ranks: auto` (one rank per GPU, here 1), or "
     "`share_gpus: true`"},
    {"four GPUs of one", COLAB, "{" RUN ",\"resources\":{\"gpus\":4}}", 0,
     "resources.gpus is 4, but this machine has 1 healthy GPU, NVIDIA A100 (GPU-a): set `gpus: auto`"},
    {"a GPU of none", BARE, "{" RUN ",\"resources\":{\"gpus\":1}}", 0, "set `gpus: 0` to run on the CPU"},
    {"engine's ranks", BARE, "{" TRAIN ",\"resources\":{\"ranks\":2}}", 2,
     "\"value\":\"1\",\"why\":\"the engine uses all 2 CPUs of this process's affinity mask, divided "
     "among the ranks"},
    {"engine's ranks, no GPU wanted", TWO, "{" TRAIN ",\"resources\":{\"ranks\":3,\"gpus\":0}}", 3,
     "set by resources.ranks"},
    {"engine on a GPU", COLAB, "{\"train\":{\"backend\":\"cuda\"}}", 1,
     "\"JOBCTL_BACKEND\",\"value\":\"cuda\",\"why\":\"the engine computes on the GPU, and ends if"},
    {"engine where it can", COLAB, "{\"train\":{\"backend\":\"auto\"}}", 1,
     "\"JOBCTL_BACKEND\",\"value\":\"auto\",\"why\":\"the engine computes on the GPU, or on the CPU"},
    {"engine on one of two GPUs", TWO, "{" TRAIN "}", 1,
     "using one of 2 GPUs: more need NCCL, and libnccl.so.2 was not found"},
    {"engine on all GPUs", TWO_NCCL, "{" TRAIN "}", 2,
     "\"CUDA_VISIBLE_DEVICES\",\"value\":\"GPU-a,GPU-b\""},
    {"engine on one rank's GPU", TWO_NCCL, "{" TRAIN ",\"resources\":{\"ranks\":1}}", 1,
     "set by resources.ranks"},
    {"engine on the CPU", COLAB, "{" TRAIN ",\"resources\":{\"gpus\":0}}", 1,
     "\"JOBCTL_BACKEND\",\"value\":\"cpu\",\"why\":\"no GPU is used\""},
    {"engine on two GPUs", TWO, "{" TRAIN ",\"resources\":{\"gpus\":2}}", 2,
     "one rank for each of 2 distinct healthy GPUs"},
    {"engine's ranks on GPUs", TWO_NCCL, "{" TRAIN ",\"resources\":{\"ranks\":3}}", 0,
     "Set `ranks: auto` (one rank per GPU, here 2), or `share_gpus: true` to share GPUs anyway"},
    {"engine's ranks share GPUs", TWO_NCCL,
     "{" TRAIN ",\"resources\":{\"ranks\":3,\"share_gpus\":true}}", 3,
     "\"name\":\"JOBCTL_SHARED_GPUS\",\"value\":\"2\""},
    {"not on several nodes", TWO_NCCL,
     "{" TRAIN ",\"resources\":{\"ranks\":3,\"share_gpus\":true,\"nodes\":2}}", 0,
     "resources.ranks is 3, but on several nodes a `train:` job runs at most one rank per GPU, here 2"},
    {"one node of two", BARE, "{" RUN ",\"resources\":{\"nodes\":2}}", 1, "\"nodes\":2"},
    {"no ranks", BARE, "{" RUN ",\"resources\":{\"ranks\":0}}", 0, "1 to 1024"},
    {"rank by hand", BARE, "{" RUN ",\"env\":{\"RANK\":\"0\"}}", 0, "env.RANK cannot be set"},
    {"our names", BARE, "{" RUN ",\"env\":{\"JOBCTL_NONCE\":\"0\"}}", 0, "cannot be set"},
};

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *v = json_loads(text, 0, &why);
    if (!v)
        fail_msg("%s: %s", why.text, text);
    return v;
}

static json_t *plan_of(const char *facts_text, const char *spec_text)
{
    json_t *facts = parse(facts_text), *spec = parse(spec_text), *plan = NULL;
    struct err err = {0};
    if (plan_make(&plan, facts, spec, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(facts);
    json_decref(spec);
    return plan;
}

static void machines_and_specs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *facts = parse(rows[i].facts), *spec = parse(rows[i].spec), *plan = NULL;
        struct err err = {0};
        int rc = plan_make(&plan, facts, spec, &err);
        char *dump = rc == 0 ? json_dumps(plan, JSON_COMPACT) : strdup(err.text);
        int np = rc == 0 ? (int)json_integer_value(json_object_get(plan, "np")) : 0;
        if (np != rows[i].np || !strstr(dump, rows[i].text))
            fail_msg("%s: np %d, %s", rows[i].what, np, dump);
        if (rc == 0)
            assert_int_equal(json_array_size(json_object_get(plan, "ranks")), np);
        else
            assert_null(plan);
        free(dump);
        json_decref(plan);
        json_decref(facts);
        json_decref(spec);
    }
}

static void the_jobs_word_is_found_first(void **state)
{
    (void)state;
    json_t *plan = plan_of(TWO, "{" RUN ",\"env\":{\"OMP_NUM_THREADS\":\"7\"}}");
    assert_string_equal(plan_env(plan, "OMP_NUM_THREADS"), "7");
    assert_string_equal(plan_env(plan, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
    assert_null(plan_env(plan, "NCCL_P2P_LEVEL")); /* nothing that NCCL finds out by itself */
    json_decref(plan);
}

static void an_image_needs_a_runtime(void **state)
{
    (void)state;
#define FOUND "\"containers\":[{\"runtime\":\"podman\",\"path\":\"/p\",\"rootless\":true,\"cdi\":false,\"why\":\"\"}]"
    static const struct {
        const char *facts, *spec, *want; /* a part of plan.container.why, or of the sentence */
        bool refused;
    } images[] = {
        {"{\"cpus\":4," FOUND "}", "{\"run\":\"x\",\"image\":{\"image\":\"a\",\"runtime\":\"auto\"}}",
         "the first in the order", false},
        {"{\"cpus\":4," FOUND "}", "{\"run\":\"x\",\"image\":{\"image\":\"a\",\"runtime\":\"docker\"}}",
         "docker is not installed", true},
        {"{\"cpus\":4}", "{\"run\":\"x\",\"image\":{\"image\":\"a\",\"runtime\":\"auto\"}}", "no runtime for a", true},
        {"{\"cpus\":4,\"gpus\":[{\"index\":0,\"uuid\":\"GPU-a\",\"name\":\"A\",\"healthy\":true,\"compute_mode\":\"default\"}]," FOUND "}",
         "{\"run\":\"x\",\"image\":{\"image\":\"a\",\"runtime\":\"auto\"}}", "nvidia-ctk cdi generate", true},
    };
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        struct err err = {.code = ERR_NONE};
        json_t *facts = parse(images[i].facts), *spec = parse(images[i].spec), *plan = NULL;
        const int rc = plan_make(&plan, facts, spec, &err);
        const json_t *container = json_object_get(plan, "container");
        const char *text = rc < 0 ? err.text : json_string_value(json_object_get(container, "why"));
        if ((rc < 0) != images[i].refused || !text || !strstr(text, images[i].want))
            fail_msg("%s: %d, %s", images[i].spec, rc, text ? text : "nothing");
        json_decref(facts);
        json_decref(spec);
        json_decref(plan);
    }
}

static void this_machine_has_facts(void **state)
{
    (void)state;
    struct err err = {0};
    json_t *facts = probe_facts(".", &err);
    assert_non_null(facts);
    assert_true(json_integer_value(json_object_get(facts, "cpus")) > 0);
    assert_true(json_integer_value(json_object_get(facts, "memory_bytes")) > 0);
    assert_int_equal(strlen(json_string_value(json_object_get(facts, "boot_id"))), 36);
    assert_true(json_is_array(json_object_get(facts, "gpus")));
    assert_true(json_integer_value(json_object_get(facts, "disk_free_bytes")) >= 0);
    json_decref(facts);
}

/* Value of a name in an environment; counts how often it is there. */
static const char *value_of(char *const *env, const char *name, int *times)
{
    const char *value = NULL;
    size_t len = strlen(name);
    *times = 0;
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=') {
            value = *env + len + 1;
            ++*times;
        }
    return value;
}

static void ranks_get_torchruns_variables_once(void **state)
{
    (void)state;
    json_t *plan = plan_of(TWO, "{" RUN ",\"env\":{\"PATH\":\"/mine\",\"MASTER_ADDR\":\"::1\"}}");
    json_t *secrets = parse("{\"WANDB_API_KEY\":\"s3cret\"}");
    char *inherited[] = {(char[]){"PATH=/usr/bin"},
                         (char[]){"RANK=9"},
                         (char[]){"KEEP=1"},
                         (char[]){"OMPI_COMM_WORLD_RANK=3"},
                         (char[]){"TORCHELASTIC_X=1"},
                         (char[]){"JOBCTL_AGENT_NONCE=zz"},
                         (char[]){"JOBCTL_HOME=/h"},
                         (char[]){"JOBCTL_DAEMON=1"},
                         (char[]){"RANKING=kept"},
                         (char[]){"OMP_NUM_THREADS=99"},
                         NULL};
    struct launch_env e = {.job = 7,
                           .attempt = 2,
                           .generation = 3,
                           .name = "n",
                           .nonce = "ab",
                           .run_dir = "/run",
                           .ckpt_dir = "/ck",
                           .world_size = 2,
                           .master_port = 1234,
                           .event_fd = 3,
                           .control_fd = 4,
                           .restarts = 10,
                           .resume_step = 41,
                           .plan = plan,
                           .secrets = secrets};
    static const struct {
        const char *name, *value; /* NULL: must not be there */
    } want[] = {
        {"PATH", "/mine"},
        {"KEEP", "1"},
        {"RANKING", "kept"},
        {"RANK", "1"},
        {"LOCAL_RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"NODE_RANK", "0"},
        {"GROUP_RANK", "0"},
        {"MASTER_ADDR", "::1"},
        {"MASTER_PORT", "1234"},
        {"TORCHELASTIC_RESTART_COUNT", "2"},
        {"TORCHELASTIC_RUN_ID", "jobctl-7.2"},
        {"TORCHELASTIC_X", NULL},
        {"OMPI_COMM_WORLD_RANK", NULL},
        {"JOBCTL_AGENT_NONCE", NULL},
        {"JOBCTL_HOME", "/h"},
        {"JOBCTL_DAEMON", NULL},
        {"JOBCTL_NONCE", "ab"},
        {"JOBCTL_JOB_ID", "7"},
        {"JOBCTL_ATTEMPT", "2"},
        {"JOBCTL_GENERATION", "3"},
        {"JOBCTL_RUN_DIR", "/run"},
        {"JOBCTL_CKPT_DIR", "/ck"},
        {"JOBCTL_EVENT_FD", "3"},
        {"JOBCTL_CONTROL_FD", "4"},
        {"JOBCTL_FLIGHT", "/run/rank1.flight"},
        {"JOBCTL_RESUME_STEP", "41"},
        {"OMP_NUM_THREADS", "1"},
        {"WANDB_API_KEY", "s3cret"},
        {"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"},
    };
    char **env = launch_env_make(&e, 1, inherited, NULL);
    assert_non_null(env);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        int times;
        const char *got = value_of(env, want[i].name, &times);
        if (times != (want[i].value ? 1 : 0) || (got && strcmp(got, want[i].value) != 0))
            fail_msg("%s is there %d times: %s", want[i].name, times, got ? got : "(none)");
    }
    free(env);
    /* the setup has no rank */
    e.generation = 0;
    env = launch_env_make(&e, 0, inherited, NULL);
    int times;
    assert_null(value_of(env, "RANK", &times));
    assert_null(value_of(env, "JOBCTL_FLIGHT", &times));
    assert_string_equal(value_of(env, "JOBCTL_NONCE", &times), "ab");
    free(env);
    json_decref(plan);
    json_decref(secrets);
    assert_true(launch_env_free_port(NULL) > 0);
}

/* Rank 5 of 7: the second of three on the last of three nodes. */
static void ranks_of_several_nodes_know_where_they_are(void **state)
{
    (void)state;
    json_t *plan = parse("{}");
    char *inherited[] = {NULL};
    const struct launch_env e = {.job = 7,
                                 .attempt = 2,
                                 .generation = 1,
                                 .name = "n",
                                 .nonce = "ab",
                                 .run_dir = "/run",
                                 .ckpt_dir = "/ck",
                                 .world_size = 7,
                                 .first_rank = 4,
                                 .local_ranks = 3,
                                 .node_rank = 2,
                                 .nodes = 3,
                                 .node_ranks = "2,2,3",
                                 .node_addr = "10.0.0.3",
                                 .master_addr = "10.0.0.1",
                                 .master_port = 1234,
                                 .plan = plan};
    static const char *const want[][2] = {
        {"RANK", "5"},           {"LOCAL_RANK", "1"},
        {"WORLD_SIZE", "7"},     {"LOCAL_WORLD_SIZE", "3"},
        {"NODE_RANK", "2"},      {"GROUP_RANK", "2"},
        {"GROUP_WORLD_SIZE", "3"}, {"MASTER_ADDR", "10.0.0.1"},
        {"MASTER_PORT", "1234"}, {"JOBCTL_NODE_RANKS", "2,2,3"},
        {"JOBCTL_NODE_ADDR", "10.0.0.3"}, {"JOBCTL_FLIGHT", "/run/rank5.flight"},
    };
    char **env = launch_env_make(&e, 5, inherited, NULL);
    assert_non_null(env);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        int times;
        const char *got = value_of(env, want[i][0], &times);
        assert_int_equal(times, 1);
        assert_string_equal(got, want[i][1]);
    }
    free(env);
    json_decref(plan);
}

/* The least memory of a rank; ranks of one GPU divide it. */
static void ranks_have_memory(void **state)
{
    (void)state;
    static const struct {
        const char *ranks;
        int64_t     want;
    } cases[] = {
        {"[]", 0},
        {"[{\"gpu\":null}]", 0},
        {"[{\"gpu\":\"GPU-a\"}]", 8000},
        {"[{\"gpu\":\"GPU-a\"},{\"gpu\":\"GPU-b\"}]", 6000},
        {"[{\"gpu\":\"GPU-a\"},{\"gpu\":\"GPU-a\"}]", 4000},
        {"[{\"gpu\":\"MIG-1\"}]", 1000},
        {"[{\"gpu\":\"GPU-a\"},{\"gpu\":\"GPU-x\"}]", 0},
    };
    json_t *facts = json_loads("{\"gpus\":[{\"uuid\":\"GPU-a\",\"memory_bytes\":8000},{\"uuid\":\"GPU-b\","
                               "\"memory_bytes\":6000,\"mig_slices\":[{\"uuid\":\"MIG-1\",\"memory_bytes\":1000}]}]}", 0,
                               NULL);
    assert_non_null(facts);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *plan = json_pack("{s:o}", "ranks", json_loads(cases[i].ranks, 0, NULL));
        assert_int_equal(plan_gpu_memory(plan, facts), cases[i].want);
        json_decref(plan);
    }
    json_decref(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_and_specs),
        cmocka_unit_test(the_jobs_word_is_found_first),
        cmocka_unit_test(an_image_needs_a_runtime),
        cmocka_unit_test(ranks_have_memory),
        cmocka_unit_test(this_machine_has_facts),
        cmocka_unit_test(ranks_get_torchruns_variables_once),
        cmocka_unit_test(ranks_of_several_nodes_know_where_they_are),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
