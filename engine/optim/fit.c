/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c - see fit.h */
#include "engine/optim/fit.h"

#include <stdio.h>

#include "engine/base/err.h"
#include "engine/base/size_text.h"
#include "engine/contract/train_spec.h"
#include "engine/model/sampler.h"

struct choice {
    const struct fit_ask *ask;
    struct memory_ask     memory;
    struct fit           *fit;
    struct err           *err;
    int                   most; /* upper limit of the micro-batch */
};

/* How many are drawn at once, while training or beside it; 0: none. */
static int pictures_of(const struct fit_ask *ask)
{
    const struct train_spec *s = ask->spec;
    const int prompts = (int)json_array_size(s->validate.prompts);
    const int samples = s->sample_before || s->sample_after ? s->sample_count : 0;
    const int n = samples > prompts ? samples : prompts;
    return n == 0 ? 0 : sampler_batch(n, ask->height, ask->width);
}

/* Ranks that divide the free memory. */
static int sharers(const struct fit_ask *ask)
{
    return ask->device ? 1 : ask->neighbours > 0 ? ask->neighbours : ask->ranks;
}

static struct choice begin(struct fit *out, const struct fit_ask *ask, struct err *err)
{
    const struct train_spec *s = ask->spec;
    const int share = (s->batch_global + ask->ranks - 1) / ask->ranks;
    struct choice c = {.ask = ask, .fit = out, .err = err};
    /* A reproducible run has the same micro-batches on any number of ranks. */
    c.most = s->reproducible || s->batch_micro < share ? s->batch_micro : share;
    c.memory = (struct memory_ask){
        .model = s->model,
        .limits = {
            .batch = c.most, .height = ask->height, .width = ask->width, .text = ask->text,
            .recompute = s->recompute == RECOMPUTE_ON,
        },
        .optim = s->optim, .device = ask->device, .bf16 = ask->bf16, .reproducible = s->reproducible,
        .pictures = pictures_of(ask),
        .ranks = ask->ranks, .sharing = ask->sharing, .pixels_most = ask->pixels_most,
    };
    *out = (struct fit){.micro = c.most, .recompute = c.memory.limits.recompute, .fits = true};
    out->budget = ask->room.free / 100 * FIT_PERCENT / sharers(ask);
    return c;
}

/* The limit after the run ran out of memory, or `otherwise` if that is lower. */
static int lowered_to(const struct fit_ask *ask, int otherwise)
{
    int most = otherwise;
    if (ask->micro_most > 0 && ask->micro_most < most)
        most = ask->micro_most;
    if (ask->pixels_most > 0 && ask->pixels_least > 0 &&
        ask->pixels_most / ask->pixels_least < most)
        most = (int)(ask->pixels_most / ask->pixels_least);
    return most > 0 ? most : 1;
}

static int plan_micro(struct choice *c, int micro)
{
    c->fit->micro = c->memory.limits.batch = micro;
    c->fit->recompute = c->memory.limits.recompute;
    if (memory_plan(&c->fit->plan, &c->memory, c->err) < 0)
        return -1;
    c->fit->fits = c->fit->budget == 0 || c->fit->plan.total <= c->fit->budget;
    return 0;
}

static bool may_recompute(const struct choice *c)
{
    return c->ask->spec->recompute == RECOMPUTE_AUTO && !c->memory.limits.recompute;
}

/* The micro-batch is given; only gradient checkpointing is left to choose. */
static int choose_for_given(struct choice *c)
{
    if (plan_micro(c, c->most) < 0)
        return -1;
    if (c->fit->fits)
        return 0;
    const struct fit kept = *c->fit;
    if (may_recompute(c)) {
        c->memory.limits.recompute = true;
        if (plan_micro(c, c->most) < 0)
            return -1;
        if (c->fit->fits)
            return 0;
    }
    struct memory_plan p;
    c->memory.limits.recompute = kept.recompute; /* gradient checkpointing costs time and does not help */
    *c->fit = kept;
    c->fit->most = memory_largest_micro(&p, &c->memory, c->most, c->fit->budget, c->err);
    return c->fit->most < 0 ? -1 : 0;
}

/* Pictures never make the micro-batch smaller: the choice is for one at a time, and more are drawn at once if there is
 * memory left. */
static int choose_pictures(struct choice *c, int most)
{
    c->fit->pictures = most > 0;
    c->memory.limits.batch = c->fit->micro;
    c->memory.limits.recompute = c->fit->recompute;
    for (int n = most; n > 1 && c->fit->pictures == 1; n /= 2) {
        struct memory_plan p;
        c->memory.pictures = n;
        if (memory_plan(&p, &c->memory, c->err) < 0)
            return -1;
        if (c->fit->budget > 0 && p.total > c->fit->budget)
            continue;
        c->fit->plan = p;
        c->fit->pictures = n;
    }
    return 0;
}

static int even_out(int all, int most)
{
    const int parts = (all + most - 1) / most;
    return (all + parts - 1) / parts;
}

