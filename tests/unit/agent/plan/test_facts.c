/* SPDX-License-Identifier: Apache-2.0 */
/* test_facts.c - recorded machines and what is planned for them; the plans are golden files
 *
 * tests/facts/NAME.json are facts, NAME.plan is the plan as printed. FACTS_WRITE=1 in the environment rewrites the
 * plans: review the diff.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_nodes.h"
#include "agent/plan/probe_cache.h"
#include "agent/probe/probe.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define ONE "{\"run\":\"x\"}"
#define TWO "{\"run\":\"x\",\"resources\":{\"nodes\":2}}"

static const struct {
    const char *name, *spec;
} machines[] = {
    {"colab-a100", ONE},     {"colab-t4", ONE},      {"kaggle-2t4", ONE},
    {"rtx3090-bridge", ONE}, {"rtx3090", ONE},       {"rtx4090", ONE},
    {"l4-vm", ONE},          {"a100-pcie", ONE},     {"v100-cube", ONE},
    {"hgx-a100-ib", TWO},    {"hgx-h100-ib", TWO},   {"aws-p5-efa", TWO},
    {"gcp-a3-mega", TWO},    {"h100-ethernet", TWO}, {"a100-roce", TWO},
    {"mig-slices", ONE},     {"wsl2", ONE},          {"small-shm", ONE},
    {"mixed-models", ONE},   {"sick-gpu", ONE},      {"gpu-in-use", ONE},
};

/* Settings from forum posts: right, without effect, or harmful - by machine. */
static const struct {
    const char *machine, *nodes, *variable, *value;
    const char *verdict; /* "harmful", "no effect", or "" */
} folk[] = {
    {"hgx-h100-ib", "1", "NCCL_P2P_LEVEL", "NVL", "no effect"},
    {"rtx3090-bridge", "1", "NCCL_P2P_LEVEL", "NVL", "no effect"},
    {"colab-a100", "1", "NCCL_P2P_LEVEL", "NVL", "no effect"},
    {"l4-vm", "1", "NCCL_P2P_LEVEL", "NVL", "no effect"},
    {"rtx3090", "1", "NCCL_P2P_LEVEL", "NVL", "no effect"},
    {"v100-cube", "1", "NCCL_P2P_LEVEL", "NVL", "harmful"},
    {"a100-pcie", "1", "NCCL_P2P_LEVEL", "NVL", "harmful"},
    {"small-shm", "1", "NCCL_P2P_LEVEL", "1", "harmful"},
    {"a100-pcie", "1", "NCCL_P2P_LEVEL", "SYS", ""},
    {"hgx-h100-ib", "1", "NCCL_P2P_DISABLE", "1", "harmful"},
    {"hgx-h100-ib", "1", "NCCL_P2P_DISABLE", "0", ""},
    {"rtx3090", "1", "NCCL_P2P_DISABLE", "1", "no effect"},
    {"hgx-h100-ib", "1", "NCCL_IB_DISABLE", "1", "no effect"},
    {"hgx-h100-ib", "2", "NCCL_IB_DISABLE", "1", "harmful"},
    {"h100-ethernet", "2", "NCCL_IB_DISABLE", "1", "no effect"},
    {"aws-p5-efa", "2", "NCCL_IB_DISABLE", "1", "no effect"},
    {"hgx-h100-ib", "2", "NCCL_SOCKET_IFNAME", "eth0", "harmful"},
    {"h100-ethernet", "2", "NCCL_SOCKET_IFNAME", "eth0", "harmful"},
    {"h100-ethernet", "2", "NCCL_SOCKET_IFNAME", "tailscale0", "harmful"},
    {"h100-ethernet", "2", "NCCL_SOCKET_IFNAME", "=ens5f0np0", ""},
    {"h100-ethernet", "2", "NCCL_SOCKET_IFNAME", "ens5", ""},
    {"h100-ethernet", "2", "NCCL_SOCKET_IFNAME", "=ens5", "harmful"},
    {"h100-ethernet", "2", "NCCL_SOCKET_IFNAME", "^tailscale", ""},
    {"gcp-a3-mega", "2", "NCCL_SOCKET_IFNAME", "eth0", ""},
    {"gcp-a3-mega", "1", "NCCL_SOCKET_IFNAME", "eth0", "no effect"},
    {"l4-vm", "1", "NCCL_SOCKET_IFNAME", "eth0", "harmful"},
    {"l4-vm", "1", "NCCL_SHM_DISABLE", "1", "harmful"},
    {"hgx-h100-ib", "1", "NCCL_IGNORE_DISABLED_P2P", "1", "harmful"},
    {"hgx-h100-ib", "1", "NCCL_PROTO", "Simple", "harmful"},
    {"hgx-h100-ib", "1", "CUDA_LAUNCH_BLOCKING", "1", "harmful"},
    {"hgx-h100-ib", "1", "MY_OWN", "1", ""},
};

