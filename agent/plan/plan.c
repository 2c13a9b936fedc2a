/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h; first the size, then devices, then one function per group of variables */
#include "agent/plan/plan.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/cpu_list.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

/* A count; -1 if it is absent or the word `auto`. */
static int count_of(const struct plan_view *v, const char *key)
{
    const json_t *n = json_object_get(v->resources, key);
    return json_is_integer(n) ? (int)json_integer_value(n) : -1;
}

/* --- size ---------------------------------------------------------------------------------- */

/* "GPU 0 (NVIDIA A100)": the GPUs named in a refusal. */
static const char *name_gpus(const struct plan_view *v, int count, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < count && n + 1 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%.40s (%.44s)", i ? ", " : "",
                              field_text(v->gpu[i].facts, "name"), v->gpu[i].uuid);
    return out;
}

static int too_few_gpus(const struct plan_view *v, int asked, struct err *err)
{
    char list[200];
    if (v->hidden)
        return err_set(err, ERR_NO_DEVICE,
                       "resources.gpus is %d, but CUDA_VISIBLE_DEVICES=%s in the environment hides %d of the %d usable "
                       "GPUs of this machine: unset it, or set resources.gpus to at most %d",
                       asked, v->hidden_by, v->hidden, v->hidden + v->present, v->present);
    return err_set(err, ERR_NO_DEVICE,
                   "resources.gpus is %d, but this machine has %d healthy GPU%s%s%s%s%s: "
                   "set `gpus: %s",
                   asked, v->present, v->present == 1 ? "" : "s", v->present ? ", " : "",
                   name_gpus(v, v->present, list, sizeof(list)), v->left_out ? "; " : "",
                   v->first_left_out, v->present ? "auto` to use all of them" : "0` to run on the CPU");
}

/* For `gpus: auto`: without NCCL one GPU is used, rather than fail. */
static void limit_engine(struct plan_view *v)
{
    if (v->gpus < 2 || (json_is_string(json_object_get(v->facts, "nccl")) &&
                        !field_true(v->facts, "wsl")))
        return;
    if (field_true(v->facts, "wsl"))
        plan_note(
            v,
            "using one of %d GPUs: under WSL, GPUs cannot share memory between processes; set "
            "resources.gpus to use more",
            v->gpus);
    else
        plan_note(v,
                  "using one of %d GPUs: more need NCCL, and libnccl.so.2 was not found; "
                  "install it or add its directory to LD_LIBRARY_PATH",
                  v->gpus);
    v->gpus = 1;
}

static int choose_gpus(struct plan_view *v, struct err *err)
{
    int asked = count_of(v, "gpus");
    if (plan_find_gpus(v, err) < 0)
        return -1;
    if (asked > v->present)
        return too_few_gpus(v, asked, err);
    const bool one = !v->chosen && strcmp(field_text(v->resources, "gpus"), "one") == 0;
    const int most = one ? abs(count_of(v, "ranks")) : v->present; /* `one`: per rank; ranks: auto is one rank */
    v->gpus = asked >= 0 ? asked : most < v->present ? most : v->present;
    if (v->engine && asked < 0)
        limit_engine(v);
    return 0;
}

static int too_many_ranks(const struct plan_view *v, int asked, struct err *err)
{
    char list[200];
    return err_set(
        err, ERR_CONFLICT,
        "resources.ranks is %d, but the job has %d GPU%s: %s. Two ranks on one GPU fail in NCCL with \"Duplicate GPU "
        "detected\". Set `ranks: auto` (one rank per GPU, here %d), or `share_gpus: true` to share GPUs anyway",
        asked, v->gpus, v->gpus == 1 ? "" : "s", name_gpus(v, v->gpus, list, sizeof(list)),
        v->gpus);
}

/* `ranks: auto`. */
static void choose_ranks_alone(struct plan_view *v)
{
    v->np = 1;
    if (v->engine && v->gpus == 0) {
        snprintf(v->why, sizeof(v->why),
                 "on the CPU one rank uses all cores; set resources.ranks for more");
    } else if (!v->engine && v->gpus > 1 && field_true(v->facts, "wsl")) {
        v->gpus = 1;
        snprintf(v->why, sizeof(v->why),
                 "under WSL, GPUs cannot share memory between processes; set resources.ranks for more");
    } else if (v->gpus > 0) {
        v->np = v->gpus;
        snprintf(v->why, sizeof(v->why), "one rank for each of %d distinct healthy GPU%s", v->gpus,
                 v->gpus == 1 ? "" : "s");
    } else {
        snprintf(v->why, sizeof(v->why), "one rank, because no GPU is used");
    }
}

