/* SPDX-License-Identifier: Apache-2.0 */
/* printed_scan.c - see printed_scan.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/printed_scan.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* clang-format off */
static const char evaluation[] =
    "val valid validation validate validating eval evaluate evaluating evaluation test testing sanity predict "
    "predicting prediction inference map50 map map@ benchmark hellaswag";
static const char activity[] =
    "download downloading downloaded fetching loading loaded load caching cache cached filter tokenizing tokenize "
    "tokenization packing preprocessing processing processed pre-processing collecting building build receiving "
    "extracting resolving installing unpacking saved saving generating sampling encoding decoding indexing reading "
    "writing uploading converting computing calculating creating preparing checking copying quantizing merging hashing "
    "scanning shuffling loglikelihood requests prompts shards num_proc safetensors removing resuming recording "
    "continuing checkpoint checkpoints until grouping unsloth denoising files model.safetensors pip wheel";

#define LOG "info warning error debug log main root rank train training trainer i e w engine current now the at on "
#define STEP_BEFORE LOG "completed learning tot total optimizer optimization opt # finished done after end of"
#define LOSS_BEFORE LOG "lm total step reduced batch tr model overall mlm ce diffusion epoch "
#define LOSS_MEAN LOSS_BEFORE "avg average mean avr running"

/* Of several that fit, the longest words count, then the row that comes first. */
static const struct printed_name names[] = {
    {PRINTED_STEP, 9, NULL, "global step max steps", COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEP, 8, LOG "wandb", "global step,global steps,num updates,global iter", COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEP, 8, LOG, "total timesteps", COUNT_STEPS, NOTE_ONE_WORD},
    {PRINTED_STEP, 6, STEP_BEFORE, "step,iter,iteration,schritt,\xc3\xa9tape,etape,paso,passo", COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEP, 6, LOG, "iter train", COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEP, 6, "", "up", COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEP, 5, STEP_BEFORE, "it", COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEP, 4, STEP_BEFORE, "batch", COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEP, 4, LOG, "epoch step", COUNT_STEPS, NOTE_OF_EPOCH},
    {PRINTED_STEP, 2, LOG, "local step", COUNT_STEPS, NOTE_OF_EPOCH},
    {PRINTED_STEP, 3, STEP_BEFORE, "update", COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEP, 3, "train training", "steps", COUNT_STEPS, NOTE_NONE}, /* with a loss only: else a setting */

    {PRINTED_STEPS, 9, NULL, "total optimization steps,"
     "\xe5\xad\xa6\xe7\xbf\x92\xe3\x82\xb9\xe3\x83\x86\xe3\x83\x83\xe3\x83\x97\xe6\x95\xb0", /* kohya: training steps */
     COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEPS, 9, LOG, "total training steps,total train steps,total steps,total iterations,total steps of run",
     COUNT_STEPS, NOTE_NONE},
    {PRINTED_STEPS, 1, LOG, "max steps", COUNT_STEPS, NOTE_NONE}, /* beside a step only: else a setting */

    {PRINTED_EPOCH, 6, LOG "begin start starting beginning loss for \xc3\xa9", "epoch", COUNT_EPOCHS, NOTE_NONE},
    {PRINTED_EPOCH, 6, LOG, "ep,epoche,epoca,\xc3\xa9poca,\xc3\xa9poque,epoch train", COUNT_EPOCHS, NOTE_NONE},
    {PRINTED_EPOCH, 2, LOG, "train", COUNT_EPOCHS, NOTE_TRAIN},
    {PRINTED_EPOCHS, 9, LOG, "num epochs,total epochs", COUNT_EPOCHS, NOTE_NONE},

    {PRINTED_LOSS, 9, "info warning error debug log main root rank lora model >", "loss", 0, NOTE_NONE},
    {PRINTED_LOSS, 9, LOG, "verlust,perte,p\xc3\xa9rdida,perda", 0, NOTE_NONE},
    {PRINTED_LOSS, 8, LOG, "train loss train total,loss train total,train loss step,loss step", 0, NOTE_NONE},
    {PRINTED_LOSS, 6, LOG, "loss total,loss train", 0, NOTE_NONE},
    {PRINTED_LOSS, 6, LOSS_BEFORE, "loss", 0, NOTE_NONE},
    {PRINTED_LOSS, 4, LOG, "cost,xent", 0, NOTE_NONE},
    {PRINTED_LOSS, 3, LOG, "train loss epoch,avr loss,avg loss,average loss,mean loss,running loss,loss avg", 0,
     NOTE_NONE},
    {PRINTED_LOSS, 3, LOSS_MEAN, "loss", 0, NOTE_NONE},

    {PRINTED_LR, 9, LOG "> optim", "lr,learning rate", 0, NOTE_NONE},
    {PRINTED_LR, 9, LOG, "lernrate", 0, NOTE_NONE},
    {PRINTED_LR, 3, LOG, "base lr,lr 0,lr unet,lr group0", 0, NOTE_NONE},

    {PRINTED_S_PER_STEP, 9, NULL, "time per iteration,time per step", COUNT_STEPS, NOTE_NONE},
    {PRINTED_S_PER_STEP, 8, LOG ">", "iter time,iteration time,step time,time all,secs step,sec step,seconds per step,"
     "s it,sec iter,s iter,s step,time iter,time step", COUNT_STEPS, NOTE_NONE},
    {PRINTED_S_PER_STEP, 8, LOG, "ms batch,ms step,ms it", COUNT_STEPS, NOTE_MS},
    {PRINTED_S_PER_STEP, 7, LOG, "batch time,dt,iter dt", COUNT_STEPS, NOTE_NONE},
    {PRINTED_S_PER_STEP, 5, "", "seconds", COUNT_STEPS, NOTE_NONE},
    {PRINTED_S_PER_STEP, 5, LOG, "time", COUNT_STEPS, NOTE_NONE},
    {PRINTED_S_PER_STEP, 4, "", "took", COUNT_STEPS, NOTE_NONE},
    {PRINTED_S_PER_STEP, 3, NULL, "train step timing in s", COUNT_STEPS, NOTE_NONE},

    {PRINTED_PER_S, 9, LOG, "global step sec,it sec,it s,iter s,iters sec,steps per second,steps per sec,steps sec,"
     "steps s", COUNT_STEPS, NOTE_NONE},
    {PRINTED_PER_S, 8, LOG, "ups,sps", COUNT_STEPS, NOTE_NONE},
    {PRINTED_PER_S, 7, LOG "time", "fps", COUNT_STEPS, NOTE_NONE},
    {PRINTED_PER_S, 2, NULL, "tokens sec,tokens per sec,tokens per second", COUNT_TOKENS, NOTE_NONE},
    {PRINTED_PER_S, 2, LOG, "tokens s,tok sec,tok s,tps,words sec thread", COUNT_TOKENS, NOTE_NONE},
    {PRINTED_PER_S, 1, LOG, "wps", COUNT_TOKENS, NOTE_NONE},
    {PRINTED_PER_S, 2, LOG, "samples sec,samples s,samples per second,samples per sec,imgs sec,images sec,"
     "currsamplespersec", COUNT_SAMPLES, NOTE_NONE},

    {PRINTED_ETA_S, 9, LOG, "total eta", 0, NOTE_NONE},
    {PRINTED_ETA_S, 8, LOG "time", "eta,eta seconds,eta s,remaining,remaining time,time left", 0, NOTE_NONE},
    {PRINTED_ETA_S, 2, LOG, "epoch eta", 0, NOTE_NONE},
};
/* clang-format on */

