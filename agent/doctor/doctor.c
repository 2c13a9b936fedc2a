/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - see doctor.h; one function per check, in the order shown */
#include "agent/doctor/doctor.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doctor/doctor_rows.h"
#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "agent/probe/route.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { KIB = 1 << 10, DISK_LOW = 2 };

struct checkup {
    const json_t *facts, *spec, *looked;
    json_t *plan;       /* for the spec; NULL: no spec, or refused */
    struct err refusal; /* why it was refused */
    struct doctor_rows rows;
};

#define row(c, ...) doctor_row(&(c)->rows, __VA_ARGS__)

static double gib(json_int_t bytes)
{
    return (double)bytes / (double)(1 << 30);
}

/* --- programs, CPUs, memory ---------------------------------------------------------------- */

static void check_programs(struct checkup *c)
{
    const json_t *versions = json_object_get(c->looked, "versions");
    const char *agent = field_text(versions, "jobctl-agent");
    const char *train = field_text(versions, "jobctl-train");
    const char *refusal = field_text(c->looked, "start_error");
    if (!json_object_get(versions, "jobctl-train"))
        return; /* not asked: the job does not use it */
    if (!train[0] && refusal[0])
        row(c, "programs", ROW_FAIL, "", "jobctl-agent is %s; %s", agent, refusal);
    else if (!train[0])
        row(c, "programs", ROW_FAIL, "install jobctl-train next to jobctl-agent; make builds both",
            "jobctl-agent is %s; jobctl-train does not start", agent);
    else if (strcmp(agent, train) != 0)
        row(c, "programs", ROW_FAIL, "install all programs in the same version",
            "jobctl-agent is %s but jobctl-train is %s", agent, train);
    else
        row(c, "programs", ROW_OK, "", "jobctl-agent and jobctl-train are %s", agent);
}

/* "8, AMD EPYC 7313 16-Core Processor, kernels: cpu-avx2" */
static void check_processors(struct checkup *c)
{
    const char *kernels = field_text(c->looked, "kernels");
    const char *word = kernels[0] ? ", kernels: " : "";
    json_int_t cpus = field_int(c->facts, "cpus", -1);
    const json_t *quota = json_object_get(c->facts, "cgroup_cpus");
    if (json_is_number(quota) && json_number_value(quota) < (double)cpus)
        row(c, "processors", ROW_OK, "", "%.4g of %lld (cgroup limit)%s%s",
            json_number_value(quota), (long long)cpus, word, kernels);
    else
        row(c, "processors", ROW_OK, "", "%lld, %s%s%s", (long long)cpus,
            field_text(c->facts, "cpu_model"), word, kernels);
}

/* Facts of an earlier version do not say it. */
static void check_machine(struct checkup *c)
{
    const json_t *machine = json_object_get(c->facts, "machine");
    const char *why = field_text(machine, "text");
    if (!machine)
        return;
    if (!why[0])
        row(c, "other users", ROW_OK, "", "GPUs and CPU slots are shared by the locks in %s",
            field_text(machine, "dir"));
    else if (field_true(machine, "wrong"))
        row(c, "other users", ROW_WARN, "ask the administrator for: install -d -m 1777 -o root /run/jobctl",
            "jobs of other users are not waited for: %s", why);
    else
        row(c, "other users", ROW_OK, "", "not waited for: %s (to share the machine, root makes /run/jobctl: "
            "docs/SHARED-BOX.md)", why);
}

static void check_memory(struct checkup *c)
{
    json_int_t all = field_int(c->facts, "memory_bytes", -1);
    json_int_t limit = field_int(c->facts, "memory_limit_bytes", -1);
    if (all < 0)
        row(c, "memory", ROW_UNKNOWN, "", "unknown: /proc/meminfo has no MemTotal");
    else if (limit >= 0 && limit < all)
        row(c, "memory", ROW_OK, "", "%.1f of %.1f GiB (cgroup limit)", gib(limit), gib(all));
    else
        row(c, "memory", ROW_OK, "", "%.1f GiB", gib(all));
}

