/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_watch.c - see gpu_watch.h */
#include "agent/monitor/gpu_watch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/rules.h"
#include "agent/monitor/activity.h"
#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "agent/plan/plan_internal.h"
#include "agent/probe/xid.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

enum { RECENT_MS = 30000, EVENTS = 8, USE_MS = 10000 };

/* Counters of a GPU; at_ms 0: none yet. */
struct gpu_use {
    int64_t at_ms, busy, memory, link_kb_s;
};

struct gpu_watch {
    struct subprocess *process; /* NULL: ended, or not started */
    gpu_watch_fn  told;
    void         *arg;
    const json_t *plan, *facts;
    struct {
        int64_t at_ms;
        char    line[160];
    } recent[EVENTS];
    int events; /* total so far */
    struct gpu_use use[PLAN_GPUS_MOST]; /* indexed by the ranks of the plan */
    bool held[PLAN_GPUS_MOST];          /* likewise: a program has computed there */
};

/* --- reported events ------------------------------------------------------------------------- */

static int find(const json_t *list, const char *key, const char *uuid)
{
    size_t i;
    const json_t *row;
    json_array_foreach(list, i, row)
    {
        if (strcmp(field_text(row, key), uuid) == 0)
            return (int)i;
    }
    return -1;
}

/* The index of the GPU with this UUID, or with this MIG slice; -1: none. */
static int find_gpu(const json_t *facts, const char *uuid)
{
    size_t i;
    const json_t *gpu, *gpus = json_object_get(facts, "gpus");
    json_array_foreach(gpus, i, gpu)
    {
        if (strcmp(field_text(gpu, "uuid"), uuid) == 0 ||
            find(json_object_get(gpu, "mig_slices"), "uuid", uuid) >= 0)
            return (int)i;
    }
    return -1;
}

/* Judged by the same rules as lines of the kernel log. */
static bool is_fault(const char *line)
{
    size_t len;
    const char *where;
    const struct rule *r = rules_find(line, &where, &len);
    return r && r->kind == RULE_PROOF && r->cause == CAUSE_GPU_FAULT;
}

/* Data about a GPU applies to each rank on it. */
static void take_use(struct gpu_watch *w, const json_t *said)
{
    const json_t *ranks = json_object_get(w->plan, "ranks");
    for (size_t i = 0; i < json_array_size(ranks) && i < PLAN_GPUS_MOST; i++) {
        if (strcmp(field_text(json_array_get(ranks, i), "gpu"), field_text(said, "uuid")) != 0)
            continue;
        w->held[i] = w->held[i] || field_true(said, "held");
        if (json_object_get(said, "busy"))
            w->use[i] = (struct gpu_use){clock_ms(), field_int(said, "busy", 0), field_int(said, "memory", 0),
                                         field_int(said, "link_kb_s", 0)};
    }
}

bool gpu_watch_held(const struct gpu_watch *w, int rank)
{
    size_t i;
    const json_t *row;
    json_array_foreach(w ? json_object_get(w->plan, "ranks") : NULL, i, row)
        if (i < PLAN_GPUS_MOST && json_integer_value(json_object_get(row, "rank")) == rank)
            return w->held[i];
    return false;
}

/* Nothing is known while the driver does not answer. */
void gpu_watch_add_use(const struct gpu_watch *w, int rank, struct activity_sample *sample)
{
    size_t i;
    const json_t *row;
    json_array_foreach(w ? json_object_get(w->plan, "ranks") : NULL, i, row)
    {
        const struct gpu_use *u = &w->use[i < PLAN_GPUS_MOST ? i : 0];
        if (i >= PLAN_GPUS_MOST || json_integer_value(json_object_get(row, "rank")) != rank ||
            u->at_ms == 0 || clock_ms() - u->at_ms > USE_MS)
            continue;
        sample->gpu = true;
        sample->gpu_busy = (unsigned)u->busy;
        sample->gpu_memory = (unsigned)u->memory;
        sample->link_kb_s = (uint64_t)u->link_kb_s;
    }
}

