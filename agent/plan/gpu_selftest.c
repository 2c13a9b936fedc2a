/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_selftest.c - see gpu_selftest.h */
#include "agent/plan/gpu_selftest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/subprocess.h"
#include "agent/plan/plan_internal.h"
#include "engine/base/clock.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

/* Both tests are silent until they finish: CUDA starts in some seconds, then copies run for a
 * second; or NCCL connects, limited to PAIR_MS after CUDA, which is limited to START_MS. */
enum { PAIR_MS = 15000, START_MS = 70000, ENV_MOST = 96 };

/* $JOBCTL_GPU_SELFTEST_MS overrides the limit, for tests. */
static int pair_ms(void)
{
    const char *text = getenv("JOBCTL_GPU_SELFTEST_MS");
    int ms = text ? atoi(text) : 0;
    return ms > 0 ? ms : PAIR_MS;
}

int gpu_selftest_limit_ms(void)
{
    return 8 * pair_ms();
}

/* Returns a GPU that can be tested: whole, and with no process computing on it. */
static const json_t *free_gpu(const json_t *facts, const json_t *pair, const char *side)
{
    const json_t *gpu = json_array_get(json_object_get(facts, "gpus"),
                                       (size_t)json_integer_value(json_object_get(pair, side)));
    bool good = field_true(gpu, "healthy") && !field_true(gpu, "mig") && field_text(gpu, "uuid")[0] &&
                json_array_size(json_object_get(gpu, "processes")) == 0;
    return good ? gpu : NULL;
}

static bool has_rank_on(const json_t *plan, const json_t *gpu)
{
    size_t i;
    const json_t *rank;
    json_array_foreach(json_object_get(plan, "ranks"), i, rank)
    {
        if (strcmp(field_text(rank, "gpu"), field_text(gpu, "uuid")) == 0)
            return true;
    }
    return false;
}

static bool is_wanted(const json_t *pair, const json_t *plan, const json_t *a, const json_t *b)
{
    if (strcmp(field_text(pair, "p2p"), "ok") != 0 || !a || !b)
        return false;
    return !plan || (!json_object_get(pair, "copy") &&
                     json_integer_value(json_object_get(pair, "nvlinks")) == 0 && has_rank_on(plan, a) &&
                     has_rank_on(plan, b));
}

/* 1: the pair has a result. 0: it cannot be tested here. */
static int try_pair(json_t *pair, const json_t *a, const json_t *b, const char *train)
{
    char gpus[200];
    struct buf out[2] = {{0}, {0}};
    const struct subprocess_spec s = {
        .argv = (const char *const[]){train, "peers", "--gpus", gpus, NULL},
        .out = SUBPROCESS_PIPE,
        .err = SUBPROCESS_PIPE};
    snprintf(gpus, sizeof(gpus), "%.90s,%.90s", field_text(a, "uuid"), field_text(b, "uuid"));
    int64_t began = clock_ms();
    int code = subprocess_run(&s, out, pair_ms(), NULL);
    json_t *said = code == 0 ? json_loads(subprocess_text(&out[0]), 0, NULL) : NULL;
    bool direct = field_true(said, "direct"), hangs = code < 0 && clock_ms() - began >= pair_ms();
    const char *copy = hangs    ? "hangs"
                       : !direct ? NULL
                       : json_integer_value(json_object_get(said, "wrong")) > 0 ? "wrong data"
                                                                                : "ok";
    if (copy)
        json_object_set_new(pair, "copy", json_text(copy));
    if (direct)
        json_object_set(pair, "copy_gb_per_s", json_object_get(said, "gb_per_s"));
    json_decref(said);
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    return code == 0 || hangs;
}

int gpu_selftest_try(json_t *facts, const json_t *plan, const char *train, int budget_ms)
{
    size_t i;
    json_t *pair;
    int bad = 0;
    int64_t end = clock_ms() + budget_ms;
    json_array_foreach(json_object_get(facts, "pairs"), i, pair)
    {
        const json_t *a = free_gpu(facts, pair, "a"), *b = free_gpu(facts, pair, "b");
        if (!is_wanted(pair, plan, a, b) || clock_ms() >= end)
            continue;
        if (!try_pair(pair, a, b, train))
            break;
        const char *copy = field_text(pair, "copy");
        bad += copy[0] && strcmp(copy, "ok") != 0;
    }
    return bad;
}

/* --- sums ------------------------------------------------------------------------------------ */

/* Variables that select GPUs or redirect NCCL's output: `jobctl-train sum` sets its own. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                                        "NCCL_DEBUG_FILE", "NCCL_PROFILER_PLUGIN", "NCCL_RAS_ADDR"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The plan's environment and one fallback (NULL: none) on top; release with free_env(). */
static void make_env(char *env[ENV_MOST], const json_t *plan, const json_t *fallback)
{
    static const char *const lists[] = {"env", "user_env"};
    int n = 0;
    size_t i;
    const json_t *row;
    for (int l = 0; l < 2; l++)
        json_array_foreach(json_object_get(plan, lists[l]), i, row)
        {
            if (n < ENV_MOST - 2 && !is_ours(field_text(row, "name")) &&
                asprintf(&env[n], "%s=%s", field_text(row, "name"), field_text(row, "value")) > 0)
                n++;
        }
    if (fallback && asprintf(&env[n], "%s=%s", field_text(fallback, "name"), field_text(fallback, "value")) > 0)
        n++;
    env[n] = NULL;
}