static void check_shm(struct checkup *c)
{
    json_int_t shm = field_int(c->facts, "shm_bytes", -1);
    if (shm < 0)
        row(c, "/dev/shm", ROW_UNKNOWN, "", "size unknown");
    else if (shm < (json_int_t)1 << 30)
        row(c, "/dev/shm", ROW_WARN,
            field_text(c->facts, "container")[0] ? "start the container with --shm-size=1g"
                                                : "mount -o remount,size=8g /dev/shm",
            "%lld MiB: NCCL and data loaders of several ranks may exhaust it (SIGBUS)",
            (long long)(shm >> 20));
    else
        row(c, "/dev/shm", ROW_OK, "", "%.1f GiB", gib(shm));
}

static void check_disk(struct checkup *c)
{
    json_int_t left = field_int(c->facts, "disk_free_bytes", -1);
    const char *disk = field_text(c->facts, "disk");
    if (left < 0)
        row(c, "disk", ROW_UNKNOWN, "", "free space in %s unknown", disk);
    else
        row(c, "disk", left < (json_int_t)DISK_LOW << 30 ? ROW_WARN : ROW_OK,
            "free disk space: checkpoints and logs are written there", "%.1f GiB free in %s",
            gib(left), disk);
}

/* --- GPUs ---------------------------------------------------------------------------------- */

static void check_driver(struct checkup *c)
{
    const char *driver = field_text(c->facts, "driver"), *trouble = field_text(c->facts, "gpu_note");
    if (trouble[0])
        row(c, "driver", ROW_FAIL, "check nvidia-smi and the kernel log; a reboot often helps",
            "%s", trouble);
    else if (!driver[0])
        row(c, "driver", ROW_UNKNOWN, "", "no NVIDIA driver; jobs run on the CPU");
    else
        row(c, "driver", ROW_OK, "", "%s, for CUDA up to %s", driver,
            field_text(c->facts, "cuda_driver"));
}

/* The plan's reason for not using a GPU: its note begins with "GPU N ". */
static const char *why_left_out(const json_t *plan, int index)
{
    char begin[24];
    size_t i;
    const json_t *note;
    int n = snprintf(begin, sizeof(begin), "GPU %d ", index);
    json_array_foreach(json_object_get(plan, "notes"), i, note)
    {
        const char *text = json_string_value(note);
        const char *reason = strstr(text, " is not used: ");
        if (strncmp(text, begin, (size_t)n) == 0 && reason)
            return reason + strlen(" is not used: ");
    }
    return NULL;
}