static void take_line(void *arg, const char *bytes, size_t size)
{
    struct gpu_watch *w = arg;
    json_t *said = json_loadb(bytes, size, 0, NULL);
    const char *uuid = field_text(said, "uuid"), *pci = field_text(said, "pci");
    const int xid = (int)json_integer_value(json_object_get(said, "xid"));
    const int rank = find(json_object_get(w->plan, "ranks"), "gpu", uuid);
    const int index = find_gpu(w->facts, uuid);
    char text[240], *line = w->recent[w->events % EVENTS].line;
    take_use(w, said);
    if (rank < 0 || xid <= 0) {
        json_decref(said);
        return;
    }
    snprintf(text, sizeof(text), "GPU %d (%.80s) reports Xid %d: %s", index, uuid, xid, xid_meaning(xid));
    snprintf(line, sizeof(w->recent[0].line), "NVRM: Xid (PCI:%.*s): %d, %.90s",
             (int)strcspn(pci, "."), pci, xid, xid_meaning(xid));
    w->recent[w->events++ % EVENTS].at_ms = clock_ms();
    w->told(w->arg, &(struct gpu_event){.uuid = uuid,
                                        .rank = rank,
                                        .xid = xid,
                                        .fault = is_fault(line),
                                        .text = text,
                                        .line = line});
    json_decref(said);
}

/* No events on this machine any more. */
static void on_end(void *arg, const struct subprocess_end *e)
{
    struct gpu_watch *w = arg;
    (void)e;
    w->process = NULL;
}

const char *gpu_watch_evidence(const struct gpu_watch *w, const char *kernel)
{
    static char all[4096 + EVENTS * 161];
    size_t at = (size_t)snprintf(all, 4096, "%s", kernel ? kernel : "");
    at = at < 4096 ? at : 4095;
    for (int i = w && w->events > EVENTS ? w->events - EVENTS : 0; w && i < w->events; i++)
        if (clock_ms() - w->recent[i % EVENTS].at_ms < RECENT_MS)
            at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s\n",
                                   at && all[at - 1] != '\n' ? "\n" : "", w->recent[i % EVENTS].line);
    return at ? all : kernel;
}

/* --- the gpu-events process ------------------------------------------------------------------ */

static int start(struct gpu_watch *w, uv_loop_t *loop, const char *nonce, struct err *err)
{
    const char *argv[2 + PLAN_GPUS_MOST + 1] = {"/proc/self/exe", "gpu-events"};
    char mark[160];
    int n = 2;
    size_t i;
    const json_t *rank;
    json_array_foreach(json_object_get(w->plan, "ranks"), i, rank)
    {
        if (field_text(rank, "gpu")[0] && n < 2 + PLAN_GPUS_MOST)
            argv[n++] = field_text(rank, "gpu");
    }
    /* the mark by which the attempt's cleanup finds this process (agent/ranks/cleanup_pass.h) */
    snprintf(mark, sizeof(mark), "JOBCTL_NONCE=%s", nonce);
    const struct subprocess_spec s = {.argv = argv,
                                      .set = (const char *const[]){mark, NULL},
                                      .out = SUBPROCESS_PIPE,
                                      .err = SUBPROCESS_OUT,
                                      .session = true,
                                      .tied = true};
    const struct subprocess_hooks hooks = {take_line, on_end, w};
    return subprocess_open(&w->process, loop, &s, 0, &hooks, err);
}

int gpu_watch_start(struct gpu_watch **out, uv_loop_t *loop, const json_t *plan, const json_t *facts,
                    const char *nonce, gpu_watch_fn told, void *arg, struct err *err)
{
    const json_t *first = json_array_get(json_object_get(plan, "ranks"), 0);
    *out = NULL;
    if (!field_text(first, "gpu")[0])
        return 0;
    struct gpu_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return err_set(err, ERR_MEMORY, "no memory to watch the GPUs");
    *w = (struct gpu_watch){.told = told, .arg = arg, .plan = plan, .facts = facts};
    if (start(w, loop, nonce, err) < 0) {
        free(w);
        return -1;
    }
    *out = w;
    return 0;
}

void gpu_watch_close(struct gpu_watch *w)
{
    if (w)
        subprocess_close(&w->process, SIGKILL);
}

void gpu_watch_destroy(struct gpu_watch *w)
{
    free(w);
}
