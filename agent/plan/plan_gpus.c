/* SPDX-License-Identifier: Apache-2.0 */
/* plan_gpus.c - selects the GPUs for ranks: each once, healthy, free and visible
 *
 * Pure: no clock, no I/O.
 * A GPU can appear twice: listed twice by a driver, by index and by UUID, or as a whole and as a
 * slice. Two ranks on one GPU end in NCCL's "Duplicate GPU detected", so everything is first
 * resolved to UUIDs.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/plan.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Memory that another process may hold without excluding the GPU: a monitor, a display. */
enum { SMALL_USE_BYTES = 256 << 20 };

/* --- reasons to skip a GPU ----------------------------------------------------------------- */

/* Xids after which a GPU must not be used before a reset (NVIDIA's catalog). */
static bool xid_is_lasting(json_int_t xid)
{
    static const short lasting[] = {46, 48, 62, 64, 74, 79, 95, 119, 120, 140};
    for (size_t i = 0; i < ARRAY_LEN(lasting); i++)
        if (lasting[i] == xid)
            return true;
    return false;
}

static bool has_failed(const json_t *gpu, char *why, size_t size)
{
    const json_t *remap = json_object_get(gpu, "remap"), *xids = json_object_get(gpu, "xids");
    const char *recovery = field_text(gpu, "recovery"), *fabric = field_text(gpu, "fabric");
    if (!field_true(gpu, "healthy"))
        return snprintf(why, size, "%.100s", field_text(gpu, "note"));
    if (recovery[0] && strcmp(recovery, "none") != 0)
        return snprintf(why, size, "the driver requests a %s", recovery);
    if (field_true(remap, "failed"))
        return snprintf(why, size, "a bad memory row could not be remapped");
    if (field_true(remap, "pending") || field_true(gpu, "retired_pending"))
        return snprintf(why, size, "bad memory will be retired at the next GPU reset");
    if (fabric[0] && strcmp(fabric, "completed") != 0)
        return snprintf(why, size,
                        "its NVSwitch fabric is in state '%s' (check that the fabric manager is running)",
                        fabric);
    /* A driver that reports recovery "none" has already evaluated the logged Xids. */
    for (size_t i = 0; !recovery[0] && i < json_array_size(xids); i++) {
        json_int_t xid = json_integer_value(json_array_get(xids, i));
        if (xid_is_lasting(xid))
            return snprintf(why, size, "the kernel has logged Xid %d for it since boot", (int)xid);
    }
    return false;
}

bool plan_gpu_healthy(const json_t *gpu)
{
    char why[160];
    return !has_failed(gpu, why, sizeof(why));
}

bool plan_gpu_in_use(const json_t *gpu, char *why, size_t size)
{
    const char *mode = field_text(gpu, "compute_mode");
    const json_t *process;
    size_t i;
    if (strcmp(mode, "prohibited") == 0)
        return snprintf(why, size,
                        "its compute mode is \"prohibited\" (change it with nvidia-smi -c 0)");
    json_array_foreach(json_object_get(gpu, "processes"), i, process)
    {
        const json_t *used = json_object_get(process, "memory_bytes");
        const char *name = field_text(process, "name");
        if (field_true(process, "jobctl") ||
            (json_is_integer(used) && json_integer_value(used) < SMALL_USE_BYTES))
            continue;
        int n = snprintf(why, size, "in use by process %lld%s%.30s%s",
                         (long long)json_integer_value(json_object_get(process, "pid")),
                         name[0] ? " (" : "", name, name[0] ? ")" : "");
        if (json_is_integer(used))
            snprintf(why + n, size - (size_t)n, " with %lld MiB", (long long)(json_integer_value(used) >> 20));
        return true;
    }
    return false;
}

static void leave_out(struct plan_view *v, const json_t *gpu, const char *why)
{
    char text[160];
    const char *name = field_text(gpu, "name");
    snprintf(text, sizeof(text), "GPU %d%s%.40s%s is not used: %.90s",
             (int)json_integer_value(json_object_get(gpu, "index")), name[0] ? " (" : "", name,
             name[0] ? ")" : "", why);
    if (v->left_out++ == 0)
        snprintf(v->first_left_out, sizeof(v->first_left_out), "%s", text);
    plan_note(v, "%s", text);
    json_array_append_new(json_object_get(v->plan, "unused"),
                          json_make("{s:O, s:s}", "gpu", json_object_get(gpu, "index"), "why", why));
}

/* --- candidates --------------------------------------------------------------------------- */

static void add(struct plan_view *v, const json_t *gpu, const char *uuid, bool slice)
{
    for (int i = 0; i < v->present; i++)
        if (strcmp(v->gpu[i].uuid, uuid) == 0)
            return;
    if (v->present < PLAN_GPUS_MOST)
        v->gpu[v->present++] = (struct plan_gpu){.facts = gpu, .uuid = uuid, .slice = slice};
}