struct scanner {
    struct printed_scan *out;
    const char *text, *p, *end;
    char   words[PRINTED_WORDS];
    size_t own;                /* where the words begin that stand in one name with the last: "train/loss_step" */
    size_t clause;             /* ... where those begin that stand behind the last ':' or '=' */
    struct printed_unit unit;  /* of the name: "time per iteration (ms)" */
    char   alias[24];          /* {"name": "loss", "value": 1} */
    bool   sep;                /* ':' or '=' since the last word */
    bool   bracket;
    size_t gap;                /* blanks since the last token */
};

/* --- words ------------------------------------------------------------------------------ */

static bool listed(const char *word, size_t n, const char *list)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        const size_t m = strcspn(at, " ");
        if (m == n && strncmp(at, word, n) == 0)
            return true;
        at += m;
    }
    return false;
}

/* How many of words[0, n) are in the list, or are not. */
static size_t count_listed(const char *words, size_t n, const char *list, bool in)
{
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        const size_t rest = strcspn(words + i, " "), m = rest < n - i ? rest : n - i;
        count += m && listed(words + i, m, list) == in;
        i += m + 1;
    }
    return count;
}

bool printed_scan_within(const char *words, size_t n, const char *list)
{
    return count_listed(words, n, list, false) == 0;
}