static void free_env(char *env[ENV_MOST])
{
    for (int i = 0; env[i]; i++)
        free(env[i]);
}

/* "ok" and so on, or NULL: cannot be tested here. */
static json_t *try_sum(const json_t *a, const json_t *b, const json_t *plan, const json_t *fallback, const char *train)
{
    char gpus[200], ms[16], *env[ENV_MOST];
    struct buf out[2] = {{0}, {0}};
    const struct subprocess_spec s = {
        .argv = (const char *const[]){train, "sum", "--gpus", gpus, "--deadline-ms", ms, NULL},
        .set = (const char *const *)env,
        .out = SUBPROCESS_PIPE,
        .err = SUBPROCESS_PIPE};
    snprintf(gpus, sizeof(gpus), "%.90s,%.90s", field_text(a, "uuid"), field_text(b, "uuid"));
    snprintf(ms, sizeof(ms), "%d", pair_ms());
    make_env(env, plan, fallback);
    int code = subprocess_run(&s, out, pair_ms() + START_MS, NULL);
    free_env(env);
    json_t *said = code == 0 ? json_loads(subprocess_text(&out[0]), 0, NULL) : NULL;
    json_t *outcome = json_object_get(said, "outcome");
    json_t *found = json_is_string(outcome) ? json_incref(outcome) : NULL;
    json_decref(said);
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    return found;
}

static bool is_ok(const json_t *outcome)
{
    const char *text = json_string_value(outcome);
    return text && strcmp(text, "ok") == 0;
}

static void find_what_helps(json_t *pair, const json_t *a, const json_t *b, const json_t *plan, const char *train)
{
    size_t i;
    const json_t *fallback;
    json_array_foreach(json_object_get(plan, "fallbacks"), i, fallback)
    {
        json_t *outcome = try_sum(a, b, plan, fallback, train);
        bool good = is_ok(outcome);
        json_decref(outcome);
        if (good) {
            json_object_set_new(pair, "sum_needs",
                                json_text_f("%s=%s", field_text(fallback, "name"), field_text(fallback, "value")));
            return;
        }
    }
}

/* Are two pairs connected in the same way?  NCCL treats them alike. */
static bool are_alike(const json_t *pair, const json_t *other)
{
    static const char *const keys[] = {"nvlinks", "through", "p2p", "path"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!json_equal(json_object_get(pair, keys[i]), json_object_get(other, keys[i])))
            return false;
    return true;
}

/* An earlier pair with the same connection stands for this one. */
static bool has_speaker(const json_t *pairs, size_t before, const json_t *pair)
{
    for (size_t i = 0; i < before; i++) {
        const json_t *other = json_array_get(pairs, i);
        if (json_object_get(other, "sum") && are_alike(pair, other))
            return true;
    }
    return false;
}

static bool is_sum_wanted(const json_t *facts, size_t i, const json_t *plan)
{
    const json_t *pairs = json_object_get(facts, "pairs"), *pair = json_array_get(pairs, i);
    const json_t *a = free_gpu(facts, pair, "a"), *b = free_gpu(facts, pair, "b");
    return a && b && has_rank_on(plan, a) && has_rank_on(plan, b) && !json_object_get(pair, "sum") &&
           json_is_string(json_object_get(facts, "nccl")) && !has_speaker(pairs, i, pair);
}

bool gpu_selftest_wanted(const json_t *facts, const json_t *plan)
{
    size_t i;
    const json_t *pair;
    json_array_foreach(json_object_get(facts, "pairs"), i, pair)
    {
        if (is_wanted(pair, plan, free_gpu(facts, pair, "a"), free_gpu(facts, pair, "b")) ||
            is_sum_wanted(facts, i, plan))
            return true;
    }
    return false;
}

int gpu_selftest_sum(json_t *facts, const json_t *plan, const char *train, bool again, int budget_ms)
{
    size_t i;
    json_t *pair, *pairs = json_object_get(facts, "pairs");
    int bad = 0;
    int64_t end = clock_ms() + budget_ms;
    for (i = 0; again && i < json_array_size(pairs); i++) {
        json_object_del(json_array_get(pairs, i), "sum");
        json_object_del(json_array_get(pairs, i), "sum_needs");
    }
    json_array_foreach(pairs, i, pair)
    {
        if (clock_ms() >= end || !is_sum_wanted(facts, i, plan))
            continue;
        const json_t *a = free_gpu(facts, pair, "a"), *b = free_gpu(facts, pair, "b");
        json_t *outcome = try_sum(a, b, plan, NULL, train);
        if (!outcome)
            break;
        json_object_set_new(pair, "sum", outcome);
        if (!is_ok(outcome)) {
            find_what_helps(pair, a, b, plan, train);
            bad++;
        }
    }
    return bad;
}
