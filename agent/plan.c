/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h; size first, then devices, then one function per variable */
#include "agent/plan.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/err.h"

enum { MOST_GPUS = 64, MOST_RANKS = 1024 };

struct view {
    const json_t *facts, *spec;
    const json_t *resources;
    bool engine;
    bool share;
    int present;                  /* distinct healthy GPUs */
    const json_t *gpu[MOST_GPUS]; /* the ones in use */
    int gpus;                     /* of them in use */
    int np;
    int cpus; /* that the job may use */
    char why[160];
    json_t *plan, *env, *notes;
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* A count that may be the word `auto` or absent: -1. */
static int count_of(const struct view *v, const char *key)
{
    const json_t *n = json_object_get(v->resources, key);
    return json_is_integer(n) ? (int)json_integer_value(n) : -1;
}

static void note(struct view *v, const char *text)
{
    json_array_append_new(v->notes, json_string(text));
}

static void set(struct view *v, const char *name, const char *value, const char *why)
{
    json_array_append_new(v->env,
                          json_pack("{s:s, s:s, s:s}", "name", name, "value", value, "why", why));
}

/* Counts each GPU once, by UUID, if it is healthy. */
static void find_gpus(struct view *v)
{
    size_t i;
    json_t *gpu;
    json_t *gpus = json_object_get(v->facts, "gpus");
    char text[200];
    json_array_foreach(gpus, i, gpu)
    {
        bool seen = false;
        for (int k = 0; k < v->present; k++)
            seen = seen || strcmp(text_of(v->gpu[k], "uuid"), text_of(gpu, "uuid")) == 0;
        if (!json_is_true(json_object_get(gpu, "healthy"))) {
            snprintf(text, sizeof(text), "GPU %zu is left out: %.120s", i, text_of(gpu, "note"));
            note(v, text);
        } else if (json_is_true(json_object_get(gpu, "mig"))) {
            snprintf(text, sizeof(text),
                     "GPU %zu is left out: it is divided (MIG), and slices of "
                     "one GPU cannot talk to each other",
                     i);
            note(v, text);
        } else if (!seen && v->present < MOST_GPUS) {
            v->gpu[v->present++] = gpu;
        }
    }
    const char *trouble = json_string_value(json_object_get(v->facts, "gpu_note"));
    if (trouble)
        note(v, trouble);
}

static int choose_gpus(struct view *v, struct err *err)
{
    int asked = count_of(v, "gpus");
    find_gpus(v);
    if (asked > v->present)
        return err_set(
            err, ERR_CONFLICT,
            "resources.gpus asks for %d GPU%s, but this machine has %d healthy one%s%s%s: "
            "set `gpus: auto` to use what is there%s",
            asked, asked == 1 ? "" : "s", v->present, v->present == 1 ? "" : "s",
            v->present ? ", " : "", v->present ? text_of(v->gpu[0], "name") : "",
            v->present ? "" : ", or `gpus: 0` for the CPU");
    if (v->engine && asked > PLAN_ENGINE_GPUS)
        return err_set(err, ERR_CONFLICT,
                       "resources.gpus: %d GPUs for a `train:` job are not supported yet: set "
                       "`gpus: auto` for one", asked);
    v->gpus = asked < 0 ? v->present : asked;
    if (v->engine && v->gpus > PLAN_ENGINE_GPUS)
        v->gpus = PLAN_ENGINE_GPUS;
    return 0;
}

static int choose_ranks(struct view *v, struct err *err)
{
    int asked = count_of(v, "ranks");
    if (asked == 0 || asked > MOST_RANKS)
        return err_set(err, ERR_USAGE, "resources.ranks must be `auto` or 1 to %d", MOST_RANKS);
    if (v->engine && asked > 1 && v->gpus > 0)
        return err_set(err, ERR_CONFLICT,
                       "resources.ranks: %d ranks of a `train:` job on GPUs are not supported yet: "
                       "set `ranks: auto` for one GPU, or `gpus: 0` for ranks on the CPU",
                       asked);
    if (asked > v->gpus && v->gpus > 0 && !v->share)
        return err_set(
            err, ERR_CONFLICT,
            "resources.ranks asks for %d ranks, but the job has %d GPU%s: two ranks on one "
            "GPU fail in NCCL with \"Duplicate GPU detected\". Set `ranks: auto` (one per "
            "GPU, here %d), or `share_gpus: true` if you mean it",
            asked, v->gpus, v->gpus == 1 ? "" : "s", v->gpus);
    if (asked > 0) {
        v->np = asked;
        snprintf(v->why, sizeof(v->why), "resources.ranks says so");
    } else if (v->engine) {
        v->np = 1;
        snprintf(v->why, sizeof(v->why),
                 v->gpus > 0 ? "the embedded engine trains on one GPU so far"
                             : "on the CPU one rank uses all cores; resources.ranks gives more");
    } else if (v->gpus > 0) {
        v->np = v->gpus;
        snprintf(v->why, sizeof(v->why), "one rank for each of %d distinct healthy GPU%s", v->gpus,
                 v->gpus == 1 ? "" : "s");
    } else {
        v->np = 1;
        snprintf(v->why, sizeof(v->why), "no GPU is used, so one rank");
    }
    if (v->np > v->gpus && v->gpus > 0)
        note(v, "several ranks share a GPU, as share_gpus: true asks: NCCL before 2.30 refuses "
                "that; use gloo, or set NCCL_MULTI_RANK_GPU_ENABLE=1 with 2.30");
    return 0;
}

/* Threads of a rank: its share of the job's CPU slots. */
static void set_threads(struct view *v)
{
    int asked = count_of(v, "cpus");
    const json_t *quota = json_object_get(v->facts, "cgroup_cpus");
    int cpus = (int)json_integer_value(json_object_get(v->facts, "cpus"));
    const char *limit = "this process may run on";
    if (json_is_number(quota) && json_number_value(quota) < cpus) {
        cpus = (int)json_number_value(quota);
        limit = "the control group allows";
    }
    cpus = cpus > 0 ? cpus : 1;
    char why[160];
    if (asked > 0) {
        snprintf(why, sizeof(why), "resources.cpus gives %d CPU%s to %d rank%s", asked,
                 asked == 1 ? "" : "s", v->np, v->np == 1 ? "" : "s");
        v->cpus = asked;
    } else if (v->engine) {
        snprintf(why, sizeof(why), "the engine uses all %d CPUs that %s%s", cpus, limit,
                 v->np > 1 ? ", each rank its share" : "");
        v->cpus = cpus;
    } else {
        snprintf(why, sizeof(why),
                 "one CPU slot per rank, as torchrun does; resources.cpus gives "
                 "more");
        v->cpus = v->np;
    }
    int threads = v->cpus / v->np > 0 ? v->cpus / v->np : 1;
    char value[16];
    snprintf(value, sizeof(value), "%d", threads);
    set(v, "OMP_NUM_THREADS", value, why);
    json_object_set_new(v->plan, "threads", json_integer(threads));
}

static void set_devices(struct view *v)
{
    json_t *ranks = json_array();
    char list[MOST_GPUS * 48] = "";
    for (int i = 0; i < v->gpus; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%.44s", i ? "," : "",
                 text_of(v->gpu[i], "uuid"));
    for (int i = 0; i < v->np; i++) {
        const json_t *gpu = v->gpus ? v->gpu[i % v->gpus] : NULL;
        json_array_append_new(ranks,
                              json_pack("{s:i, s:o, s:s}", "rank", i, "gpu",
                                        gpu ? json_string(text_of(gpu, "uuid")) : json_null(),
                                        "device", gpu ? text_of(gpu, "name") : "cpu"));
    }
    json_object_set_new(v->plan, "ranks", ranks);
    if (v->gpus > 0) {
        set(v, "CUDA_DEVICE_ORDER", "PCI_BUS_ID", "the same order as nvidia-smi shows");
        set(v, "CUDA_VISIBLE_DEVICES", list,
            "the job's GPUs by UUID; LOCAL_RANK counts among them, as with torchrun");
    } else if (v->present > 0) {
        set(v, "CUDA_VISIBLE_DEVICES", "", "the job asked for no GPU, so it sees none");
    }
}

/* With a GPU the engine may still find that it cannot be used, and then says so. */
static void set_backend(struct view *v)
{
    if (v->engine)
        set(v, "JOBCTL_BACKEND", v->gpus > 0 ? "auto" : "cpu",
            v->gpus > 0 ? "the engine computes on the GPU, or on the CPU if that cannot be used"
                        : "no GPU is used");
}

static void set_output(struct view *v)
{
    if (!v->engine)
        set(v, "PYTHONUNBUFFERED", "1",
            "lines appear in the log as they are printed, also the last ones before a crash");
    const json_t *shm = json_object_get(v->facts, "shm_bytes");
    if (v->np > 1 && json_is_integer(shm) && json_integer_value(shm) < (json_int_t)1 << 30) {
        char text[200];
        snprintf(text, sizeof(text),
                 "/dev/shm has only %lld MiB: data loader workers or NCCL may "
                 "run out of it (a rank then dies of SIGBUS)",
                 (long long)(json_integer_value(shm) >> 20));
        note(v, text);
    }
}

static bool is_planned(const json_t *env, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(env, i, row)
    {
        if (strcmp(text_of(row, "name"), name) == 0)
            return true;
    }
    return false;
}

/* Names that tell ranks apart: a fixed value for all would break the job. */
static bool is_identity(const char *name)
{
    static const char *const names[] = {"RANK",      "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                        "NODE_RANK", "GROUP_RANK", "ROLE_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return strncmp(name, "JOBCTL_", 7) == 0;
}

static int take_user_env(struct view *v, struct err *err)
{
    const char *name;
    json_t *value;
    json_t *user = json_array();
    json_object_set_new(v->plan, "user_env", user);
    json_object_foreach(json_object_get(v->spec, "env"), name, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_USAGE, "env.%.60s is not a text", name);
        if (is_identity(name))
            return err_set(err, ERR_USAGE,
                           "env.%.60s cannot be set: it tells the ranks of a job "
                           "apart, and jobctl sets it",
                           name);
        json_array_append_new(
            user, json_pack("{s:s, s:O, s:s}", "name", name, "value", value, "why",
                            is_planned(v->env, name) ? "the job's own word wins over ours"
                                                     : "the job says so"));
    }
    return 0;
}

int plan_make(json_t **plan, const json_t *facts, const json_t *spec, struct err *err)
{
    struct view v = {
        .facts = facts,
        .spec = spec,
        .resources = json_object_get(spec, "resources"),
        .engine = json_is_object(json_object_get(spec, "train")),
        .plan = json_object(),
        .env = json_array(),
        .notes = json_array(),
    };
    v.share = json_is_true(json_object_get(v.resources, "share_gpus"));
    int rc = -1;
    const json_t *nodes = json_object_get(v.resources, "nodes");

    if (!v.plan || !v.env || !v.notes) {
        err_set(err, ERR_MEMORY, "no memory for a plan");
        goto out;
    }
    if (json_is_integer(nodes) && json_integer_value(nodes) != 1) {
        err_set(err, ERR_CONFLICT, "resources.nodes: more than one node is not supported yet");
        goto out;
    }
    if (choose_gpus(&v, err) < 0 || choose_ranks(&v, err) < 0)
        goto out;
    json_object_set_new(v.plan, "schema", json_integer(1));
    json_object_set_new(v.plan, "np", json_integer(v.np));
    json_object_set_new(v.plan, "engine", json_boolean(v.engine));
    json_object_set_new(v.plan, "why", json_string(v.why));
    json_object_set(v.plan, "env", v.env);
    json_object_set(v.plan, "notes", v.notes);
    set_threads(&v);
    set_devices(&v);
    set_backend(&v);
    set_output(&v);
    if (take_user_env(&v, err) < 0)
        goto out;
    *plan = json_incref(v.plan);
    rc = 0;
out:
    json_decref(v.plan);
    json_decref(v.env);
    json_decref(v.notes);
    return rc;
}

const char *plan_env(const json_t *plan, const char *name)
{
    static const char *const lists[] = {"user_env", "env"};
    for (int l = 0; l < 2; l++) {
        size_t i;
        json_t *row;
        json_array_foreach(json_object_get(plan, lists[l]), i, row)
        {
            if (strcmp(text_of(row, "name"), name) == 0)
                return text_of(row, "value");
        }
    }
    return NULL;
}