static int choose_ranks(struct plan_view *v, struct err *err)
{
    int asked = count_of(v, "ranks");
    if (asked == 0 || asked > PLAN_RANKS_MOST)
        return err_set(err, ERR_USAGE, "resources.ranks must be `auto` or 1 to %d", PLAN_RANKS_MOST);
    if (v->engine && asked > v->gpus && v->gpus > 0 && v->nodes > 1)
        return err_set(err, ERR_CONFLICT,
                       "resources.ranks is %d, but on several nodes a `train:` job runs at most one rank per GPU, here "
                       "%d; set `ranks: auto`",
                       asked, v->gpus);
    if (asked > v->gpus && v->gpus > 0 && !v->share)
        return too_many_ranks(v, asked, err);
    if (asked > 0) {
        v->np = asked;
        snprintf(v->why, sizeof(v->why), "set by resources.ranks");
    } else {
        choose_ranks_alone(v);
    }
    if (v->engine && v->np > v->gpus && v->gpus > 0)
        plan_note(v,
                  "several ranks share a GPU (share_gpus: true): each gets a part of its time and memory, and they "
                  "all-reduce through host memory, which is slower; one rank per GPU is faster");
    else if (v->np > v->gpus && v->gpus > 0)
        plan_note(v, "several ranks share a GPU (share_gpus: true): each gets a part of its time and memory. NCCL "
                     "before 2.30 refuses this; use gloo, or with 2.30 set NCCL_MULTI_RANK_GPU_ENABLE=1");
    return 0;
}

/* --- CPUs ---------------------------------------------------------------------------------- */

/* The CPUs close to a GPU on a machine with several NUMA nodes; "" otherwise. */
static int near_cpus(const struct plan_view *v, const json_t *gpu, char *out, size_t size)
{
    const json_t *numa = json_object_get(v->facts, "numa"), *node;
    const json_t *near = json_object_get(gpu, "numa");
    size_t i;
    out[0] = '\0';
    if (json_array_size(numa) < 2 || !json_is_integer(near))
        return 0;
    json_array_foreach(numa, i, node)
    {
        if (json_integer_value(json_object_get(node, "node")) == json_integer_value(near))
            return cpu_list_common(out, size, field_text(node, "cpus"), field_text(v->facts, "cpu_list"));
    }
    return 0;
}

/* Threads of a rank: its share of the job's CPU slots. */
static void set_threads(struct plan_view *v)
{
    int asked = count_of(v, "cpus");
    const json_t *quota = json_object_get(v->facts, "cgroup_cpus");
    int cpus = (int)json_integer_value(json_object_get(v->facts, "cpus"));
    const char *limit = "of this process's affinity mask";
    if (json_is_number(quota) && json_number_value(quota) < cpus) {
        cpus = (int)json_number_value(quota);
        limit = "of its cgroup limit";
    }
    cpus = cpus > 0 ? cpus : 1;
    char why[160];
    if (asked > 0) {
        snprintf(why, sizeof(why), "resources.cpus: %d CPU%s for %d rank%s", asked,
                 asked == 1 ? "" : "s", v->np, v->np == 1 ? "" : "s");
        v->cpus = asked;
    } else if (v->engine) {
        snprintf(why, sizeof(why), "the engine uses all %d CPUs %s%s", cpus, limit,
                 v->np > 1 ? ", divided among the ranks" : "");
        v->cpus = cpus;
    } else {
        snprintf(why, sizeof(why),
                 "one CPU slot per rank, as torchrun does; set resources.cpus for more");
        v->cpus = v->np;
    }
    int threads = v->cpus / v->np > 0 ? v->cpus / v->np : 1;
    char value[16], fact[80], bound[256];
    int near = v->gpus ? near_cpus(v, v->gpu[0].facts, bound, sizeof(bound)) : 0;
    threads = near > 0 && near < threads ? near : threads;
    snprintf(value, sizeof(value), "%d", threads);
    snprintf(fact, sizeof(fact), "%d CPU%s for %d rank%s", v->cpus,
             v->cpus == 1 ? "" : "s", v->np, v->np == 1 ? "" : "s");
    plan_set_unset(v, "OMP_NUM_THREADS", value, why, fact);
    json_object_set_new(v->plan, "threads", json_integer(threads));
    json_object_set_new(v->plan, "cpus", json_integer(v->cpus));
}

/* --- devices ------------------------------------------------------------------------------- */

/* With CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA numbers the GPUs as NVML does, unless it leaves one out, divides one, or the
 * driver lists one twice; in a container the others are missing. */