static const json_t *largest_slice(const json_t *gpu)
{
    size_t i;
    const json_t *slice, *best = NULL;
    json_array_foreach(json_object_get(gpu, "mig_slices"), i, slice)
    {
        if (!best || json_integer_value(json_object_get(slice, "memory_bytes")) >
                         json_integer_value(json_object_get(best, "memory_bytes")))
            best = slice;
    }
    return best;
}

/* A process sees at most one MIG slice: without a whole GPU the job gets the largest slice of
 * the first MIG GPU. */
static void add_slices(struct plan_view *v)
{
    size_t i;
    const json_t *gpu;
    json_array_foreach(json_object_get(v->facts, "gpus"), i, gpu)
    {
        const json_t *slice = largest_slice(gpu);
        if (!field_true(gpu, "mig"))
            continue;
        if (!slice || v->present > 0) {
            leave_out(v, gpu, "it is in MIG mode");
            continue;
        }
        add(v, gpu, field_text(slice, "uuid"), true);
        plan_note(v,
                  "GPU %zu is in MIG mode: the job gets one slice, %.50s; a process sees only one "
                  "slice, and slices cannot communicate",
                  i, field_text(slice, "uuid"));
    }
}

static void find_usable(struct plan_view *v)
{
    size_t i;
    const json_t *gpu;
    char why[120];
    json_array_foreach(json_object_get(v->facts, "gpus"), i, gpu)
    {
        if (has_failed(gpu, why, sizeof(why)))
            leave_out(v, gpu, why);
        else if (field_true(gpu, "mig") || field_true(gpu, "spare")) /* spare: free, but not leased */
            continue;
        else if (field_text(gpu, "held")[0])
            leave_out(v, gpu, field_text(gpu, "held"));
        else if (!v->share && plan_gpu_in_use(gpu, why, sizeof(why)))
            leave_out(v, gpu, why);
        else
            add(v, gpu, field_text(gpu, "uuid"), false);
    }
    add_slices(v);
    const char *trouble = field_text(v->facts, "gpu_note");
    if (trouble[0])
        plan_note(v, "%s", trouble);
}

/* --- CUDA_VISIBLE_DEVICES ------------------------------------------------------------------ */

/* Finds the GPU for one entry of the list, an index or a UUID prefix; NULL: none. */
static const json_t *gpu_named(const struct plan_view *v, const char *word, const char **uuid)
{
    char *end;
    size_t i, k;
    const json_t *gpu, *slice;
    long index = strtol(word, &end, 10);
    bool is_index = isdigit((unsigned char)word[0]) && !*end;
    json_array_foreach(json_object_get(v->facts, "gpus"), i, gpu)
    {
        *uuid = field_text(gpu, "uuid");
        if (is_index ? index == json_integer_value(json_object_get(gpu, "index"))
                     : strlen(word) > 4 && strncmp(*uuid, word, strlen(word)) == 0)
            return gpu;
        json_array_foreach(json_object_get(gpu, "mig_slices"), k, slice)
        {
            *uuid = field_text(slice, "uuid");
            if (!is_index && strcmp(*uuid, word) == 0)
                return gpu;
        }
    }
    return NULL;
}

/* Copies the next entry of a list without surrounding blanks; false at its end. */
static bool next_word(const char **list, char *word, size_t size)
{
    const char *p = *list + strspn(*list, ", \t");
    size_t n = strcspn(p, ", \t");
    if (n == 0)
        return false;
    snprintf(word, size, "%.*s", (int)n, p);
    *list = p + n;
    return true;
}

static int no_such_gpu(const struct plan_view *v, const char *word, struct err *err)
{
    size_t n = json_array_size(json_object_get(v->facts, "gpus"));
    char have[48] = "no GPU";
    if (n > 0)
        snprintf(have, sizeof(have), n == 1 ? "GPU 0 only" : "GPUs 0 to %zu", n - 1);
    return err_set(err, ERR_CONFLICT,
                   "env.CUDA_VISIBLE_DEVICES names \"%.60s\", but this machine has %s. CUDA "
                   "hides every GPU after an invalid entry. Remove the variable; jobctl sets it",
                   word, have);
}

static int gpu_twice(const char *word, const json_t *gpu, struct err *err)
{
    return err_set(err, ERR_CONFLICT,
                   "env.CUDA_VISIBLE_DEVICES names one GPU twice: \"%.60s\" is %.60s (%.50s) again. Two ranks on it "
                   "fail in NCCL with \"Duplicate GPU detected\"; name each GPU once",
                   word, field_text(gpu, "name"), field_text(gpu, "uuid"));
}

static bool is_present(const struct plan_view *v, const json_t *gpu)
{
    for (int i = 0; i < v->present; i++)
        if (v->gpu[i].facts == gpu)
            return true;
    return false;
}