bool printed_scan_has(const char *words, const char *list)
{
    return count_listed(words, strlen(words), list, true) > 0;
}

/* Where words[0, strlen) has the words end[0, m) at its end, or -1. */
static long ending(const char *words, const char *end, size_t m)
{
    const size_t n = strlen(words);
    if (m > n || strncmp(words + n - m, end, m) != 0 || (m < n && words[n - m - 1] != ' '))
        return -1;
    return (long)(n - m);
}

bool printed_scan_ends(const char *words, const char *end)
{
    return ending(words, end, strlen(end)) >= 0;
}

/* --- names ------------------------------------------------------------------------------ */

/* Whether the words before those at `at` may stand there. */
static bool fits(const struct scanner *s, const struct printed_name *n, size_t at)
{
    const size_t from = s->clause < at ? s->clause : at;
    if (n->note == NOTE_ONE_WORD && s->own != 0)
        return false;
    return !n->before || printed_scan_within(s->words + from, at - from, n->before);
}

static const struct printed_name *find_name(const struct scanner *s)
{
    const struct printed_name *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (const char *p = names[i].words; *p; p += strspn(p, ",")) {
            const size_t n = strcspn(p, ",");
            const long at = n > longest ? ending(s->words, p, n) : -1;
            if (at >= 0 && fits(s, &names[i], (size_t)at)) {
                best = &names[i];
                longest = n;
            }
            p += n;
        }
    return best;
}

static void forget_words(struct scanner *s)
{
    s->words[0] = '\0';
    s->unit = (struct printed_unit){UNIT_NONE, 0, 1};
    s->own = s->clause = 0;
    s->sep = false;
}

/* The words so far name no number. */
static void break_words(struct scanner *s)
{
    s->out->negative = s->out->negative || printed_scan_has(s->words, evaluation);
    s->out->busy = s->out->busy || printed_scan_has(s->words, activity);
    forget_words(s);
}

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* A letter, '_' or a byte of a letter of another script begins a word; signs join two of its characters. */
static size_t word_length(const char *p)
{
    static const char *const glued[] = {"step", "lr", "iter", "epoch"};
    size_t n = 0;
    if (!word_char(*p) || isdigit((unsigned char)*p))
        return 0;
    while (word_char(p[n]) || (p[n] && strchr("/.@-'", p[n]) && word_char(p[n + 1])))
        n++;
    for (size_t i = 0; i < ARRAY_LEN(glued); i++) { /* "step0000310" and "lr0.000200" are a word and a number */
        const size_t m = strlen(glued[i]);
        if (m < n && strncasecmp(p, glued[i], m) == 0 && strspn(p + m, "0123456789.") == n - m)
            return m;
    }
    return n;
}

/* Latin-1 letters in UTF-8 too. */
static char lower(char c, char before)
{
    if ((unsigned char)before == 0xc3 && (unsigned char)c >= 0x80 && (unsigned char)c <= 0x9e)
        return (char)(c + 0x20);
    return (char)tolower((unsigned char)c);
}