static void check_gpus(struct checkup *c)
{
    size_t i;
    const json_t *gpu;
    json_t *plan = NULL, *any = json_pack("{s:s}", "run", "true");
    plan_make(&plan, c->facts, any, NULL);
    json_array_foreach(json_object_get(c->facts, "gpus"), i, gpu)
    {
        char name[24];
        int index = (int)field_int(gpu, "index", -1);
        const char *why = why_left_out(plan, index);
        snprintf(name, sizeof(name), "GPU %d", index);
        if (why && !json_is_true(json_object_get(gpu, "healthy")))
            row(c, name, ROW_FAIL, "reboot the machine; if that does not help, replace the GPU",
                "%s", why);
        else if (why)
            row(c, name, ROW_WARN, "jobs skip this GPU until the problem is resolved", "%.60s: %s",
                field_text(gpu, "name"), why);
        else
            row(c, name, ROW_OK, "", "%.60s, %.1f GiB%s%s", field_text(gpu, "name"),
                gib(field_int(gpu, "memory_bytes", -1)),
                field_text(gpu, "compute")[0] ? ", compute capability " : "",
                field_text(gpu, "compute"));
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
            "restart the fabric manager or reboot; do not mask the fault with "
            "NCCL_IGNORE_DISABLED_P2P",
            "%zu of %zu pairs have NVLink but no peer access, such as "
            "GPU %lld and GPU %lld (%s)",
            broken, json_array_size(pairs), (long long)field_int(bad, "a", -1),
            (long long)field_int(bad, "b", -1), field_text(bad, "p2p"));
    else if (blocked)
        row(c, "GPU pairs", ROW_OK, "",
            "%zu of %zu pairs without peer access: NCCL copies through "
            "host memory",
            blocked, json_array_size(pairs));
    else
        row(c, "GPU pairs", ROW_OK, "", "%zu, peer access refused on none", json_array_size(pairs));
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
            "jobs run with NCCL_P2P_DISABLE=1; look for an IOMMU (ACS), a "
            "patched driver or broken hardware",
            "%zu of %zu pairs fail, such as GPU %lld and GPU %lld: "
            "%s",
            bad, tried, (long long)field_int(worst, "a", -1), (long long)field_int(worst, "b", -1),
            field_text(worst, "copy"));
    else if (tried)
        row(c, "GPU copies", ROW_OK, "",
            "%zu pair%s: data correct, at %.3g "
            "GB/s or more",
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
            "NCCL sum of GPU %lld "
            "and GPU %lld: %s%s%s",
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

/* --- network ------------------------------------------------------------------------------- */

static void check_network(struct checkup *c)
{
    size_t i;
    const json_t *net;
    json_array_foreach(json_object_get(c->facts, "net"), i, net)
    {
        json_int_t mbps = field_int(net, "speed_mbps", -1);
        if (!field_true(net, "default_route"))
            continue;
        if (mbps > 0)
            row(c, "network", ROW_OK, "", "the default route uses %s, %g Gbit/s",
                field_text(net, "name"), (double)mbps / 1000);
        else
            row(c, "network", ROW_OK, "", "the default route uses %s", field_text(net, "name"));
        return;
    }
    row(c, "network", ROW_UNKNOWN, "", "no interface has a default route: single-node jobs only");
}

static void check_rdma(struct checkup *c)
{
    size_t i, down = 0;
    const json_t *port, *ports = json_object_get(c->facts, "rdma");
    const json_t *lock = json_object_get(c->facts, "memlock_bytes");
    if (json_array_size(ports) == 0)
        return;
    json_array_foreach(ports, i, port)
    {
        down += !field_true(port, "active");
    }
    row(c, "RDMA ports", down == json_array_size(ports) ? ROW_WARN : ROW_OK,
        "check them with ibstat", "%zu of %zu active", json_array_size(ports) - down,
        json_array_size(ports));
    if (json_is_integer(lock))
        row(c, "locked memory", ROW_WARN, "ulimit -l unlimited; containers: --ulimit memlock=-1",
            "%lld KiB: too little for RDMA between nodes to register memory",
            (long long)(json_integer_value(lock) / KIB));
}

/* --- the machine --------------------------------------------------------------------------- */

static void check_clock(struct checkup *c)
{
    const json_t *good = json_object_get(c->looked, "clock_synchronised");
    if (!json_is_boolean(good))
        row(c, "clock", ROW_UNKNOWN, "", "synchronisation state unknown");
    else
        row(c, "clock", json_is_true(good) ? ROW_OK : ROW_WARN, "start chrony or systemd-timesyncd",
            json_is_true(good) ? "synchronised"
                               : "not synchronised: event times of different "
                                 "nodes may be out of order");
}

static void check_session(struct checkup *c)
{
    const json_t *session = json_object_get(c->facts, "session");
    json_int_t limit = field_int(session, "limit_s", -1), age = field_int(session, "age_s", -1);
    const char *kind = field_text(c->facts, "host_kind");
    if (limit < 0)
        row(c, "machine", ROW_OK, "", "%s%s%s", kind[0] ? kind : "plain",
            field_text(c->facts, "container")[0] ? ", in a container of " : "",
            field_text(c->facts, "container"));
    else
        row(c, "machine", ROW_WARN, "copy checkpoints elsewhere with checkpoint.mirror",
            "%s: reclaimed after at most %lld h, up for %.1f h", kind, (long long)(limit / 3600),
            (double)(age > 0 ? age : 0) / 3600);
}

/* "4.3.1, without root, GPUs by CDI": one row for each runtime that is installed. */
static void check_container(struct checkup *c, const json_t *r)
{
    const char *name = field_text(r, "runtime"), *version = field_text(r, "version");
    const bool podman = strcmp(name, "podman") == 0, gpus = json_array_size(json_object_get(c->facts, "gpus")) > 0;
    const char *how = strcmp(name, "docker") == 0 || podman ? field_true(r, "rootless") ? ", without root" : ", as root"
                                                            : "";
    if (field_text(r, "why")[0])
        row(c, name, ROW_UNKNOWN, "", "%s %s", name, field_text(r, "why"));
    else if (field_text(r, "error")[0])
        row(c, name, ROW_WARN, "jobs with an image will fail here, or name another runtime in image.runtime", "%s",
            field_text(r, "error"));
    else if (podman && gpus && !field_true(r, "cdi"))
        row(c, name, ROW_WARN, "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            "%s%s; no description of the GPUs (CDI): jobs with an image get none", version[0] ? version : "installed", how);
    else
        row(c, name, ROW_OK, "", "%s%s%s", version[0] ? version : "installed", how,
            !gpus ? "" : podman ? ", GPUs by CDI" : strcmp(name, "docker") == 0 ? ", GPUs by --gpus" : ", GPUs");
}

static void check_containers(struct checkup *c)
{
    size_t i;
    const json_t *r;
    json_array_foreach (json_object_get(c->facts, "containers"), i, r)
        check_container(c, r);
}

/* --- the job ------------------------------------------------------------------------------- */

static void check_plan(struct checkup *c)
{
    size_t i;
    const json_t *note;
    if (!c->plan) {
        row(c, "plan", ROW_FAIL, "change the spec accordingly", "%s", c->refusal.text);
        return;
    }
    row(c, "plan", ROW_OK, "", "%lld rank%s: %s", (long long)field_int(c->plan, "np", -1),
        field_int(c->plan, "np", -1) == 1 ? "" : "s", field_text(c->plan, "why"));
    json_array_foreach(json_object_get(c->plan, "notes"), i, note)
    {
        if (strstr(json_string_value(note), "likely harmful"))
            row(c, "environment", ROW_WARN, "remove the variable, or compare with and without it",
                "%s", json_string_value(note));
    }
}

/* Whether the engine refused the weights that a run begins with. */
static bool is_of_weights(const char *wrong)
{
    return strncmp(wrong, "train.model.weights", strlen("train.model.weights")) == 0 ||
           strncmp(wrong, "load_from", strlen("load_from")) == 0;
}

static void check_weights(struct checkup *c, const json_t *train, const char *wrong)
{
    const json_t *weights = json_object_get(train, "weights");
    if (weights)
        row(c, "weights", field_text(weights, "left_out")[0] ? ROW_WARN : ROW_OK, "", "%s%s%s",
            field_text(weights, "is"), field_text(weights, "left_out")[0] ? "; " : "", field_text(weights, "left_out"));
    else if (is_of_weights(wrong))
        row(c, "weights", ROW_FAIL, "name weights of this model, or change train.model; `jobctl-train inspect PATH` "
            "tells what they are", "%s", wrong);
}

/* "", or ", at least 3.2 h (counted)". */
static void encode_time(char *out, size_t size, const json_t *encode)
{
    const double s = field_number(encode, "seconds");
    const bool counted = strcmp(field_text(encode, "rate"), "counted") == 0;
    out[0] = '\0';
    if (field_int(encode, "missing_pictures", 0) + field_int(encode, "missing_captions", 0) > 0)
        snprintf(out, size, ", %s%.3g %s (%s)", counted ? "at least " : "", s < 120 ? s : s < 7200 ? s / 60 : s / 3600,
                 s < 120 ? "s" : s < 7200 ? "min" : "h", field_text(encode, "rate"));
}

/* Data that a run encodes before its first step. */
static void check_encode(struct checkup *c, const json_t *encode)
{
    const double mib = (double)(field_int(encode, "latent_bytes", 0) + field_int(encode, "text_bytes", 0)) / (1 << 20);
    char time[80];
    if (!encode)
        return;
    encode_time(time, sizeof(time), encode);
    row(c, "encode", field_true(encode, "fits") ? ROW_OK : ROW_WARN,
        field_true(encode, "fits") ? "" : "encode with fewer ranks, or on a machine with more memory",
        "%lld of %lld pictures and %lld of %lld captions%s; cache of %.1f %s in %.200s%s",
        (long long)field_int(encode, "missing_pictures", 0), (long long)field_int(encode, "pictures", 0),
        (long long)field_int(encode, "missing_captions", 0), (long long)field_int(encode, "captions", 0),
        time, mib < 1024 ? mib : mib / 1024, mib < 1024 ? "MiB" : "GiB", field_text(encode, "cache"),
        field_true(encode, "fits") ? "" : "; the encoders do not fit in free memory");
}

static void check_model(struct checkup *c, const json_t *model)
{
    const char *state = field_text(model, "state"), *text = field_text(model, "text");
    if (strcmp(state, "there") == 0 || strcmp(state, "missing") == 0)
        row(c, "models", ROW_OK, "", "%s", text);
    else if (strcmp(state, "absent") == 0)
        row(c, "models", ROW_FAIL, "run `jobctl fetch FILE` on a machine that has network and sees this cache", "%s", text);
    else
        row(c, "models", ROW_FAIL, "correct the name, or set HF_TOKEN to a token with access", "%s", text);
}

/* What the job names on a hub. */
static void check_models(struct checkup *c)
{
    size_t i;
    const json_t *model, *models = json_object_get(c->looked, "models");
    json_array_foreach (json_object_get(models, "names"), i, model)
        check_model(c, model);
    if (field_text(models, "error")[0])
        row(c, "models", ROW_UNKNOWN, "install jobctl-fetch beside jobctl-agent, and libcurl", "%s",
            field_text(models, "error"));
}

static void check_data(struct checkup *c)
{
    const json_t *train = json_object_get(c->looked, "train");
    const char *wrong = field_text(c->looked, "train_error");
    if (!json_is_object(json_object_get(c->spec, "train")))
        return;
    check_models(c);
    check_weights(c, train, wrong);
    if (is_of_weights(wrong))
        wrong = "";
    if (!train)
        row(c, "data", wrong[0] ? ROW_FAIL : ROW_UNKNOWN,
            "fix the data; `jobctl verify-data FILE` lists all errors", "%s",
            wrong[0] ? wrong : "not checked: the engine did not run");
    else
        row(c, "data", ROW_OK, "", "%lld samples, %lld steps%s%.40s", (long long)field_int(train, "samples", -1),
            (long long)field_int(train, "steps", -1), field_text(train, "data_digest")[0] ? ", " : "",
            field_text(train, "data_digest"));
    check_encode(c, json_object_get(train, "encode"));
}

/* "42.7 MiB", "1.5 GiB" */
static const char *size_of(char *out, size_t size, json_int_t bytes)
{
    const bool small = bytes < (json_int_t)1 << 30;
    snprintf(out, size, "%.1f %s", small ? gib(bytes) * 1024 : gib(bytes), small ? "MiB" : "GiB");
    return out;
}

static void check_fits(struct checkup *c)
{
    size_t i;
    const json_t *device, *best = NULL;
    json_array_foreach(json_object_get(json_object_get(c->looked, "train"), "memory"), i, device)
    {
        best = json_is_false(json_object_get(device, "fits")) || !best ? device : best;
    }
    if (!best || field_int(best, "planned_bytes", -1) < 0)
        return;
    char needs[32], may[32];
    row(c, "fits", json_is_false(json_object_get(best, "fits")) ? ROW_FAIL : ROW_OK,
        "reduce train.batch.micro, or set grad_checkpointing: true",
        "needs %s of memory on %s, %s available",
        size_of(needs, sizeof(needs), field_int(best, "planned_bytes", -1)), field_text(best, "device"),
        size_of(may, sizeof(may), field_int(best, "budget_bytes", -1)));
}

/* `keep` checkpoints, plus the one being written before the oldest is removed. */
static void check_checkpoints(struct checkup *c)
{
    json_int_t told = field_int(json_object_get(c->looked, "train"), "checkpoint_bytes", -1);
    json_int_t each = told < 0 ? field_int(c->looked, "checkpoint_bytes", -1) : told;
    json_int_t left = field_int(c->looked, "checkpoint_free_bytes", -1);
    json_int_t keep = field_int(json_object_get(c->spec, "checkpoint"), "keep", -1);
    if (each < 0 || left < 0)
        return;
    char one[32], room[32];
    keep = keep > 0 ? keep : 1;
    row(c, "checkpoints",
        left < each                ? ROW_FAIL
        : left < each * (keep + 1) ? ROW_WARN
                                   : ROW_OK,
        "free disk space, or reduce checkpoint.keep",
        "%lld checkpoints of %s each and one being written; %s free in %s", (long long)keep,
        size_of(one, sizeof(one), each), size_of(room, sizeof(room), left),
        field_text(c->looked, "checkpoint_dir"));
}

/* Seconds until the machine is reclaimed; -1: unknown. */
static double seconds_left(const struct checkup *c)
{
    const json_t *session = json_object_get(c->facts, "session");
    json_int_t limit = field_int(session, "limit_s", -1), age = field_int(session, "age_s", -1);
    json_int_t ends = field_int(session, "ends_at_s", -1), now = field_int(c->looked, "now_s", -1);
    if (ends > 0 && now > 0)
        return ends > now ? (double)(ends - now) : 0;
    return limit < 0 ? -1 : (double)(limit - (age > 0 ? age : 0));
}

/* Compares the remaining work, by the speed of the last attempt or else max_duration, with the
 * time left. */
static void check_time(struct checkup *c)
{
    const json_t *wanted = json_object_get(c->spec, "max_duration");
    const json_int_t steps = field_int(json_object_get(c->spec, "train"), "steps", -1);
    const json_int_t done = field_int(c->looked, "last_step", -1);
    const double left = seconds_left(c);
    const double ms = json_number_value(json_object_get(c->looked, "step_ms"));
    const bool known = ms > 0 && steps > 0 && done >= 0;
    const double needs = known ? (double)(steps > done ? steps - done : 0) * ms / 1000
                               : json_number_value(wanted);
    if (left < 0 || (!known && !json_is_number(wanted)))
        return;
    if (known)
        row(c, "time", needs > left ? ROW_WARN : ROW_OK,
            "the run is checkpointed before the end; continue it "
            "elsewhere with jobctl adopt",
            "%lld steps of %.4g ms take %.1f h, but the machine has %.1f h left",
            (long long)(steps > done ? steps - done : 0), ms, needs / 3600, left / 3600);
    else
        row(c, "time", needs > left ? ROW_WARN : ROW_OK,
            "continue the rest elsewhere with jobctl adopt",
            "max_duration is %.1f h, the machine has %.1f h left", needs / 3600, left / 3600);
}

/* Routes to the other nodes of the job: all must use the one interface that NCCL is given. */
static void check_ways(struct checkup *c)
{
    size_t i;
    const json_t *peer;
    const char *planned = c->plan ? plan_env(c->plan, "NCCL_SOCKET_IFNAME") : NULL;
    json_array_foreach(json_object_get(c->looked, "peers"), i, peer)
    {
        char name[64];
        const char *address = field_text(peer, "address");
        const char *over = route_interface(c->facts, address);
        snprintf(name, sizeof(name), "route to %.50s", field_text(peer, "host"));
        if (!address[0])
            row(c, name, ROW_UNKNOWN, "",
                "its name does not resolve on this machine; it may be an ssh "
                "alias");
        else if (!over)
            row(c, name, ROW_FAIL, "add a route on this machine", "no interface reaches %s",
                address);
        else if (planned && planned[0] == '=' && strcmp(planned + 1, over) != 0)
            row(c, name, ROW_WARN,
                "set env.NCCL_SOCKET_IFNAME to the interface that reaches all nodes",
                "%s is reached over %s, but NCCL uses %s", address, over, planned + 1);
        else
            row(c, name, ROW_OK, "", "%s over %s", address, over);
    }
}

/* Rows reported at the start of an attempt: failures, and warnings about this job. */
static bool concerns_attempt(const json_t *r)
{
    static const char *const checks[] = {"checkpoints", "time", "environment"};
    if (strcmp(field_text(r, "status"), "fail") == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(checks); i++)
        if (strcmp(field_text(r, "check"), checks[i]) == 0)
            return strcmp(field_text(r, "status"), "warn") == 0;
    return false;
}

/* A program that does not start reports a better error when it is started. */
static bool of_two_versions(const json_t *looked)
{
    return field_text(json_object_get(looked, "versions"), "jobctl-train")[0];
}

json_t *doctor_preflight(int *rc, const char *train, const json_t *facts, const json_t *spec,
                         const char *dir, const json_t *history, struct err *err)
{
    size_t i;
    json_t *r, *rows = json_array();
    const bool engine = json_is_object(json_object_get(spec, "train"));
    json_t *looked = doctor_look(engine ? train : NULL, spec, NULL, dir);
    if (looked && history) {
        json_object_set(looked, "step_ms", json_object_get(history, "step_ms"));
        json_object_set(looked, "last_step", json_object_get(history, "last_step"));
    }
    json_t *answer = looked ? doctor_check(facts, spec, looked) : NULL;
    *rc = 0;
    json_array_foreach(json_object_get(answer, "rows"), i, r)
    {
        if (concerns_attempt(r))
            json_array_append(rows, r);
        if (strcmp(field_text(r, "check"), "programs") == 0 &&
            strcmp(field_text(r, "status"), "fail") == 0 && of_two_versions(looked) &&
            engine)
            *rc = err_set(err, ERR_CONFLICT, "%s: %s", field_text(r, "seen"), field_text(r, "todo"));
    }
    json_decref(looked);
    json_decref(answer);
    const json_t *first = json_array_get(rows, 0);
    json_t *body = first ? json_pack("{s:o, s:O}", "text",
                                     json_sprintf("%s: %s", field_text(first, "check"),
                                                  field_text(first, "seen")), "rows", rows)
                         : NULL;
    json_decref(rows);
    return body;
}

json_t *doctor_check(const json_t *facts, const json_t *spec, const json_t *looked)
{
    static void (*const of_node[])(struct checkup *) = {
        check_programs, check_processors, check_machine, check_memory, check_shm,  check_disk,    check_driver,
        check_gpus,     check_pairs,      check_copies, check_sums, check_nccl, check_network, check_rdma,
        check_clock,    check_session, check_containers,
    };
    static void (*const of_job[])(struct checkup *) = {
        check_plan, check_data, check_fits, check_checkpoints, check_time, check_ways,
    };
    struct checkup c = {.facts = facts, .spec = spec, .looked = looked};
    doctor_rows_init(&c.rows);
    for (size_t i = 0; i < ARRAY_LEN(of_node); i++)
        of_node[i](&c);
    if (spec && plan_make(&c.plan, facts, spec, &c.refusal) < 0)
        c.plan = NULL;
    for (size_t i = 0; spec && i < ARRAY_LEN(of_job); i++)
        of_job[i](&c);
    json_decref(c.plan);
    return doctor_rows_end(&c.rows);
}