static json_t *facts_of(const char *name)
{
    char path[256];
    json_error_t why;
    snprintf(path, sizeof(path), "tests/facts/%s.json", name);
    json_t *facts = json_load_file(path, 0, &why);
    if (!facts)
        fail_msg("%s: %s", path, why.text);
    return facts;
}

static json_t *plan_of(const char *machine, const char *spec_text)
{
    json_t *facts = facts_of(machine), *spec = json_loads(spec_text, 0, NULL), *plan = NULL;
    struct err err = {0};
    assert_non_null(spec);
    if (plan_make(&plan, facts, spec, &err) < 0)
        fail_msg("%s: %s", machine, err.text);
    json_decref(facts);
    json_decref(spec);
    return plan;
}

static char *golden(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = fopen(path, "re");
    if (f && getdelim(&text, &size, '\0', f) < 0)
        fail_msg("%s cannot be read", path);
    if (f)
        fclose(f);
    return text;
}

/* Takes the plan. */
static void compare_with_golden(const char *name, json_t *plan)
{
    char path[256], *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    plan_print(out, plan);
    fclose(out);
    snprintf(path, sizeof(path), "tests/facts/%s.plan", name);
    if (getenv("FACTS_WRITE")) {
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    char *want = golden(path);
    if (!want || strcmp(want, text) != 0)
        fail_msg("%s is not what is planned now:\n%s", path, text);
    free(want);
    free(text);
    json_decref(plan);
}

static void every_machine_has_its_plan(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(machines); i++)
        compare_with_golden(machines[i].name, plan_of(machines[i].name, machines[i].spec));
}

/* One job on two containers of a machine. */
static void containers_with_a_shm_each_have_their_plan(void **state)
{
    static const char *const names[] = {"separate-shm-a", "separate-shm-b"};
    struct plan_node nodes[2];
    struct err err = {0};
    json_t *plan = NULL, *parts[2] = {NULL, NULL}, *spec = json_loads(TWO, 0, NULL);
    (void)state;
    for (int k = 0; k < 2; k++)
        nodes[k] = (struct plan_node){.name = names[k], .facts = facts_of(names[k])};
    if (plan_nodes_make(&plan, parts, nodes, 2, spec, &err) < 0)
        fail_msg("%s", err.text);
    compare_with_golden("separate-shm", plan);
    for (int k = 0; k < 2; k++)
        json_decref(parts[k]);

    /* Two machines have nothing in common, and nothing is said of it. */
    json_object_set_new((json_t *)(uintptr_t)nodes[1].facts, "boot_id", json_string("another"));
    plan = parts[0] = parts[1] = NULL;
    assert_int_equal(plan_nodes_make(&plan, parts, nodes, 2, spec, &err), 0);
    char *text = json_dumps(plan, 0);
    assert_null(strstr(text, "containers of one machine"));
    free(text);
    json_decref(plan);
    for (int k = 0; k < 2; k++) {
        json_decref(parts[k]);
        json_decref((json_t *)(uintptr_t)nodes[k].facts);
    }
    json_decref(spec);
}