static void append(struct scanner *s, const char *p, size_t n)
{
    size_t at = strlen(s->words);
    if (at + n + 2 > sizeof(s->words)) {
        s->words[0] = '\0';
        at = s->clause = 0;
    }
    if (n + 2 > sizeof(s->words))
        return;
    if (at)
        s->words[at++] = ' ';
    s->own = at;
    s->clause = s->sep ? at : s->clause;
    for (size_t i = 0; i < n; i++)
        s->words[at++] = strchr("_/.-@", p[i]) ? ' ' : lower(p[i], i ? p[i - 1] : '\0');
    s->words[at] = '\0';
}

/* tensor(0.12), np.float32(0.12): the type is not a word. */
static bool wraps_number(const char *p, size_t n)
{
    static const char types[] = "tensor array float float32 float64 np.float32 np.float64 numpy.float32 jnp.float32 "
                                "Array Tensor DeviceArray torch.tensor";
    return p[n] == '(' && listed(p, n, types);
}

static void take_word(struct scanner *s, size_t n)
{
    const char *p = s->p;
    s->p += n;
    if (wraps_number(p, n)) {
        s->p++;
        return;
    }
    if (s->gap > 1 && s->words[0] && !s->sep)
        break_words(s);
    if (s->sep && strcmp(s->words, "name") == 0) {
        snprintf(s->alias, sizeof(s->alias), "%.*s", (int)n, p);
        forget_words(s);
    } else if (s->sep && strcmp(s->words, "v num") == 0) {
        forget_words(s); /* Lightning's number of a run, which may be a word */
    } else if (n != 2 || strncasecmp(p, "is", 2) != 0) {
        append(s, p, n);
    }
    s->sep = false;
}

/* --- numbers ---------------------------------------------------------------------------- */

static const char *blanks(const char *p)
{
    return p + strspn(p, " ");
}

const char *printed_scan_total(const char *p, double *of)
{
    p = blanks(p);
    if (*p != '/')
        return NULL;
    p = blanks(p + 1 + (p[1] == '/'));
    if (*p == '?')
        return p + 1;
    if (strncmp(p, "Unknown", 7) == 0)
        return p + 7;
    return isdigit((unsigned char)*p) ? printed_number_read(p, of) : NULL;
}

/* " of 100", where the words are those of a counter. */
static const char *read_of(const struct scanner *s, const char *p, double *of)
{
    const bool counter = printed_scan_ends(s->words, "step") || printed_scan_ends(s->words, "epoch") ||
                         printed_scan_ends(s->words, "iteration") || printed_scan_ends(s->words, "batch");
    if (!counter || strncmp(p, " of ", 4) != 0 || !isdigit((unsigned char)p[4]))
        return NULL;
    return printed_number_read(p + 4, of);
}

/* A unit that is known, or any word glued to the number; else that of the name. */
static const char *take_unit(const struct scanner *s, struct printed_unit *unit, const char *p)
{
    const char *end = printed_unit_read(p, unit);
    const size_t slash = p[0] == '/' && p[1] == 's' && !word_char(p[2]), glued = slash + word_length(p + slash);
    if (!end && !glued)
        *unit = s->unit;
    return end ? end : p + glued;
}

static void add_item(struct scanner *s, struct printed_item *item)
{
    if (s->alias[0] && strcmp(s->words, "value") == 0) {
        snprintf(s->words, sizeof(s->words), "%s", s->alias);
        s->own = s->clause = 0;
    }
    memcpy(item->words, s->words, sizeof(item->words));
    item->name = find_name(s);
    item->after_bracket = s->bracket;
    item->negative = s->out->negative || printed_scan_has(item->words, evaluation);
    item->busy = s->out->busy || printed_scan_has(item->words, activity);
    if (s->out->count < PRINTED_ITEMS)
        s->out->items[s->out->count++] = *item;
    forget_words(s);
}

