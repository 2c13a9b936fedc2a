/* SPDX-License-Identifier: Apache-2.0 */
/* printed_words.c - see printed_words.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/printed_words.h"

#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define LOG "info warning error debug log main root rank train training trainer i e w engine current now the at on "
#define STEP_BEFORE LOG "completed learning tot total optimizer optimization opt # finished done after end of"
#define LOSS_BEFORE LOG "lm total step reduced batch avg average mean avr tr running model overall mlm ce diffusion epoch"

/* clang-format off */
static const struct printed_name names[] = {
    {"global step max steps", PRINTED_STEP, 9, NULL, COUNT_STEPS},
    {"global step",     PRINTED_STEP, 8, LOG "wandb", COUNT_STEPS},
    {"global steps",    PRINTED_STEP, 8, LOG, COUNT_STEPS},
    {"total timesteps", PRINTED_STEP, 8, LOG, COUNT_STEPS},
    {"num updates",     PRINTED_STEP, 8, LOG, COUNT_STEPS},
    {"global iter",     PRINTED_STEP, 8, LOG, COUNT_STEPS},
    {"step",            PRINTED_STEP, 6, STEP_BEFORE, COUNT_STEPS},
    {"iter",            PRINTED_STEP, 6, STEP_BEFORE, COUNT_STEPS},
    {"iteration",       PRINTED_STEP, 6, STEP_BEFORE, COUNT_STEPS},
    {"it",              PRINTED_STEP, 5, STEP_BEFORE, COUNT_STEPS},
    {"update",          PRINTED_STEP, 3, STEP_BEFORE, COUNT_STEPS},
    {"up",              PRINTED_STEP, 6, "", COUNT_STEPS},
    {"schritt",         PRINTED_STEP, 6, STEP_BEFORE, COUNT_STEPS},
    {"\xc3\xa9tape",    PRINTED_STEP, 6, STEP_BEFORE, COUNT_STEPS},
    {"etape",           PRINTED_STEP, 6, STEP_BEFORE, COUNT_STEPS},
    {"paso",            PRINTED_STEP, 6, STEP_BEFORE, COUNT_STEPS},
    {"passo",           PRINTED_STEP, 6, STEP_BEFORE, COUNT_STEPS},
    {"batch",           PRINTED_STEP, 4, STEP_BEFORE, COUNT_STEPS},
    {"epoch step",      PRINTED_STEP, 4, LOG, COUNT_STEPS},
    {"local step",      PRINTED_STEP, 2, LOG, COUNT_STEPS},
    {"steps",           PRINTED_STEP, 3, "train training", COUNT_STEPS}, /* with a loss only: else a setting */

    {"total optimization steps", PRINTED_STEPS, 9, NULL, COUNT_STEPS},
    {"\xe5\xad\xa6\xe7\xbf\x92\xe3\x82\xb9\xe3\x83\x86\xe3\x83\x83\xe3\x83\x97\xe6\x95\xb0", PRINTED_STEPS, 9, NULL,
     COUNT_STEPS}, /* kohya: number of training steps */
    {"total training steps", PRINTED_STEPS, 9, LOG, COUNT_STEPS},
    {"total train steps", PRINTED_STEPS, 9, LOG, COUNT_STEPS},
    {"total steps",     PRINTED_STEPS, 9, LOG, COUNT_STEPS},
    {"total iterations", PRINTED_STEPS, 9, LOG, COUNT_STEPS},
    {"max steps",       PRINTED_STEPS, 1, LOG, COUNT_STEPS}, /* beside a step only: else a setting */
    {"total steps of run", PRINTED_STEPS, 9, LOG, COUNT_STEPS},

    {"epoch",           PRINTED_EPOCH, 6, LOG "begin start starting beginning loss for \xc3\xa9", COUNT_EPOCHS},
    {"ep",              PRINTED_EPOCH, 6, LOG, COUNT_EPOCHS},
    {"epoche",          PRINTED_EPOCH, 6, LOG, COUNT_EPOCHS},
    {"epoca",           PRINTED_EPOCH, 6, LOG, COUNT_EPOCHS},
    {"\xc3\xa9poca",    PRINTED_EPOCH, 6, LOG, COUNT_EPOCHS},
    {"\xc3\xa9poque",   PRINTED_EPOCH, 6, LOG, COUNT_EPOCHS},
    {"epoch train",     PRINTED_EPOCH, 6, LOG, COUNT_EPOCHS},
    {"iter train",      PRINTED_STEP, 6, LOG, COUNT_STEPS},
    {"train",           PRINTED_EPOCH, 2, LOG, COUNT_EPOCHS}, /* "Train: 0 [ 50/10009 ( 0%)]", by a counter only */
    {"num epochs",      PRINTED_EPOCHS, 9, LOG, COUNT_EPOCHS},
    {"total epochs",    PRINTED_EPOCHS, 9, LOG, COUNT_EPOCHS},

    {"loss",            PRINTED_LOSS, 9, "info warning error debug log main root rank lora model >", 0},
    {"verlust",         PRINTED_LOSS, 9, LOG, 0},
    {"perte",           PRINTED_LOSS, 9, LOG, 0},
    {"p\xc3\xa9rdida",  PRINTED_LOSS, 9, LOG, 0},
    {"perda",           PRINTED_LOSS, 9, LOG, 0},
    {"cost",            PRINTED_LOSS, 4, LOG, 0},
    {"xent",            PRINTED_LOSS, 4, LOG, 0},
    {"train loss train total", PRINTED_LOSS, 8, LOG, 0},
    {"loss train total", PRINTED_LOSS, 8, LOG, 0},
    {"train loss step", PRINTED_LOSS, 8, LOG, 0},
    {"loss step",       PRINTED_LOSS, 8, LOG, 0},
    {"train loss epoch", PRINTED_LOSS, 3, LOG, 0},
    {"loss total",      PRINTED_LOSS, 6, LOG, 0},
    {"loss train",      PRINTED_LOSS, 6, LOG, 0},
    {"avr loss",        PRINTED_LOSS, 3, LOG, 0},
    {"avg loss",        PRINTED_LOSS, 3, LOG, 0},
    {"average loss",    PRINTED_LOSS, 3, LOG, 0},
    {"mean loss",       PRINTED_LOSS, 3, LOG, 0},
    {"running loss",    PRINTED_LOSS, 3, LOG, 0},
    {"loss avg",        PRINTED_LOSS, 3, LOG, 0},

    {"lr",              PRINTED_LR, 9, LOG "> optim", 0},
    {"learning rate",   PRINTED_LR, 9, LOG "> optim", 0},
    {"lernrate",        PRINTED_LR, 9, LOG, 0},
    {"base lr",         PRINTED_LR, 3, LOG, 0},
    {"lr 0",            PRINTED_LR, 3, LOG, 0},
    {"lr unet",         PRINTED_LR, 3, LOG, 0},
    {"lr group0",       PRINTED_LR, 3, LOG, 0},

    {"elapsed time per iteration", PRINTED_S_PER_STEP, 9, NULL, COUNT_STEPS},
    {"time per iteration", PRINTED_S_PER_STEP, 9, NULL, COUNT_STEPS},
    {"time per step",   PRINTED_S_PER_STEP, 9, NULL, COUNT_STEPS},
    {"train step timing in s", PRINTED_S_PER_STEP, 3, NULL, COUNT_STEPS},
    {"iter time",       PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"iteration time",  PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"step time",       PRINTED_S_PER_STEP, 8, LOG ">", COUNT_STEPS},
    {"batch time",      PRINTED_S_PER_STEP, 7, LOG, COUNT_STEPS},
    {"time all",        PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"dt",              PRINTED_S_PER_STEP, 7, LOG, COUNT_STEPS},
    {"secs step",       PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"sec step",        PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"seconds per step", PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"s it",            PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"sec iter",        PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"s iter",          PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"s step",          PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"time iter",       PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"time step",       PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"iter dt",         PRINTED_S_PER_STEP, 7, LOG, COUNT_STEPS},
    {"ms batch",        PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"ms step",         PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"ms it",           PRINTED_S_PER_STEP, 8, LOG, COUNT_STEPS},
    {"seconds",         PRINTED_S_PER_STEP, 5, "", COUNT_STEPS},
    {"batch",           PRINTED_S_PER_STEP, 6, LOG, COUNT_STEPS}, /* "Batch (t): 0.731" */
    {"took",            PRINTED_S_PER_STEP, 4, "", COUNT_STEPS},
    {"time",            PRINTED_S_PER_STEP, 5, LOG, COUNT_STEPS},

    {"global step sec", PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"it sec",          PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"it s",            PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"iter s",          PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"iters sec",       PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"steps per second", PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"steps per sec",   PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"steps sec",       PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"steps s",         PRINTED_PER_S, 9, LOG, COUNT_STEPS},
    {"ups",             PRINTED_PER_S, 8, LOG, COUNT_STEPS},
    {"sps",             PRINTED_PER_S, 8, LOG, COUNT_STEPS},
    {"fps",             PRINTED_PER_S, 7, LOG "time", COUNT_STEPS},
    {"tokens sec",      PRINTED_PER_S, 2, NULL, COUNT_TOKENS},
    {"tokens per sec",  PRINTED_PER_S, 2, NULL, COUNT_TOKENS},
    {"tokens per second", PRINTED_PER_S, 2, NULL, COUNT_TOKENS},
    {"tokens s",        PRINTED_PER_S, 2, LOG, COUNT_TOKENS},
    {"tok sec",         PRINTED_PER_S, 2, LOG, COUNT_TOKENS},
    {"tok s",           PRINTED_PER_S, 2, LOG, COUNT_TOKENS},
    {"tps",             PRINTED_PER_S, 2, LOG, COUNT_TOKENS},
    {"words sec thread", PRINTED_PER_S, 2, LOG, COUNT_TOKENS},
    {"wps",             PRINTED_PER_S, 1, LOG, COUNT_TOKENS},
    {"samples sec",     PRINTED_PER_S, 2, LOG, COUNT_SAMPLES},
    {"samples s",       PRINTED_PER_S, 2, LOG, COUNT_SAMPLES},
    {"samples per second", PRINTED_PER_S, 2, LOG, COUNT_SAMPLES},
    {"samples per sec", PRINTED_PER_S, 2, LOG, COUNT_SAMPLES},
    {"imgs sec",        PRINTED_PER_S, 2, LOG, COUNT_SAMPLES},
    {"images sec",      PRINTED_PER_S, 2, LOG, COUNT_SAMPLES},
    {"currsamplespersec", PRINTED_PER_S, 2, LOG, COUNT_SAMPLES},

    {"total eta",       PRINTED_ETA_S, 9, LOG, 0},
    {"eta",             PRINTED_ETA_S, 8, LOG, 0},
    {"eta seconds",     PRINTED_ETA_S, 8, LOG, 0},
    {"eta s",           PRINTED_ETA_S, 8, LOG, 0},
    {"remaining",       PRINTED_ETA_S, 8, LOG "time", 0},
    {"remaining time",  PRINTED_ETA_S, 8, LOG, 0},
    {"time left",       PRINTED_ETA_S, 8, LOG, 0},
    {"epoch eta",       PRINTED_ETA_S, 2, LOG, 0},
};
/* clang-format on */

