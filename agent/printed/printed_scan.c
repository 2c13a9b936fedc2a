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

#include "agent/printed/printed_number.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* clang-format off */
static const char evaluation[] =
    "val valid validation validate validating eval evaluate evaluating evaluation test testing sanity predict "
    "predicting prediction inference map50 map map@ benchmark hellaswag";
static const char activity[] =
    "download downloading downloaded fetching loading loaded load caching cache cached filter tokenizing tokenize "
    "tokenization packing preprocessing processing processed pre-processing collecting building build receiving "
    "extracting resolving installing unpacking saving saved generating sampling encoding decoding indexing reading "
    "writing uploading converting computing calculating creating preparing checking copying quantizing merging hashing "
    "scanning shuffling loglikelihood requests prompts shards num_proc safetensors removing resuming recording "
    "continuing checkpoint checkpoints until grouping unsloth denoising files model.safetensors pip wheel";
/* clang-format on */

struct scanner {
    struct printed_scan *out;
    const char *text, *p, *end;
    char   words[PRINTED_WORDS];
    size_t own;
    char   unit[PRINTED_UNIT_SIZE]; /* of the name: "time per iteration (ms)" */
    char   alias[24];          /* {"name": "loss", "value": 1} */
    bool   sep;                /* ':' or '=' since the last word */
    bool   bracket;
    size_t gap;                /* blanks since the last token */
    bool   tab;
    size_t clause;             /* where the words behind the last ':' or '=' begin */
};

bool printed_scan_ends(const char *words, const char *end, size_t *at)
{
    const size_t n = strlen(words), m = strlen(end);
    if (m > n || strcmp(words + n - m, end) != 0 || (m < n && words[n - m - 1] != ' '))
        return false;
    *at = n - m;
    return true;
}

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

bool printed_scan_within(const char *words, size_t n, const char *allowed)
{
    for (size_t i = 0; i < n;) {
        size_t m = strcspn(words + i, " ");
        m = m > n - i ? n - i : m;
        if (m && !listed(words + i, m, allowed))
            return false;
        i += m + 1;
    }
    return true;
}

bool printed_scan_has(const char *words, const char *list)
{
    for (const char *p = words; *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        if (listed(p, n, list))
            return true;
        p += n;
    }
    return false;
}

static void forget_words(struct scanner *s)
{
    s->words[0] = s->unit[0] = '\0';
    s->own = s->clause = 0;
    s->sep = false;
}

/* The words so far name no number. */
static void break_words(struct scanner *s)
{
    if (printed_scan_has(s->words, evaluation))
        s->out->negative = true;
    if (printed_scan_has(s->words, activity))
        s->out->busy = true;
    forget_words(s);
}

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* A letter, '_' or a byte of a letter of another script begins a word; signs join two of its characters. */
static size_t word_length(const char *p)
{
    size_t n = 0;
    if (!word_char(*p) || isdigit((unsigned char)*p))
        return 0;
    while (word_char(p[n]) || (p[n] && strchr("/.@-'", p[n]) && word_char(p[n + 1])))
        n++;
    return n;
}

/* "step0000310" and "lr0.000200" are a word and a number. */
static size_t glued_word(const char *p, size_t n)
{
    static const char *const all[] = {"step", "lr", "iter", "epoch"};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        const size_t m = strlen(all[i]);
        if (m < n && strncasecmp(p, all[i], m) == 0 && strspn(p + m, "0123456789.") == n - m)
            return m;
    }
    return n;
}

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

/* Tensor(shape=[1], ..., value= 0.66): up to the value, or to its last number in brackets. */
static const char *value_of_tensor(const struct scanner *s, const char *p)
{
    const char *value = memmem(p, (size_t)(s->end - p), "value=", 6);
    if (value)
        return value + 6;
    for (const char *q = s->end; q > p; q--)
        if (q[-1] == '[')
            return q;
    return p;
}

