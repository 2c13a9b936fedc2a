/* SPDX-License-Identifier: Apache-2.0 */
/* fit_advice.c - see fit_advice.h */
#include "engine/optim/fit_advice.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/contract/lora_config.h"
#include "engine/base/size_text.h"
#include "engine/contract/train_spec.h"

enum { MICRO = 1, AGAIN = 2, CAME = 4, NO_EMA = 8, LORA = 16 };

/* Changes that are tried together, and the GPUs, 0: as they are. */
static const struct trial {
    int what, ranks;
} trials[] = {
    {MICRO, 0}, {AGAIN, 0}, {MICRO | AGAIN, 0}, {CAME, 0}, {NO_EMA, 0}, {CAME | NO_EMA, 0},
    {MICRO | AGAIN | CAME | NO_EMA, 0}, {LORA, 0}, {MICRO | AGAIN | LORA, 0}, {MICRO | AGAIN, 2}, {MICRO | AGAIN, 4},
    {MICRO | AGAIN, 8}, {MICRO | AGAIN | CAME | NO_EMA, 8},
};

/* The changes of a trial that are changes of this spec. */
static int open_to(const struct fit_ask *ask, int what)
{
    const struct train_spec *s = ask->spec;
    int can = 0;
    can |= !s->micro_auto && !s->reproducible ? MICRO : 0;
    can |= s->recompute == RECOMPUTE_OFF ? AGAIN : 0;
    can |= s->optim.type == OPTIM_ADAMW && s->model.lora.rank == 0 ? CAME : 0;
    can |= s->optim.ema > 0 ? NO_EMA : 0;
    can |= s->model.family == MODEL_SANA && s->model.lora.rank == 0 && s->weights[0] ? LORA : 0;
    return what & can;
}

static void apply(struct train_spec *s, int what)
{
    s->micro_auto |= (what & MICRO) != 0;
    s->recompute = what & AGAIN ? RECOMPUTE_AUTO : s->recompute;
    if (what & CAME) {
        s->optim.type = OPTIM_CAME;
        s->optim.clip_threshold = 1;
        s->optim.beta[2] = 0.9999;
        s->optim.eps[0] = 1e-30;
        s->optim.eps[1] = 1e-16;
    }
    s->optim.ema = what & NO_EMA ? 0 : s->optim.ema;
    if (what & LORA)
        s->model.lora = (struct lora_config){.rank = 16, .alpha = 16, .targets = lora_config_default()};
}

static void tell(char *text, int what, int ranks)
{
    static const struct {
        int         what;
        const char *text;
    } words[] = {{MICRO, "train.batch.micro: auto"}, {AGAIN, "train.grad_checkpointing: auto"},
                 {CAME, "train.optimizer.type: came"}, {NO_EMA, "train.ema: 0"}, {LORA, "train.lora: {rank: 16}"}};
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (what & words[i].what)
            n += (size_t)snprintf(text + n, FIT_ADVICE_TEXT - n, "%s%s", n ? ", " : "", words[i].text);
    if (ranks > 0)
        snprintf(text + n, FIT_ADVICE_TEXT - n, "%sresources.gpus: %d", n ? ", " : "", ranks);
}

static bool is_new(const struct fit_advice *out, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (strcmp(out[i].change, text) == 0 || strstr(text, out[i].change))
            return false;
    return text[0] != 0;
}

int fit_advise(struct fit_advice out[FIT_ADVICE], int64_t *least, const struct fit_ask *ask, struct err *err)
{
    int n = 0;
    *least = INT64_MAX;
    for (size_t i = 0; i < sizeof(trials) / sizeof(*trials) && n < FIT_ADVICE; i++) {
        const int what = open_to(ask, trials[i].what), ranks = trials[i].ranks;
        struct train_spec s = *ask->spec;
        struct fit_ask a = *ask;
        struct fit f;
        char text[FIT_ADVICE_TEXT];
        tell(text, what, ranks);
        if ((ranks > 0 && (!ask->device || ranks <= ask->ranks)) || !is_new(out, n, text))
            continue;
        apply(&s, what);
        a.spec = &s;
        a.ranks = ranks > 0 ? ranks : ask->ranks;
        if (ranks > 0)
            s.parallel = PARALLEL_AUTO;
        if (fit_choose_sharing(&f, &a, err) < 0)
            return -1;
        *least = f.plan.total < *least ? f.plan.total : *least;
        if (!f.fits)
            continue;
        out[n].total = f.plan.total;
        memcpy(out[n++].change, text, sizeof(text));
    }
    return n;
}

/* The smallest choice that the run may make by itself. */
static int choose_least(struct fit *f, const struct fit_ask *ask)
{
    struct train_spec s = *ask->spec;
    struct fit_ask a = *ask;
    s.micro_auto = !s.reproducible;
    a.spec = &s;
    a.room.free = ask->room.total / FIT_PERCENT * 100; /* so that all of it may be used */
    return fit_choose_sharing(f, &a, NULL);
}

/* "with train.ema: 0 the plan needs 3.00 GiB, which fits", or that nothing does. */
static void nearest(char *text, size_t size, const struct fit_ask *ask)
{
    struct fit_advice advice[FIT_ADVICE];
    struct fit_ask a = *ask;
    char need[SIZE_TEXT];
    int64_t least;
    a.room.free = ask->room.total;
    const int n = fit_advise(advice, &least, &a, NULL);
    if (n > 0)
        snprintf(text, size, "with %s the plan needs %s, which fits", advice[0].change, size_text(advice[0].total, need));
    else
        snprintf(text, size, "use a smaller model or resolution");
}

int fit_refuse(const struct fit_ask *ask, struct err *err)
{
    struct fit f;
    char planned[SIZE_TEXT], total[SIZE_TEXT], advice[FIT_ADVICE_TEXT + 80];
    if (!ask->spec->memory_check || ask->room.total <= 0 || choose_least(&f, ask) < 0 || f.fits)
        return 0;
    nearest(advice, sizeof(advice), ask);
    size_text(ask->room.total, total);
    return err_set(err, ERR_USAGE, "train.model: the plan needs %s%s, %s has %s; %s (train.memory_check: "
                   "false starts the run anyway)", size_text(f.plan.total, planned), ask->ranks > 1 ? " per rank" : "",
                   ask->device ? "this GPU" : "this machine", total, advice);
}