static void folk_settings_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(folk); i++) {
        char spec[256];
        snprintf(spec, sizeof(spec), "{\"run\":\"x\",\"resources\":{\"nodes\":%s},\"env\":{\"%s\":\"%s\"}}",
                 folk[i].nodes, folk[i].variable, folk[i].value);
        json_t *plan = plan_of(folk[i].machine, spec);
        const json_t *row = json_array_get(json_object_get(plan, "user_env"), 0);
        const char *why = json_string_value(json_object_get(row, "why"));
        bool said = strstr(why, "harmful") || strstr(why, "no effect");
        if (folk[i].verdict[0] ? !strstr(why, folk[i].verdict) : said)
            fail_msg("%s=%s on %s is not '%s': %s", folk[i].variable, folk[i].value,
                     folk[i].machine, folk[i].verdict, why);
        /* It is taken as it is, whatever we think of it. */
        assert_string_equal(plan_env(plan, folk[i].variable), folk[i].value);
        json_decref(plan);
    }
}

static void an_inherited_setting_is_kept_and_told(void **state)
{
    (void)state;
    json_t *facts = facts_of("hgx-h100-ib"), *spec = json_loads(TWO, 0, NULL), *plan = NULL;
    json_t *environment = json_object_get(facts, "environment");
    json_object_set_new(environment, "NCCL_SOCKET_IFNAME", json_string("eth0"));
    json_object_set_new(environment, "NCCL_DEBUG", json_string("INFO"));
    assert_int_equal(plan_make(&plan, facts, spec, NULL), 0);
    assert_null(plan_env(plan, "NCCL_DEBUG"));
    assert_null(plan_env(plan, "NCCL_SOCKET_IFNAME"));
    char *text = json_dumps(json_object_get(plan, "notes"), 0);
    assert_non_null(strstr(text, "NCCL_SOCKET_IFNAME=eth0 of the inherited environment is "
                                 "likely harmful"));
    free(text);
    json_decref(plan);
    json_decref(facts);
    json_decref(spec);
}

static void changes_are_told(void **state)
{
    (void)state;
    json_t *all = plan_of("hgx-h100-ib", ONE), *same = plan_of("hgx-h100-ib", ONE);
    json_t *sick = plan_of("sick-gpu", ONE);
    json_t *none = plan_changes(all, same), *some = plan_changes(all, sick);
    assert_int_equal(json_array_size(none), 0);
    assert_string_equal(json_string_value(json_object_get(all, "hash")),
                        json_string_value(json_object_get(same, "hash")));
    char *text = json_dumps(some, 0);
    if (!strstr(text, "ranks changed from 8 to 5: one rank for each of 5 distinct healthy GPUs") ||
        !strstr(text, "CUDA_VISIBLE_DEVICES changed from") || !strstr(text, "new note: GPU 2"))
        fail_msg("%s", text);
    free(text);
    json_decref(none);
    json_decref(some);
    json_decref(all);
    json_decref(same);
    json_decref(sick);
}