static void take_word(struct scanner *s, size_t n)
{
    const char *p = s->p;
    if (wraps_number(p, n)) {
        s->p += n + 1;
        if (strncmp(s->p, "shape", 5) == 0)
            s->p = value_of_tensor(s, s->p);
        return;
    }
    if ((s->gap > 1 || s->tab) && s->words[0] && !s->sep)
        break_words(s);
    if (s->sep && strcmp(s->words, "name") == 0) {
        snprintf(s->alias, sizeof(s->alias), "%.*s", (int)(n < 23 ? n : 23), p);
        forget_words(s);
    } else if (s->sep && strcmp(s->words, "v num") == 0) {
        forget_words(s); /* Lightning's number of a run, which may be a word */
    } else if (n != 2 || strncasecmp(p, "is", 2) != 0) {
        append(s, p, n);
    }
    s->sep = false;
    s->p += n;
}

static const char *blanks(const char *p)
{
    return p + strspn(p, " ");
}

/* "/ 282", "// 1877", "/?": the total; NAN where it is unknown. */
static const char *read_total(const char *p, double *of)
{
    bool whole;
    const char *q = blanks(p);
    if (*q != '/')
        return NULL;
    q = blanks(q + 1 + (q[1] == '/'));
    if (*q == '?')
        return q + 1;
    if (strncmp(q, "Unknown", 7) == 0)
        return q + 7;
    return isdigit((unsigned char)*q) ? printed_number_read(q, of, &whole) : NULL;
}

/* " of 100", where the words are those of a counter. */
static const char *read_of(const struct scanner *s, const char *p, double *of)
{
    bool whole;
    size_t at;
    if (strncmp(p, " of ", 4) != 0 || !isdigit((unsigned char)p[4]))
        return NULL;
    if (!printed_scan_ends(s->words, "step", &at) && !printed_scan_ends(s->words, "epoch", &at) &&
        !printed_scan_ends(s->words, "iteration", &at) && !printed_scan_ends(s->words, "batch", &at))
        return NULL;
    return printed_number_read(p + 4, of, &whole);
}

static const char *take_unit(struct scanner *s, struct printed_item *item, const char *p)
{
    const size_t known = printed_unit_length(blanks(p)), slash = p[0] == '/' && p[1] == 's' && !word_char(p[2]);
    const size_t glued = p[0] == ' ' ? 0 : slash + word_length(p + slash);
    const char *at = known ? blanks(p) : p;
    const size_t n = known ? known : glued;
    if (n)
        snprintf(item->unit, sizeof(item->unit), "%.*s", (int)n, at);
    else
        memcpy(item->unit, s->unit, sizeof(item->unit));
    return n ? at + n : p;
}

static void name_item(struct scanner *s, struct printed_item *item)
{
    const bool alias = s->alias[0] && strcmp(s->words, "value") == 0;
    snprintf(item->words, sizeof(item->words), "%s", alias ? s->alias : s->words);
    item->own = alias ? 0 : s->own;
    item->clause = alias ? 0 : s->clause;
    item->after_bracket = s->bracket;
    item->negative = s->out->negative || printed_scan_has(item->words, evaluation);
    item->busy = s->out->busy || printed_scan_has(item->words, activity);
}

/* "200/ 2928 batches": a counter that is named behind its numbers. */
static void name_behind(struct scanner *s, const struct printed_item *item, const char *p)
{
    static const struct { const char *many, *one; } all[] = {
        {"steps", "step"}, {"iterations", "iteration"}, {"iters", "iter"}, {"batches", "batch"}, {"epochs", "epoch"}};
    p = blanks(p);
    for (size_t i = 0; !s->words[0] && !isnan(item->of) && i < ARRAY_LEN(all); i++)
        if (strncasecmp(p, all[i].many, strlen(all[i].many)) == 0 && !word_char(p[strlen(all[i].many)]))
            snprintf(s->words, sizeof(s->words), "%s", all[i].one);
}

static void take_number(struct scanner *s, const char *after, struct printed_item *item)
{
    const char *total = read_total(after, &item->of);
    if (!total)
        total = read_of(s, after, &item->of);
    s->p = take_unit(s, item, total ? total : after);
    name_behind(s, item, s->p);
    name_item(s, item);
    if (s->out->count < PRINTED_ITEMS)
        s->out->items[s->out->count++] = *item;
    forget_words(s);
}

