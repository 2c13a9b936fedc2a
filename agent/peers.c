/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h */
#include "agent/peers.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/ask.h"
#include "agent/plan_parts.h"

/* It is silent until it has done: CUDA starts in some seconds, then a second of copies. */
enum { PAIR_MS = 15000 };

/* $JOBCTL_PEERS_MS instead: a test need not wait so long. */
static int pair_ms(void)
{
    const char *text = getenv("JOBCTL_PEERS_MS");
    int ms = text ? atoi(text) : 0;
    return ms > 0 ? ms : PAIR_MS;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A GPU of which something can be asked: whole, and nobody computes on it. */
static const json_t *free_gpu(const json_t *facts, const json_t *pair, const char *side)
{
    const json_t *gpu = json_array_get(json_object_get(facts, "gpus"),
                                       (size_t)json_integer_value(json_object_get(pair, side)));
    bool good = plan_true(gpu, "healthy") && !plan_true(gpu, "mig") && plan_text(gpu, "uuid")[0] &&
                json_array_size(json_object_get(gpu, "processes")) == 0;
    return good ? gpu : NULL;
}

static bool has_rank_on(const json_t *plan, const json_t *gpu)
{
    size_t i;
    const json_t *rank;
    json_array_foreach(json_object_get(plan, "ranks"), i, rank)
    {
        if (strcmp(plan_text(rank, "gpu"), plan_text(gpu, "uuid")) == 0)
            return true;
    }
    return false;
}

static bool is_wanted(const json_t *pair, const json_t *plan, const json_t *a, const json_t *b)
{
    if (strcmp(plan_text(pair, "p2p"), "ok") != 0 || !a || !b)
        return false;
    return !plan || (json_integer_value(json_object_get(pair, "nvlinks")) == 0 &&
                     has_rank_on(plan, a) && has_rank_on(plan, b));
}

/* 1: it says something of this pair. 0: nothing can be tried here. */
static int try_pair(json_t *pair, const json_t *a, const json_t *b, const char *train)
{
    char gpus[200];
    struct buf out[ASK_OUTPUTS] = {{0}, {0}};
    char *argv[] = {(char *)(uintptr_t)train, (char[]){"peers"}, (char[]){"--gpus"}, gpus, NULL};
    snprintf(gpus, sizeof(gpus), "%.90s,%.90s", plan_text(a, "uuid"), plan_text(b, "uuid"));
    int64_t began = now_ms();
    int code = ask_program(argv, out, pair_ms());
    json_t *said = code == 0 ? json_loads(ask_text(&out[ASK_STDOUT]), 0, NULL) : NULL;
    bool direct = plan_true(said, "direct"), hangs = code < 0 && now_ms() - began >= pair_ms();
    const char *copy = hangs    ? "hangs"
                       : !direct ? NULL
                       : json_integer_value(json_object_get(said, "wrong")) > 0 ? "wrong data"
                                                                                : "ok";
    if (copy)
        json_object_set_new(pair, "copy", json_string(copy));
    if (direct)
        json_object_set(pair, "copy_gb_per_s", json_object_get(said, "gb_per_s"));
    json_decref(said);
    buf_fini(&out[ASK_STDOUT]);
    buf_fini(&out[ASK_STDERR]);
    return code == 0 || hangs;
}

int peers_try(json_t *facts, const json_t *plan, const char *train, int budget_ms)
{
    size_t i;
    json_t *pair;
    int bad = 0;
    int64_t end = now_ms() + budget_ms;
    json_array_foreach(json_object_get(facts, "pairs"), i, pair)
    {
        const json_t *a = free_gpu(facts, pair, "a"), *b = free_gpu(facts, pair, "b");
        if (!is_wanted(pair, plan, a, b) || now_ms() >= end)
            continue;
        if (!try_pair(pair, a, b, train))
            break;
        const char *copy = plan_text(pair, "copy");
        bad += copy[0] && strcmp(copy, "ok") != 0;
    }
    return bad;
}