/* The job's own list: exactly its GPUs, in its order. */
static int take_chosen(struct plan_view *v, const char *list, struct err *err)
{
    char word[96], why[120];
    const char *uuid;
    v->chosen = true;
    while (next_word(&list, word, sizeof(word)) && strcmp(word, "-1") != 0) {
        const json_t *gpu = gpu_named(v, word, &uuid);
        if (!gpu)
            return no_such_gpu(v, word, err);
        if (is_present(v, gpu))
            return gpu_twice(word, gpu, err);
        snprintf(why, sizeof(why), "it is %.100s", field_text(gpu, "held"));
        if (field_text(gpu, "held")[0] || has_failed(gpu, why, sizeof(why)))
            return err_set(err, ERR_CONFLICT,
                           "env.CUDA_VISIBLE_DEVICES names GPU \"%.60s\", which cannot be used: "
                           "%s; name another one",
                           word, why);
        add(v, gpu, uuid, strncmp(uuid, "MIG-", 4) == 0);
        if (v->present > 1 && (v->gpu[0].slice || strncmp(uuid, "MIG-", 4) == 0))
            return err_set(err, ERR_CONFLICT,
                           "env.CUDA_VISIBLE_DEVICES names more than one device and \"%.60s\" is a MIG slice, but a "
                           "process sees only one slice; name one",
                           word);
    }
    return 0;
}

/* A list in the inherited environment: granted by a batch system, or stale. */
static void take_inherited(struct plan_view *v, const char *list)
{
    char word[96];
    const char *rest = list, *uuid;
    const json_t *kept[PLAN_GPUS_MOST];
    int n = 0, missing = 0;
    while (next_word(&rest, word, sizeof(word)) && strcmp(word, "-1") != 0) {
        const json_t *gpu = gpu_named(v, word, &uuid);
        missing += !gpu;
        if (gpu && n < PLAN_GPUS_MOST)
            kept[n++] = gpu;
    }
    if (missing > 0)
        plan_note(v,
                  "CUDA_VISIBLE_DEVICES=%.60s in the environment names %d GPU%s that %s not present%s",
                  list, missing, missing == 1 ? "" : "s", missing == 1 ? "is" : "are",
                  n ? "" : "; the list is ignored");
    if (missing > 0 && n == 0)
        return;
    int before = v->present, left = 0;
    for (int i = 0; i < v->present; i++) {
        bool keep = false;
        for (int k = 0; k < n; k++)
            keep = keep || kept[k] == v->gpu[i].facts;
        if (keep)
            v->gpu[left++] = v->gpu[i];
    }
    v->present = left;
    v->hidden = before - left;
    snprintf(v->hidden_by, sizeof(v->hidden_by), "%.60s", list);
    if (left < before)
        plan_note(v, "CUDA_VISIBLE_DEVICES=%.60s in the environment permits %d of %d GPUs", list, left, before);
}

/* --- GPUs that failed in this job before --------------------------------------------------- */

static const char *excluded_why(const struct plan_view *v, int i)
{
    return json_string_value(json_object_get(json_object_get(v->facts, "excluded"), v->gpu[i].uuid));
}

/* If no other GPU is left they are tried again: the fault may have been transient. */
static void drop_excluded(struct plan_view *v)
{
    int left = 0, failed = 0;
    for (int i = 0; i < v->present; i++)
        failed += excluded_why(v, i) != NULL;
    if (failed > 0 && failed == v->present) {
        plan_note(v, "every usable GPU has failed in this job before, so %s tried again",
                  failed == 1 ? "it is" : "they are");
        return;
    }
    for (int i = 0; i < v->present; i++) {
        const char *why = excluded_why(v, i);
        if (why)
            leave_out(v, v->gpu[i].facts, why);
        else
            v->gpu[left++] = v->gpu[i];
    }
    v->present = left;
}

/* --- one model ----------------------------------------------------------------------------- */

static int same_model(const struct plan_view *v, int i)
{
    int n = 0;
    for (int k = 0; k < v->present; k++)
        n += strcmp(field_text(v->gpu[k].facts, "name"), field_text(v->gpu[i].facts, "name")) == 0;
    return n;
}

static json_int_t memory_of(const struct plan_view *v, int i)
{
    return json_integer_value(json_object_get(v->gpu[i].facts, "memory_bytes"));
}

/* Sorts the largest group of one model first, the rest behind it: the slowest GPU limits the
 * speed. */