static int choose_largest(struct choice *c)
{
    struct memory_plan p;
    int n = memory_largest_micro(&p, &c->memory, c->most, c->fit->budget, c->err);
    if (n == 0 && may_recompute(c)) {
        c->memory.limits.recompute = true;
        n = memory_largest_micro(&p, &c->memory, c->most, c->fit->budget, c->err);
    }
    return n < 0 ? -1 : plan_micro(c, n ? even_out(c->most, n) : 1);
}

static void tell_micro(const struct choice *c)
{
    const struct train_spec *s = c->ask->spec;
    char *why = c->fit->micro_why;
    char most[SIZE_TEXT], planned[SIZE_TEXT];
    size_text(c->ask->room.free, most);
    size_text(c->fit->plan.total, planned);
    if (c->fit->micro == lowered_to(c->ask, c->fit->micro + 1))
        snprintf(why, FIT_WHY, "the run ran out of memory with larger ones");
    else if (!c->fit->fits)
        snprintf(why, FIT_WHY, "does not fit: needs %s, and may use %d %% of the %s free", planned, FIT_PERCENT, most);
    else if (!s->micro_auto)
        snprintf(why, FIT_WHY, "set by train.batch.micro%s",
                 c->fit->micro < s->batch_micro ? ", limited to a rank's share" : "");
    else if (s->reproducible)
        snprintf(why, FIT_WHY, "an eighth of the batch on any machine: reproducible: true");
    else if (c->fit->micro == c->most)
        snprintf(why, FIT_WHY, "a rank's whole share of the step");
    else
        snprintf(why, FIT_WHY, "the most that fits into %d %% of the %s free, in equal parts", FIT_PERCENT, most);
}

static void tell_recompute(const struct choice *c)
{
    const struct train_spec *s = c->ask->spec;
    char *why = c->fit->recompute_why;
    if (s->recompute != RECOMPUTE_AUTO)
        snprintf(why, FIT_WHY, "set by train.grad_checkpointing");
    else if (c->ask->recompute && c->fit->recompute)
        snprintf(why, FIT_WHY, "the run ran out of memory with one sample at a time");
    else if (c->fit->recompute)
        snprintf(why, FIT_WHY, "without it %s does not fit", s->micro_auto ? "one sample" : "the micro-batch");
    else
        snprintf(why, FIT_WHY, c->fit->fits ? "the batch fits without it" : "the batch does not fit with it either");
}

int fit_choose(struct fit *out, const struct fit_ask *ask, struct err *err)
{
    struct choice c = begin(out, ask, err);
    const int most = lowered_to(ask, c.most), pictures = c.memory.pictures;
    c.memory.pictures = pictures > 0;
    c.most = most < c.most ? most : c.most;
    if (ask->recompute && ask->spec->recompute == RECOMPUTE_AUTO)
        c.memory.limits.recompute = true;
    const bool given = !ask->spec->micro_auto || ask->spec->reproducible || out->budget == 0;
    if ((given ? choose_for_given(&c) : choose_largest(&c)) < 0 || choose_pictures(&c, pictures) < 0)
        return -1;
    tell_micro(&c);
    tell_recompute(&c);
    return 0;
}

const char *fit_sharing_name(enum sharing how)
{
    return how == SHARING_DDP ? "ddp" : how == SHARING_ZERO1 ? "zero1" : "fsdp";
}

/* The sharing that the spec names, or the last one that `parallel: auto` tries. */
static enum sharing last_choice(const struct fit_ask *ask)
{
    switch (ask->spec->parallel) {
    case PARALLEL_ZERO1:
        return SHARING_ZERO1;
    case PARALLEL_FSDP:
        return SHARING_FSDP;
    case PARALLEL_AUTO:
        return ask->ranks == 1 ? SHARING_DDP : SHARING_FSDP;
    case PARALLEL_DDP:
        break;
    }
    return SHARING_DDP;
}

int fit_choose_sharing(struct fit *out, const struct fit_ask *ask, struct err *err)
{
    const enum parallel said = ask->spec->parallel;
    const enum sharing last = last_choice(ask);
    int64_t ddp = 0;
    for (enum sharing how = said == PARALLEL_AUTO ? SHARING_DDP : last; how <= last; how++) {
        struct fit_ask a = *ask;
        a.sharing = how;
        if (fit_choose(out, &a, err) < 0)
            return -1;
        out->sharing = how;
        ddp = how == SHARING_DDP ? out->plan.total : ddp;
        if (out->fits && (!out->recompute || ask->spec->recompute == RECOMPUTE_ON))
            break;
    }
    if (said != PARALLEL_AUTO)
        snprintf(out->sharing_why, FIT_WHY, "set by train.parallel");
    else if (ask->ranks == 1)
        snprintf(out->sharing_why, FIT_WHY, "one rank");
    else if (out->budget == 0)
        snprintf(out->sharing_why, FIT_WHY, "free memory is not known");
    else if (out->sharing == SHARING_DDP)
        snprintf(out->sharing_why, FIT_WHY, "each rank has memory for everything (%.2f GiB)", (double)ddp / 0x1p30);
    else
        snprintf(out->sharing_why, FIT_WHY, "%.2f GiB per rank; ddp needs %.2f GiB, and %.2f GiB "
                                            "may be used",
                 (double)out->plan.total / 0x1p30, (double)ddp / 0x1p30,
                 (double)out->budget / 0x1p30);
    return 0;
}