/* A duration that its shape alone tells, or one whose name asks for it. */
static bool take_duration(struct scanner *s)
{
    struct printed_item item = {.value = NAN, .of = NAN};
    const char *end = printed_duration_read(s->p, &item.seconds);
    const bool named = printed_scan_ends(s->words, "eta") || printed_scan_ends(s->words, "remaining") ||
                       printed_scan_ends(s->words, "remaining time") || printed_scan_ends(s->words, "left");
    if (!end || (!named && s->p[strspn(s->p, "0123456789")] != ':'))
        return false;
    s->p = end;
    add_item(s, &item);
    return true;
}

static bool take_number(struct scanner *s)
{
    struct printed_item item = {.of = NAN, .seconds = NAN};
    const char before = s->p > s->text ? s->p[-1] : ' ';
    const bool sign = (*s->p == '-' || *s->p == '+') && strchr(" :=[(", before);
    const bool word = strncasecmp(s->p, "nan", 3) == 0 || strncasecmp(s->p, "inf", 3) == 0;
    if (!isdigit((unsigned char)*s->p) && *s->p != '.' && !sign && !(word && s->words[0]))
        return false;
    const char *date = printed_date_read(s->p);
    if (date)
        s->p = date;
    if (date || take_duration(s))
        return true;
    const char *end = printed_number_read(s->p, &item.value);
    if (!end)
        return false;
    const char *total = printed_scan_total(end, &item.of);
    total = total ? total : read_of(s, end, &item.of);
    s->p = take_unit(s, &item.unit, total ? total : end);
    add_item(s, &item);
    return true;
}

/* --- signs ------------------------------------------------------------------------------ */

/* "(ms)" and "(t)" behind a name are its unit, "(train)" one more word of it. */
static bool take_parenthesis(struct scanner *s)
{
    const char *p = s->p + 1;
    const size_t n = strcspn(p, ")");
    struct printed_unit unit;
    const bool known = printed_unit_read(p, &unit) == p + n;
    if (*s->p != '(' || p[n] != ')' || !s->words[0])
        return false;
    if (n == 1 || known)
        s->unit = n == 1 && *p == 't' ? (struct printed_unit){UNIT_SECONDS, 0, 1} : unit;
    else if (!s->gap && word_length(p) == n && n <= 12)
        append(s, p, n);
    else
        return false;
    s->p += n + 2;
    return true;
}

static void take_sign(struct scanner *s)
{
    const char c = *s->p++;
    const bool number_next = isdigit((unsigned char)*blanks(s->p)) || *blanks(s->p) == '-';
    if (c == ':' || c == '=')
        s->sep = true;
    else if ((c == '[' || c == '(') && number_next)
        s->bracket = c == '[';
    else if (!strchr("'\"`#*\\/.])", c) || (c == ']' && s->words[0]))
        break_words(s);
}

/* The name of a file or a run, with digits joined to letters by '-'. */
static size_t name_length(const char *p)
{
    const size_t n = strcspn(p, " \t,");
    for (size_t i = 0; i + 2 < n; i++)
        if (isdigit((unsigned char)p[i]) && p[i + 1] == '-' && isalpha((unsigned char)p[i + 2]))
            return n;
    return 0;
}

static void take_token(struct scanner *s)
{
    const bool begins = s->p == s->text || s->p[-1] == ' ';
    const size_t name = begins ? name_length(s->p) : 0, n = word_length(s->p);
    if (name) {
        s->p += name;
        break_words(s);
    } else if (take_number(s)) {
        s->bracket = false;
    } else if (n) {
        take_word(s, n);
        s->bracket = false;
    } else if (!take_parenthesis(s)) {
        take_sign(s);
    }
    s->gap = 0;
}

void printed_scan(struct printed_scan *out, const char *text, size_t n)
{
    struct scanner s = {.out = out, .text = text, .p = text, .end = text + n};
    out->count = 0;
    out->negative = out->busy = false;
    forget_words(&s);
    while (s.p < s.end && *s.p) {
        s.gap += *s.p == ' ';
        if (*s.p == ' ' || *s.p == '\t')
            s.p++;
        else
            take_token(&s);
    }
    memcpy(out->last, s.words, sizeof(out->last));
    break_words(&s);
}