/* A duration that its shape alone tells, or one whose name asks for it. */
static bool take_duration(struct scanner *s)
{
    struct printed_item item = {.value = NAN, .of = NAN};
    size_t at;
    const char *end = printed_duration_read(s->p, &item.seconds);
    const bool named = printed_scan_ends(s->words, "eta", &at) || printed_scan_ends(s->words, "remaining", &at) ||
                       printed_scan_ends(s->words, "remaining time", &at) || printed_scan_ends(s->words, "left", &at);
    const bool clock = end && s->p[strspn(s->p, "0123456789")] == ':';
    if (!end || (!named && !clock))
        return false;
    name_item(s, &item);
    if (s->out->count < PRINTED_ITEMS)
        s->out->items[s->out->count++] = item;
    s->p = end;
    forget_words(s);
    return true;
}

static bool take_digits(struct scanner *s)
{
    struct printed_item item = {.of = NAN, .seconds = NAN};
    const char before = s->p > s->text ? s->p[-1] : ' ';
    const bool sign = (*s->p == '-' || *s->p == '+') && strchr(" :=[(", before);
    const bool word = strncasecmp(s->p, "nan", 3) == 0 || strncasecmp(s->p, "inf", 3) == 0;
    if (!isdigit((unsigned char)*s->p) && *s->p != '.' && !sign && !(word && s->words[0]))
        return false;
    const char *date = printed_date_read(s->p);
    if (date) {
        s->p = date;
        return true;
    }
    if (take_duration(s))
        return true;
    const char *end = printed_number_read(s->p, &item.value, &item.whole);
    if (!end)
        return false;
    take_number(s, end, &item);
    return true;
}

/* "(ms)" behind a name is its unit, "(train)" one more word of it. */
static bool take_parenthesis(struct scanner *s)
{
    const size_t n = strcspn(s->p + 1, ")");
    if (*s->p != '(' || s->p[1 + n] != ')' || !s->words[0])
        return false;
    if (n < sizeof(s->unit) && (n == 1 || printed_unit_length(s->p + 1) == n)) {
        snprintf(s->unit, sizeof(s->unit), "%.*s", (int)n, s->p + 1);
        s->p += n + 2;
        return true;
    }
    if (s->gap || word_length(s->p + 1) != n || n > 12)
        return false;
    append(s, s->p + 1, n);
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
    else if (!strchr("'\"`#*\\/.", c) && !(c == '-' && word_char(*s->p)) && !(c == ')' || c == ']'))
        break_words(s);
    else if (c == '[' || c == '(' || ((c == ']') && s->words[0]))
        break_words(s);
}

/* A name of a file or a run: digits joined to letters by '-', a known ending, "checkpoint-500". */
static size_t name_length(const struct scanner *s)
{
    static const char *const endings[] = {".pth", ".pt", ".ckpt", ".safetensors", ".json", ".bin", ".png", ".yaml"};
    const size_t n = strcspn(s->p, " \t,");
    for (size_t i = 0; i + 2 < n; i++)
        if (isdigit((unsigned char)s->p[i]) && s->p[i + 1] == '-' && isalpha((unsigned char)s->p[i + 2]))
            return n;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        const char *at = memmem(s->p, n, endings[i], strlen(endings[i]));
        if (at && !word_char(at[strlen(endings[i])]))
            return n;
    }
    return 0;
}

static void take_blank(struct scanner *s)
{
    s->gap += *s->p == ' ';
    s->tab = s->tab || *s->p == '\t';
    s->p++;
}

static void take_token(struct scanner *s)
{
    const bool begins = s->p == s->text || s->p[-1] == ' ';
    const size_t name = begins ? name_length(s) : 0;
    size_t n = word_length(s->p);
    if (name) {
        if (memmem(s->p, name, "safetensors", 11))
            s->out->busy = true;
        s->p += name;
        break_words(s);
    } else if (take_digits(s)) {
        s->bracket = false;
    } else if (n) {
        take_word(s, glued_word(s->p, n));
        s->bracket = false;
    } else if (!take_parenthesis(s)) {
        take_sign(s);
    }
    s->gap = 0;
    s->tab = false;
}

void printed_scan(struct printed_scan *out, const char *text, size_t n)
{
    struct scanner s = {.out = out, .text = text, .p = text, .end = text + n};
    out->count = 0;
    out->negative = out->busy = false;
    while (s.p < s.end && *s.p) {
        if (*s.p == ' ' || *s.p == '\t')
            take_blank(&s);
        else
            take_token(&s);
    }
    snprintf(out->last, sizeof(out->last), "%s", s.words);
    break_words(&s);
}
