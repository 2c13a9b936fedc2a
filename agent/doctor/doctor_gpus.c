/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_gpus.c - checks of the driver, the GPUs, their links and NCCL (doctor.h) */
#include <stdio.h>
#include <string.h>

#include "agent/doctor/doctor_internal.h"
#include "agent/plan/plan.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static void check_driver(struct checkup *c)
{
    const char *driver = field_text(c->facts, "driver"), *trouble = field_text(c->facts, "gpu_note");
    if (trouble[0])
        row(c, "driver", ROW_FAIL, "check nvidia-smi and the kernel log; a reboot often helps",
            "%s", trouble);
    else if (!driver[0])
        row(c, "driver", ROW_UNKNOWN, "", "no NVIDIA driver; jobs run on the CPU");
    else
        row(c, "driver", ROW_OK, "", "%s, for CUDA up to %s", driver, field_text(c->facts, "cuda_driver"));
}

/* The plan's reason for not using a GPU; NULL: it uses it. */
static const char *why_unused(const json_t *plan, int index)
{
    size_t i;
    const json_t *one;
    json_array_foreach(json_object_get(plan, "unused"), i, one)
    {
        if (field_int(one, "gpu", -1) == index)
            return field_text(one, "why");
    }
    return NULL;
}

static void check_gpus(struct checkup *c)
{
    size_t i;
    const json_t *gpu;
    json_t *plan = NULL, *any = json_make("{s:s}", "run", "true");
    plan_make(&plan, c->facts, any, NULL);
    json_array_foreach(json_object_get(c->facts, "gpus"), i, gpu)
    {
        char name[24];
        int index = (int)field_int(gpu, "index", -1);
        const char *why = why_unused(plan, index);
        snprintf(name, sizeof(name), "GPU %d", index);
        if (why && !json_is_true(json_object_get(gpu, "healthy")))
            row(c, name, ROW_FAIL, "reboot the machine; if that does not help, replace the GPU",
                "%s", why);
        else if (why)
            row(c, name, ROW_WARN, "jobs skip this GPU until the problem is resolved", "%.60s: %s",
                field_text(gpu, "name"), why);
        else
            row(c, name, ROW_OK, "", "%.60s, %.1f GiB%s%s", field_text(gpu, "name"),
                doctor_gib(field_int(gpu, "memory_bytes", -1)),
                field_text(gpu, "compute")[0] ? ", compute capability " : "", field_text(gpu, "compute"));
    }
    json_decref(plan);
    json_decref(any);
}

/* Reports pairs with NVLinks whose peer access is refused: a hardware or fabric fault. */
static void check_pairs(struct checkup *c)
{
    size_t i, blocked = 0, broken = 0;
    const json_t *pair, *pairs = json_object_get(c->facts, "pairs"), *bad = NULL;
    if (json_array_size(pairs) == 0)
        return;
    json_array_foreach(pairs, i, pair)
    {
        const char *p2p = field_text(pair, "p2p");
        bool refused = p2p[0] && strcmp(p2p, "ok") != 0;
        blocked += refused;
        if (refused && field_int(pair, "nvlinks", -1) > 0) {
            broken++;
            bad = pair;
        }
    }
    if (broken)
        row(c, "GPU pairs", ROW_FAIL,
            "restart the fabric manager or reboot; do not mask the fault with NCCL_IGNORE_DISABLED_P2P",
            "%zu of %zu pairs have NVLink but no peer access, such as GPU %lld and GPU %lld (%s)",
            broken, json_array_size(pairs), (long long)field_int(bad, "a", -1),
            (long long)field_int(bad, "b", -1), field_text(bad, "p2p"));
    else if (blocked)
        row(c, "GPU pairs", ROW_OK, "",
            "%zu of %zu pairs without peer access: NCCL copies through host memory",
            blocked, json_array_size(pairs));
    else
        row(c, "GPU pairs", ROW_OK, "", "%zu pairs, all with peer access", json_array_size(pairs));
}

/* Results of the copy self-test (agent/plan/gpu_selftest.h). */
static void check_copies(struct checkup *c)
{
    size_t i, tried = 0, bad = 0;
    const json_t *pair, *worst = NULL;
    double least = 0;
    json_array_foreach(json_object_get(c->facts, "pairs"), i, pair)
    {
        const char *copy = field_text(pair, "copy");
        double speed = json_number_value(json_object_get(pair, "copy_gb_per_s"));
        if (!copy[0])
            continue;
        least = tried++ == 0 || speed < least ? speed : least;
        if (strcmp(copy, "ok") != 0 && bad++ == 0)
            worst = pair;
    }
    if (bad)
        row(c, "GPU copies", ROW_FAIL,
            "jobs run with NCCL_P2P_DISABLE=1; look for an IOMMU (ACS), a patched driver or broken hardware",
            "%zu of %zu pairs fail, such as GPU %lld and GPU %lld: %s",
            bad, tried, (long long)field_int(worst, "a", -1), (long long)field_int(worst, "b", -1),
            field_text(worst, "copy"));
    else if (tried)
        row(c, "GPU copies", ROW_OK, "",
            "%zu pair%s: data correct, at %.3g GB/s or more",
            tried, tried == 1 ? "" : "s", least);
}

/* Results of the sum self-test with NCCL. */
static void check_sums(struct checkup *c)
{
    size_t i, tried = 0, bad = 0;
    const json_t *pair, *worst = NULL;
    json_array_foreach(json_object_get(c->facts, "pairs"), i, pair)
    {
        const char *sum = field_text(pair, "sum");
        tried += sum[0] != '\0';
        if (sum[0] && strcmp(sum, "ok") != 0 && bad++ == 0)
            worst = pair;
    }
    const char *needs = field_text(worst, "sum_needs");
    if (bad)
        row(c, "GPU sums", ROW_FAIL,
            needs[0] ? "jobs run with the setting that helps; look for an IOMMU (ACS), a "
                       "patched driver or broken hardware"
                     : "jobs with several ranks will probably fail: check the "
                       "kernel log and /dev/shm, and try another NCCL version",
            "NCCL sum of GPU %lld and GPU %lld: %s%s%s",
            (long long)field_int(worst, "a", -1), (long long)field_int(worst, "b", -1), field_text(worst, "sum"),
            needs[0] ? "; ok with " : " even with every fallback", needs);
    else if (tried)
        row(c, "GPU sums", ROW_OK, "", "NCCL sums are correct (%zu kind%s of pairs tested)", tried,
            tried == 1 ? "" : "s");
}

/* NCCL versions with bugs that stop training; only the first three numbers are compared. */
static void check_nccl(struct checkup *c)
{
    static const struct {
        const char *version, *fault;
    } bad[] = {
        {"2.17.1", "an abort of a collective can hang"},
        {"2.25.1", "an abort of a communicator can hang"},
        {"2.26.", "non-blocking mode hangs occasionally"},
    };
    const char *version = field_text(c->facts, "nccl");
    if (!field_text(c->facts, "driver")[0])
        return; /* NCCL is only probed with a driver */
    if (!version[0]) {
        row(c, "NCCL", ROW_UNKNOWN, "", "libnccl.so.2 not found; PyTorch bundles its own");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (strncmp(version, bad[i].version, strlen(bad[i].version)) == 0) {
            row(c, "NCCL", ROW_WARN, "install a newer version", "%s: %s", version, bad[i].fault);
            return;
        }
    row(c, "NCCL", ROW_OK, "", "%s", version);
}

void doctor_check_gpus(struct checkup *c)
{
    check_driver(c);
    check_gpus(c);
    check_pairs(c);
    check_copies(c);
    check_sums(c);
    check_nccl(c);
}