static bool numbers_are_exact(const struct plan_view *v)
{
    const char *before = "", *order = field_text(json_object_get(v->spec, "env"), "CUDA_DEVICE_ORDER");
    bool exact = !field_true(v->facts, "wsl") && !json_is_object(json_object_get(v->spec, "image")) &&
                 (!order[0] || strcmp(order, "PCI_BUS_ID") == 0);
    size_t i;
    const json_t *gpu;
    json_array_foreach(json_object_get(v->facts, "gpus"), i, gpu)
    {
        const char *pci = field_text(gpu, "pci");
        exact = exact && field_true(gpu, "healthy") && !field_true(gpu, "mig") && strcmp(pci, before) > 0 &&
                field_int(gpu, "index", -1) == (int64_t)i;
        before = pci;
    }
    return exact;
}

static json_t *rank_of(const struct plan_view *v, int i, bool exact)
{
    char cpus[256];
    const struct plan_gpu *gpu = v->gpus ? &v->gpu[i % v->gpus] : NULL;
    json_t *rank = json_make("{s:i, s:o, s:s}", "rank", i, "gpu",
                             gpu ? json_text(gpu->uuid) : json_null(), "device",
                             gpu ? field_text(gpu->facts, "name") : "cpu");
    if (gpu && exact)
        json_object_set(rank, "index", json_object_get(gpu->facts, "index"));
    if (gpu && near_cpus(v, gpu->facts, cpus, sizeof(cpus)) > 0) {
        json_object_set(rank, "numa", json_object_get(gpu->facts, "numa"));
        json_object_set_new(rank, "cpus", json_text(cpus));
    }
    return rank;
}

static void set_devices(struct plan_view *v)
{
    json_t *ranks = json_array();
    char list[PLAN_GPUS_MOST * 48] = "", uuids[sizeof(list)] = "", brief[sizeof(list)] = "", fact[80];
    const bool exact = numbers_are_exact(v);
    for (int i = 0; i < v->gpus; i++) {
        text_append(uuids, sizeof(uuids), "%s%.44s", i ? "," : "", v->gpu[i].uuid);
        text_append(brief, sizeof(brief), "%s%.12s", i ? "," : "", v->gpu[i].uuid);
        text_append(list, sizeof(list), "%s%d", i ? "," : "", (int)field_int(v->gpu[i].facts, "index", -1));
    }
    for (int i = 0; i < v->np; i++)
        json_array_append_new(ranks, rank_of(v, i, exact));
    json_object_set_new(v->plan, "ranks", ranks);
    if (v->gpus > 0) {
        json_object_set_new(v->plan, "gpus", json_text(exact ? list : brief));
        json_object_set_new(v->plan, "uuids", json_text(uuids));
    }
    snprintf(fact, sizeof(fact), "%d of %zu GPU%s here", v->gpus, json_array_size(json_object_get(v->facts, "gpus")),
             json_array_size(json_object_get(v->facts, "gpus")) == 1 ? "" : "s");
    if (v->gpus > 0) {
        plan_set(v, "CUDA_DEVICE_ORDER", "PCI_BUS_ID", "GPUs are numbered as in nvidia-smi", fact,
                 "high");
        plan_set(v, "CUDA_VISIBLE_DEVICES", exact ? list : uuids,
                 exact ? "the job's GPUs by number, compared with their UUIDs at each start; LOCAL_RANK indexes this "
                         "list, as with torchrun"
                       : "the job's GPUs by UUID; LOCAL_RANK indexes this list, as with torchrun", fact, "high");
    } else if (v->present > 0) {
        plan_set(v, "CUDA_VISIBLE_DEVICES", "", "the job requested no GPU, so none is visible", fact, "high");
    }
}

/* The engine itself may still find the GPU unusable: with "auto" it then computes on the CPU and reports that, with
 * "cuda" it ends. */
static void set_backend(struct plan_view *v)
{
    const char *wish = json_string_value(json_object_get(json_object_get(v->spec, "train"), "backend"));
    const char *value = v->gpus == 0 ? "cpu" : wish ? wish : "auto"; /* none: a job of a version without this key */
    const char *why = v->gpus == 0                   ? "no GPU is used"
                      : strcmp(value, "auto") == 0 ? "the engine computes on the GPU, or on the CPU if the GPU is unusable"
                                                   : "the engine computes on the GPU, and ends if the GPU is unusable";
    if (v->engine)
        plan_set(v, "JOBCTL_BACKEND", value, why, v->gpus > 0 ? "the job has a GPU" : "the job has no GPU", "high");
}

/* LOCAL_RANK indexes the GPUs; ranks in excess wrap around to the first one. */
static void set_sharing(struct plan_view *v)
{
    char value[16], fact[48];
    if (!v->engine || v->np <= v->gpus || v->gpus == 0)
        return;
    snprintf(value, sizeof(value), "%d", v->gpus);
    snprintf(fact, sizeof(fact), "%d ranks, %d GPU%s", v->np, v->gpus, v->gpus == 1 ? "" : "s");
    plan_set(v, "JOBCTL_SHARED_GPUS", value,
             "the ranks take turns on shared GPUs without NCCL, which refuses two ranks on one GPU",
             fact, "high");
}