static int order_by_model(struct plan_view *v)
{
    struct plan_gpu ordered[PLAN_GPUS_MOST];
    int best = 0, n = 0;
    for (int i = 1; i < v->present; i++) {
        int more = same_model(v, i) - same_model(v, best);
        if (more > 0 || (more == 0 && memory_of(v, i) > memory_of(v, best)))
            best = i;
    }
    const char *model = v->present ? field_text(v->gpu[best].facts, "name") : "";
    int group = v->present ? same_model(v, best) : 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < v->present; i++)
            if ((strcmp(field_text(v->gpu[i].facts, "name"), model) == 0) == (pass == 0))
                ordered[n++] = v->gpu[i];
    memcpy(v->gpu, ordered, sizeof(*ordered) * (size_t)n);
    return group;
}

/* `gpus: auto` takes GPUs of one model; a number also takes others as needed. */
static void keep_one_model(struct plan_view *v)
{
    const json_t *asked = json_object_get(v->resources, "gpus");
    int group = order_by_model(v);
    if (group == v->present)
        return;
    if (json_is_integer(asked) || strcmp(field_text(v->resources, "gpus"), "one") == 0) {
        if (json_integer_value(asked) > group)
            plan_note(v, "the GPUs are of different models: the slowest limits the speed");
        return;
    }
    for (int i = group; i < v->present; i++)
        leave_out(v, v->gpu[i].facts,
                  "its model differs from the others, and the slowest GPU limits the speed; set `gpus: N` to use it");
    v->present = group;
}

int plan_find_gpus(struct plan_view *v, struct err *err)
{
    static const char name[] = "CUDA_VISIBLE_DEVICES";
    const json_t *own = json_object_get(json_object_get(v->spec, "env"), name);
    const json_t *inherited = json_object_get(json_object_get(v->facts, "environment"), name);
    if (json_is_string(own) && json_array_size(json_object_get(v->facts, "gpus")) > 0) {
        if (take_chosen(v, json_string_value(own), err) < 0)
            return -1;
        drop_excluded(v);
        return 0;
    }
    find_usable(v);
    if (json_is_string(inherited))
        take_inherited(v, json_string_value(inherited));
    drop_excluded(v);
    keep_one_model(v);
    return 0;
}

/* --- connections between GPUs -------------------------------------------------------------- */

static bool in_use(const struct plan_view *v, json_int_t index)
{
    for (int i = 0; i < v->gpus; i++)
        if (json_integer_value(json_object_get(v->gpu[i].facts, "index")) == index)
            return true;
    return false;
}

void plan_count_pairs(struct plan_pairs *out, const struct plan_view *v)
{
    size_t i;
    const json_t *pair;
    *out = (struct plan_pairs){0};
    json_array_foreach(json_object_get(v->facts, "pairs"), i, pair)
    {
        const char *through = field_text(pair, "through"), *p2p = field_text(pair, "p2p");
        const char *path = field_text(pair, "path");
        if (!in_use(v, json_integer_value(json_object_get(pair, "a"))) ||
            !in_use(v, json_integer_value(json_object_get(pair, "b"))))
            continue;
        out->pairs++;
        out->broken += field_text(pair, "copy")[0] && strcmp(field_text(pair, "copy"), "ok") != 0;
        if (strcmp(through, "switch") == 0)
            out->through_switch++;
        else if (strcmp(through, "gpu") == 0)
            out->direct++;
        else if (!p2p[0])
            out->unknown++;
        else if (strcmp(p2p, "ok") != 0)
            out->unreadable++;
        else if (strcmp(path, "PIX") == 0 || strcmp(path, "PXB") == 0)
            out->near++;
        else
            out->far++;
    }
}

/* --- memory -------------------------------------------------------------------------------- */

/* Of a GPU or a slice with this UUID; 0: unknown. */
static int64_t memory_with(const json_t *gpus, const char *uuid)
{
    size_t i;
    const json_t *gpu;
    json_array_foreach(gpus, i, gpu)
    {
        const int64_t slice = memory_with(json_object_get(gpu, "mig_slices"), uuid);
        if (slice > 0)
            return slice;
        if (strcmp(field_text(gpu, "uuid"), uuid) == 0)
            return json_integer_value(json_object_get(gpu, "memory_bytes"));
    }
    return 0;
}

static int ranks_with(const json_t *ranks, const char *uuid)
{
    int n = 0;
    size_t i;
    const json_t *rank;
    json_array_foreach(ranks, i, rank)
        n += strcmp(field_text(rank, "gpu"), uuid) == 0;
    return n;
}

int64_t plan_gpu_memory(const json_t *plan, const json_t *facts)
{
    const json_t *ranks = json_object_get(plan, "ranks"), *rank;
    int64_t least = 0;
    size_t i;
    json_array_foreach(ranks, i, rank)
    {
        const char *uuid = field_text(rank, "gpu");
        const int64_t all = uuid[0] ? memory_with(json_object_get(facts, "gpus"), uuid) : 0;
        const int64_t own = all > 0 ? all / ranks_with(ranks, uuid) : 0;
        if (own == 0)
            return 0;
        least = least == 0 || own < least ? own : least;
    }
    return least;
}