/* The words before the name: those that stand in one word with it all in LOSS_BEFORE, the others in `before`. */
static bool fits_loss(const struct printed_item *item, size_t at, const char *before)
{
    const char *words = item->words;
    const size_t from = item->clause < at ? item->clause : at;
    if (at > item->own)
        return printed_scan_within(words + from, at - from, LOSS_BEFORE);
    return printed_scan_within(words + from, at - from, before);
}

static bool fits(const struct printed_name *n, const struct printed_item *item)
{
    size_t at;
    if (!printed_scan_ends(item->words, n->words, &at))
        return false;
    const size_t from = item->clause < at ? item->clause : at;
    return !n->before || (n->field == PRINTED_LOSS && fits_loss(item, at, n->before)) ||
           printed_scan_within(item->words + from, at - from, n->before);
}

/* "lm loss", "train loss": a loss of a name of its own. */
static const struct printed_name *other_loss(const struct printed_item *item)
{
    static const struct printed_name named = {"loss", PRINTED_LOSS, 6, NULL, 0},
                                     mean = {"loss", PRINTED_LOSS, 3, NULL, 0};
    size_t at;
    if (!printed_scan_ends(item->words, "loss", &at) ||
        !printed_scan_within(item->words + item->clause, at > item->clause ? at - item->clause : 0, LOSS_BEFORE))
        return NULL;
    return printed_scan_has(item->words, "avg average mean avr running") ? &mean : &named;
}

const struct printed_name *printed_name_of(const struct printed_item *item)
{
    const struct printed_name *best = NULL;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (fits(&names[i], item) && (!best || strlen(names[i].words) > strlen(best->words)))
            best = &names[i];
    return best ? best : other_loss(item);
}