static void set_output(struct plan_view *v)
{
    if (!v->engine)
        plan_set_unset(v, "PYTHONUNBUFFERED", "1",
                       "output reaches the log unbuffered, including the last lines before a crash",
                       "a user command, possibly Python");
}

static void set_profiler(struct plan_view *v)
{
    const char *path = field_text(v->facts, "nccl_profiler");
    if (!v->engine && v->gpus > 0 && path[0])
        plan_set(v, "NCCL_PROFILER_PLUGIN", path,
                 "NCCL then reports the collective of each rank, so a hang is detected and located",
                 "a command that may use NCCL", "high");
}

/* --- everything ---------------------------------------------------------------------------- */

static int fill(struct plan_view *v, struct err *err)
{
    if (choose_gpus(v, err) < 0 || choose_ranks(v, err) < 0)
        return -1;
    json_object_set_new(v->plan, "schema", json_integer(1));
    json_object_set_new(v->plan, "np", json_integer(v->np));
    json_object_set_new(v->plan, "nodes", json_integer(v->nodes));
    json_object_set_new(v->plan, "engine", json_boolean(v->engine));
    json_object_set_new(v->plan, "why", json_text(v->why));
    json_object_set(v->plan, "env", v->env);
    json_object_set(v->plan, "notes", v->notes);
    set_threads(v);
    set_devices(v);
    set_backend(v);
    set_sharing(v);
    set_output(v);
    plan_set_nccl(v);
    plan_set_fallbacks(v);
    set_profiler(v);
    if (plan_take_user_env(v, err) < 0 || plan_set_container(v, err) < 0)
        return -1;
    plan_add_fallbacks(v);
    plan_set_hash(v->plan);
    return 0;
}

static struct plan_view look_at(const json_t *facts, const json_t *spec)
{
    struct plan_view v = {
        .facts = facts,
        .spec = spec,
        .resources = json_object_get(spec, "resources"),
        .engine = json_is_object(json_object_get(spec, "train")),
        .plan = json_make("{s:[], s:[]}", "harmful", "unused"),
        .env = json_array(),
        .notes = json_array(),
    };
    int nodes = count_of(&v, "nodes");
    v.nodes = nodes > 0 ? nodes : 1;
    v.share = field_true(v.resources, "share_gpus");
    return v;
}

static void look_away(struct plan_view *v)
{
    json_decref(v->plan);
    json_decref(v->env);
    json_decref(v->notes);
}

int plan_make(json_t **plan, const json_t *facts, const json_t *spec, struct err *err)
{
    struct plan_view v = look_at(facts, spec);
    int rc = v.plan && v.env && v.notes ? fill(&v, err)
                                        : err_set(err, ERR_MEMORY, "no memory for a plan");
    if (rc == 0)
        *plan = json_incref(v.plan);
    look_away(&v);
    return rc;
}

int plan_usable_gpus(char *why, size_t size, const json_t *facts, const json_t *spec)
{
    struct plan_view v = look_at(facts, spec);
    if (v.plan && v.env && v.notes)
        plan_find_gpus(&v, NULL);
    const int asked = count_of(&v, "gpus");
    if (v.hidden)
        snprintf(why, size, "%d of %d GPUs: CUDA_VISIBLE_DEVICES=%s hides %d", v.present, asked, v.hidden_by, v.hidden);
    else
        snprintf(why, size, "%d of %d GPUs%s%s", v.present, asked, v.left_out ? ": " : "", v.first_left_out);
    look_away(&v);
    return v.present;
}

int plan_count_gpus(const json_t *facts)
{
    json_t *any = json_make("{s:{s:i}}", "resources", "gpus", 0); /* valid for any model */
    json_t *idle = json_deep_copy(facts), *gpus = json_object_get(idle, "gpus"), *gpu;
    char why[120];
    size_t i;
    int slices = 0;
    for (i = json_array_size(gpus); i-- > 0;) {
        gpu = json_array_get(gpus, i);
        json_object_del(gpu, "processes");
        json_object_del(gpu, "held");
        json_object_del(gpu, "spare");
        if (!field_true(gpu, "mig"))
            continue;
        if (plan_gpu_healthy(gpu)) /* each slice is a device, although a job gets one of them only */
            slices += (int)json_array_size(json_object_get(gpu, "mig_slices"));
        json_array_remove(gpus, i);
    }
    const int whole = any ? plan_usable_gpus(why, sizeof(why), idle, any) : 0;
    json_decref(idle);
    json_decref(any);
    return whole + slices;
}