/* One GPU reached twice, a wrong name, or one that is no more: refused before NCCL can. */
static void the_jobs_own_list_is_checked(void **state)
{
    static const struct {
        const char *machine, *list, *says; /* "": permitted */
    } rows[] = {
        {"rtx3090", "0,1", ""},
        {"rtx3090", "1", ""},
        {"rtx3090", "GPU-0018", ""},
        {"rtx3090", "0,0", "names one GPU twice: \"0\" is NVIDIA GeForce RTX 3090"},
        {"rtx3090", "0,GPU-0010", "names one GPU twice: \"GPU-0010\""},
        {"rtx3090", "0,5", "names \"5\", but this machine has GPUs 0 to 1"},
        {"mig-slices", "MIG-5c8f0001-1111-5000-8000-000000000001", ""},
        {"mig-slices", "0,MIG-5c8f0001-1111-5000-8000-000000000001", "one GPU twice"},
        {"sick-gpu", "0,5", "no handle: GPU is lost; name another one"},
        {"sick-gpu", "0,2", "bad memory will be retired at the next GPU reset"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *facts = facts_of(rows[i].machine), *plan = NULL;
        json_t *spec = json_pack("{s:s, s:{s:s}}", "run", "x", "env", "CUDA_VISIBLE_DEVICES", rows[i].list);
        struct err err = {0};
        int rc = plan_make(&plan, facts, spec, &err);
        if (rows[i].says[0] ? rc == 0 || !strstr(err.text, rows[i].says) : rc < 0)
            fail_msg("%s with %s: %d, %s", rows[i].machine, rows[i].list, rc, err.text);
        json_decref(plan);
        json_decref(facts);
        json_decref(spec);
    }
}

static void more_than_fits_is_refused_by_name(void **state)
{
    static const struct {
        const char *machine, *resources, *says;
    } rows[] = {
        {"colab-a100", "{\"ranks\":4}", "the job has 1 GPU: NVIDIA A100-SXM4-40GB (GPU-00000000-"},
        {"colab-a100", "{\"gpus\":2}", "this machine has 1 healthy GPU, NVIDIA A100-SXM4-40GB"},
        {"sick-gpu", "{\"gpus\":8}", "has 5 healthy GPUs"},
        {"gpu-in-use", "{\"gpus\":2}",
         "GPU 0 (NVIDIA RTX A6000) is not used: in use by process 31415 (python3) with 22528 "
         "MiB"},
        {"mig-slices", "{\"ranks\":2}", "the job has 1 GPU: NVIDIA A100-SXM4-40GB (MIG-5c8f0002-"},
        {"gpu-in-use", "{\"gpus\":2,\"share_gpus\":true}", ""},
        {"colab-a100", "{\"ranks\":4,\"share_gpus\":true}", ""},
        {"mixed-models", "{\"gpus\":3}", ""},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *facts = facts_of(rows[i].machine), *plan = NULL;
        json_t *spec = json_pack("{s:s, s:o}", "run", "x", "resources", json_loads(rows[i].resources, 0, NULL));
        struct err err = {0};
        int rc = plan_make(&plan, facts, spec, &err);
        if (rows[i].says[0] ? rc == 0 || !strstr(err.text, rows[i].says) : rc < 0)
            fail_msg("%s with %s: %d, %s", rows[i].machine, rows[i].resources, rc, err.text);
        json_decref(plan);
        json_decref(facts);
        json_decref(spec);
    }
}

/* What two ranks that were tried needed is set, unless the job has decided; what was known is forgotten
 * with another driver. */
static void what_was_tried_is_heeded(void **state)
{
    static const struct {
        const char *sum, *needs, *env, *value, *note;
    } rows[] = {
        {"ok", NULL, "{}", NULL, NULL},
        {"hangs", "NCCL_P2P_DISABLE=1", "{}", "1", NULL},
        {"hangs", "NCCL_P2P_DISABLE=1", "{\"NCCL_P2P_DISABLE\":\"0\"}", "0", NULL},
        {"wrong data", NULL, "{}", NULL, "GPU 0 and GPU 1: wrong data even with every fallback"},
        {"fails", "LD_PRELOAD=x.so", "{}", NULL, "fails even with every fallback"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *facts = facts_of("rtx3090-bridge"), *plan = NULL;
        json_t *spec = json_pack("{s:s, s:o}", "run", "x", "env", json_loads(rows[i].env, 0, NULL));
        json_t *pair = json_array_get(json_object_get(facts, "pairs"), 0);
        json_object_set_new(pair, "sum", json_string(rows[i].sum));
        if (rows[i].needs)
            json_object_set_new(pair, "sum_needs", json_string(rows[i].needs));
        assert_int_equal(plan_make(&plan, facts, spec, NULL), 0);
        const char *value = plan_env(plan, "NCCL_P2P_DISABLE");
        char *notes = json_dumps(json_object_get(plan, "notes"), 0);
        if (rows[i].value ? !value || strcmp(value, rows[i].value) != 0 : value != NULL)
            fail_msg("row %zu: NCCL_P2P_DISABLE is %s", i, value ? value : "not set");
        if (rows[i].note ? !strstr(notes, rows[i].note) : strstr(notes, "tried") != NULL)
            fail_msg("row %zu: %s", i, notes);
        assert_null(plan_env(plan, "LD_PRELOAD"));
        free(notes);
        json_decref(plan);
        json_decref(facts);
        json_decref(spec);
    }
}

/* As torchrun does. */
static void a_variable_that_is_set_is_not_planned(void **state)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "PYTHONUNBUFFERED"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (int set = 0; set < 2; set++) {
            json_t *facts = facts_of("rtx3090"), *spec = json_loads(ONE, 0, NULL), *plan = NULL;
            if (set)
                json_object_set_new(json_object_get(facts, "environment"), names[i], json_string("9"));
            assert_int_equal(plan_make(&plan, facts, spec, NULL), 0);
            assert_int_equal(plan_env(plan, names[i]) == NULL, set);
            json_decref(plan);
            json_decref(spec);
            json_decref(facts);
        }
}

/* CUDA_VISIBLE_DEVICES that came with the environment: a grant, or left from another container. */
static void inherited_devices_are_a_grant_or_a_leftover(void **state)
{
    static const struct {
        const char *list, *note;
        int         np;
    } rows[] = {
        {"0,1", NULL, 2},
        {"1", "permits 1 of 2 GPUs", 1},
        {"GPU-ffffffff", "names 1 GPU that is not present; the list is ignored", 2},
        {"0,GPU-ffffffff", "names 1 GPU that is not present", 1},
        {"6,7", "names 2 GPUs that are not present; the list is ignored", 2},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *facts = facts_of("rtx3090"), *spec = json_loads(ONE, 0, NULL), *plan = NULL;
        json_object_set_new(json_object_get(facts, "environment"), "CUDA_VISIBLE_DEVICES", json_string(rows[i].list));
        assert_int_equal(plan_make(&plan, facts, spec, NULL), 0);
        char *text = json_dumps(json_object_get(plan, "notes"), 0);
        if (json_integer_value(json_object_get(plan, "np")) != rows[i].np ||
            (rows[i].note ? !strstr(text, rows[i].note) : strstr(text, "CUDA_VISIBLE_DEVICES") != NULL))
            fail_msg("%s: %s", rows[i].list, text);
        free(text);
        json_decref(plan);
        json_decref(spec);
        json_decref(facts);
    }
}

/* The refusal names what hides the GPUs. What others hold counts, for they are free some day. */
static void hidden_and_held_devices(void **state)
{
    (void)state;
    json_t *facts = facts_of("rtx3090"), *spec = json_loads("{\"resources\":{\"gpus\":2},\"run\":\"x\"}", 0, NULL);
    json_t *plan = NULL, *gpus = json_object_get(facts, "gpus");
    struct err err = {0};
    json_object_set_new(json_object_get(facts, "environment"), "CUDA_VISIBLE_DEVICES", json_string("1"));
    assert_int_equal(plan_make(&plan, facts, spec, &err), -1);
    assert_string_equal(err.text, "resources.gpus is 2, but CUDA_VISIBLE_DEVICES=1 in the environment hides 1 of the 2 "
                                  "usable GPUs of this machine: unset it, or set resources.gpus to at most 1");
    json_object_del(json_object_get(facts, "environment"), "CUDA_VISIBLE_DEVICES");
    json_object_set_new(json_array_get(gpus, 0), "held", json_string("held by another job"));
    json_object_set_new(json_array_get(gpus, 1), "processes", json_pack("[{s:i, s:I}]", "pid", 1, "memory_bytes",
                                                                       (json_int_t)1 << 30));
    assert_int_equal(plan_make(&plan, facts, spec, NULL), -1);
    assert_int_equal(plan_count_gpus(facts), 2);
    assert_non_null(json_object_get(json_array_get(gpus, 0), "held"));
    json_object_del(json_array_get(gpus, 0), "held");
    json_object_set_new(json_array_get(gpus, 0), "spare", json_true());
    assert_int_equal(plan_count_gpus(facts), 2);
    json_object_del(json_array_get(gpus, 1), "processes");
    json_object_set_new(json_object_get(spec, "resources"), "gpus", json_integer(1));
    assert_int_equal(plan_make(&plan, facts, spec, NULL), 0);
    assert_int_equal(json_array_size(json_object_get(plan, "notes")), 0);   /* nobody holds the other one */
    json_decref(plan);
    json_decref(spec);
    json_decref(facts);
}

/* By what its provider leaves in the environment, on a machine that has nothing else to tell. */
static void a_machine_is_known_by_its_environment(void **state)
{
    static const struct {
        const char *set[2][2], *kind;
        json_int_t  limit_s, ends_at_s; /* 0: not known */
    } kinds[] = {
        {{{"COLAB_RELEASE_TAG", "release-1"}}, "colab", 12 * 3600, 0},
        {{{"VERTEX_PRODUCT", "COLAB_ENTERPRISE"}, {"COLAB_RELEASE_TAG", "x"}}, "colab-enterprise",
         18 * 3600, 0},
        {{{"VERTEX_PRODUCT", "WORKBENCH_INSTANCE"}}, "vertex", 0, 0},
        {{{"CLOUD_ML_PROJECT_ID", "p"}}, "vertex", 0, 0},
        {{{"KAGGLE_KERNEL_RUN_TYPE", "Batch"}}, "kaggle", 12 * 3600, 0},
        {{{"SM_CURRENT_HOST", "algo-1"}}, "sagemaker", 0, 0},
        {{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_END_TIME", "1900000000"}}, "slurm", 0, 1900000000},
        {{{"SLURM_JOB_END_TIME", "1900000000"}}, "plain", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        for (int k = 0; k < 2 && kinds[i].set[k][0]; k++)
            unsetenv(kinds[i].set[k][0]);
    unsetenv("COLAB_GPU");
    setenv("JOBCTL_SYSROOT", "/nowhere", 1);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_t *facts = json_object();
        for (int k = 0; k < 2 && kinds[i].set[k][0]; k++)
            setenv(kinds[i].set[k][0], kinds[i].set[k][1], 1);
        assert_int_equal(probe_kind(facts), 0);
        const json_t *session = json_object_get(facts, "session");
        assert_string_equal(json_string_value(json_object_get(facts, "host_kind")), kinds[i].kind);
        assert_int_equal(json_integer_value(json_object_get(session, "limit_s")), kinds[i].limit_s);
        assert_int_equal(json_integer_value(json_object_get(session, "ends_at_s")), kinds[i].ends_at_s);
        for (int k = 0; k < 2 && kinds[i].set[k][0]; k++)
            unsetenv(kinds[i].set[k][0]);
        json_decref(facts);
    }
    unsetenv("JOBCTL_SYSROOT");
}

static void what_is_known_holds_for_this_state_alone(void **state)
{
    (void)state;
    char dir[] = "/tmp/jobctl-known.XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    json_t *tried = facts_of("rtx3090-bridge"), *same = facts_of("rtx3090-bridge");
    json_t *other = facts_of("rtx3090-bridge");
    json_t *pair = json_array_get(json_object_get(tried, "pairs"), 0);
    json_object_set_new(tried, "hostname", json_string("a/../b"));
    json_object_set(same, "hostname", json_object_get(tried, "hostname"));
    json_object_set(other, "hostname", json_object_get(tried, "hostname"));
    json_object_set_new(other, "driver", json_string("1.2.3"));
    probe_cache_keep(tried, dir);
    snprintf(path, sizeof(path), "%s/gpus-a____b.json", dir);
    assert_int_not_equal(access(path, F_OK), 0); /* nothing was tried */
    json_object_set_new(pair, "sum", json_string("hangs"));
    probe_cache_keep(tried, dir);
    probe_cache_recall(same, dir);
    probe_cache_recall(other, dir);
    assert_true(json_equal(json_object_get(same, "pairs"), json_object_get(tried, "pairs")));
    assert_null(json_object_get(json_array_get(json_object_get(other, "pairs"), 0), "sum"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    json_decref(tried);
    json_decref(same);
    json_decref(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_has_its_plan),
        cmocka_unit_test(containers_with_a_shm_each_have_their_plan),
        cmocka_unit_test(folk_settings_are_judged),
        cmocka_unit_test(an_inherited_setting_is_kept_and_told),
        cmocka_unit_test(changes_are_told),
        cmocka_unit_test(the_jobs_own_list_is_checked),
        cmocka_unit_test(more_than_fits_is_refused_by_name),
        cmocka_unit_test(what_was_tried_is_heeded),
        cmocka_unit_test(what_is_known_holds_for_this_state_alone),
        cmocka_unit_test(a_variable_that_is_set_is_not_planned),
        cmocka_unit_test(inherited_devices_are_a_grant_or_a_leftover),
        cmocka_unit_test(hidden_and_held_devices),
        cmocka_unit_test(a_machine_is_known_by_its_environment),
    };
    return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
