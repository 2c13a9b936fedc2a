/* SPDX-License-Identifier: Apache-2.0 */
/* printed_progress.c - see printed_progress.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/printed_progress.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/printed/printed_bar.h"
#include "agent/printed/printed_scan.h"
#include "agent/printed/progress_pattern.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* One line while it is read: per field the number of the highest rank. */
struct reading {
    struct printed_progress p;
    int rank[PRINTED_FIELDS];
};

static bool has(const struct reading *r, enum printed_field f)
{
    return printed_progress_has(&r->p, f);
}

/* The first number of the highest rank stays. */
static void tell(struct reading *r, enum printed_field f, double value, int rank)
{
    if (has(r, f) && rank <= r->rank[f])
        return;
    r->p.told |= 1u << f;
    r->p.value[f] = value;
    r->rank[f] = rank;
}

static void forget(struct reading *r, enum printed_field f)
{
    r->p.told &= ~(1u << f);
    r->rank[f] = 0;
}

/* A counter "a/b", the last of its rank; b < a is not a total. */
static void tell_counter(struct reading *r, double step, double steps, int rank, bool of_epoch)
{
    if (has(r, PRINTED_STEP) && rank < r->rank[PRINTED_STEP])
        return;
    forget(r, PRINTED_STEP);
    forget(r, PRINTED_STEPS);
    tell(r, PRINTED_STEP, step, rank);
    if (steps >= step)
        tell(r, PRINTED_STEPS, steps, rank);
    r->p.of_epoch = of_epoch;
}

static void tell_rate(struct reading *r, double rate, struct printed_unit unit, int rank)
{
    const bool each = unit.kind == UNIT_SECONDS_EACH;
    if (isnan(rate) || (!each && unit.kind != UNIT_PER_SECOND) || unit.counts == COUNT_OTHER ||
        rank <= r->rank[PRINTED_PER_S] || rank <= r->rank[PRINTED_S_PER_STEP])
        return;
    forget(r, PRINTED_PER_S);
    forget(r, PRINTED_S_PER_STEP);
    tell(r, each ? PRINTED_S_PER_STEP : PRINTED_PER_S, rate * unit.scale, rank);
    r->p.rate_counts = unit.counts;
}

static void tell_epoch(struct reading *r, double epoch, double epochs, int rank)
{
    tell(r, PRINTED_EPOCH, epoch, rank);
    if (epochs >= epoch)
        tell(r, PRINTED_EPOCHS, epochs, rank);
}

/* --- numbers with names ----------------------------------------------------------------- */

static void tell_time(struct reading *r, const struct printed_item *item)
{
    const enum printed_unit_kind kind = item->unit.kind;
    const bool plain = kind == UNIT_NONE || kind == UNIT_SECONDS || kind == UNIT_OTHER;
    const double scale = item->name->note == NOTE_MS ? 1e-3 : plain ? item->unit.scale : 1;
    tell_rate(r, item->value, (struct printed_unit){UNIT_SECONDS_EACH, COUNT_STEPS, scale}, 10 + item->name->rank);
}

static void tell_step(struct reading *r, const struct printed_item *item)
{
    const double epoch = has(r, PRINTED_EPOCH) ? r->p.value[PRINTED_EPOCH] : 0.5;
    const bool behind_epoch = epoch == floor(epoch) && item->name->rank < 8 && !isnan(item->of);
    if (item->value >= 0 && item->value == floor(item->value))
        tell_counter(r, item->value, item->of, item->name->rank, behind_epoch || item->name->note == NOTE_OF_EPOCH);
}

static void tell_item(struct reading *r, const struct printed_item *item)
{
    const struct printed_name *name = item->name;
    const bool duration = !isnan(item->seconds);
    if (name->field == PRINTED_ETA_S)
        tell(r, PRINTED_ETA_S, duration ? item->seconds : item->value, name->rank);
    else if (duration)
        return;
    else if (name->field == PRINTED_S_PER_STEP || (name->field == PRINTED_STEP && item->unit.kind == UNIT_SECONDS))
        tell_time(r, item);
    else if (name->field == PRINTED_STEP)
        tell_step(r, item);
    else if (name->field == PRINTED_EPOCH && !isnan(item->value))
        tell_epoch(r, item->value, item->of, name->rank);
    else if (name->field == PRINTED_PER_S)
        tell_rate(r, item->value, (struct printed_unit){UNIT_PER_SECOND, name->counts, 1},
                  name->rank + (name->counts == COUNT_STEPS ? 10 : 0));
    else if (name->field != PRINTED_EPOCH)
        tell(r, name->field, item->value, name->rank);
}

static void tell_nameless(struct reading *r, const struct printed_item *item)
{
    static const char words[] = "train speed throughput rate avg average";
    const enum printed_unit_kind kind = item->unit.kind;
    if (kind == UNIT_SECONDS_EACH || kind == UNIT_PER_SECOND) {
        if (printed_scan_within(item->words, strlen(item->words), words))
            tell_rate(r, item->value, item->unit, item->unit.counts == COUNT_STEPS ? 12 : 2);
    } else if (kind == UNIT_SECONDS && item->unit.scale == 1e-3 && !item->words[0]) {
        tell_rate(r, item->value, (struct printed_unit){UNIT_SECONDS_EACH, COUNT_STEPS, 1e-3}, 11);
    }
}

/* "Epoch [1][50/930]", "epoch 143:   85 / 282", "Train: 0 [  50/10009 (  0%)]": the counter behind the epoch. */
static bool counts_behind_epoch(const struct printed_scan *s, size_t i)
{
    const struct printed_item *item = &s->items[i];
    return i > 0 && i < s->count && item[-1].name && item[-1].name->field == PRINTED_EPOCH && !item->words[0] &&
           !isnan(item->of);
}

/* The words at the head of a line that make all of it an evaluation, or something else than training. */
static bool other_line(const struct printed_item *item)
{
    const bool counts = item->name && (item->name->field == PRINTED_STEP || item->name->field == PRINTED_EPOCH);
    return item->negative &&
           (counts || !isnan(item->of) || printed_scan_has(item->words, "step iteration iter epoch batch"));
}

/* Returns false where the line is about something else than training. */
static bool read_items(struct reading *r, const struct printed_scan *s)
{
    bool busy = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct printed_item *item = &s->items[i];
        if (!r->p.told && other_line(item))
            return false;
        if (item->negative)
            continue;
        busy = busy || (item->busy && !r->p.told);
        if (counts_behind_epoch(s, i)) {
            tell_counter(r, item->value, item->of, 5, true);
            r->p.counts = strcmp(item[-1].words, "train epoch") == 0 ? COUNT_SAMPLES : COUNT_STEPS;
        } else if (item->name && (item->name->note != NOTE_TRAIN || counts_behind_epoch(s, i + 1))) {
            tell_item(r, item);
        } else {
            tell_nameless(r, item);
        }
    }
    return !busy || has(r, PRINTED_LOSS);
}

/* What settings look like is not progress without a number that only training has. */
static void drop_settings(struct reading *r)
{
    if (r->rank[PRINTED_STEP] == 3 && !has(r, PRINTED_LOSS)) {
        forget(r, PRINTED_STEP);
        forget(r, PRINTED_STEPS);
    }
    if (r->rank[PRINTED_STEPS] == 1 && !has(r, PRINTED_STEP))
        forget(r, PRINTED_STEPS);
    /* "time: 0.3" and "took 0.08 seconds" of something else */
    if (!has(r, PRINTED_STEP) && !has(r, PRINTED_LOSS) && r->rank[PRINTED_S_PER_STEP] < 18)
        forget(r, PRINTED_S_PER_STEP);
}

static void read_text(struct reading *r, const char *text)
{
    struct printed_scan scan;
    printed_scan(&scan, text, strlen(text));
    if (!read_items(r, &scan)) {
        r->p.told = 0;
        return;
    }
    /* "[12.5k/100k] loss=1.87", "loss: 2.303  [   64/60000]": a counter in brackets, in a record that has a loss. */
    for (size_t i = 0; i < scan.count && has(r, PRINTED_LOSS) && !has(r, PRINTED_STEP); i++)
        if (!scan.items[i].words[0] && scan.items[i].after_bracket && !isnan(scan.items[i].of))
            tell_counter(r, scan.items[i].value, scan.items[i].of, 5, false);
}

/* --- shapes without names --------------------------------------------------------------- */

/* Told on top of the numbers with names, if the line tells the field `needs`, too. */
static const struct shape {
    const char *pattern; /* progress_pattern.h */
    bool anywhere;       /* it need not begin the line */
    int  needs;
} shapes[] = {
    {"[{step}]\t", false, -1},                                   /* xgboost, lightgbm */
    {"{step}:\tlearn", false, -1},                               /* catboost */
    {"{step} ({percent}%) {} ms {eta_s}", false, -1},            /* nerfstudio */
    {"Progress: {percent}%", false, -1},                         /* fastText */
    {"Step/Epoch [{step}/{epoch}]", true, -1},                   /* PixArt */
    {"{epoch}|{step}|Loss", true, -1},                           /* torchtune */
    {"[{epoch}, {step}]", false, PRINTED_LOSS},                  /* PyTorch's tutorials */
    {"raining for {steps} steps", true, -1},
    {"raining for {steps} iter", true, -1},
    {"raining for {epochs} epochs", true, -1},
    {"max: {epochs} epochs", true, -1},
    {"max: {steps} iters", true, -1},
};

static void read_shapes(struct reading *r, const char *line)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct printed_progress found = {.rank = -1};
        const char *pattern = shapes[i].pattern, *p = line + strspn(line, " ");
        const bool here = shapes[i].anywhere ? progress_pattern_read(pattern, p, &found)
                                             : progress_pattern_match(pattern, strlen(pattern), p, &found) != NULL;
        if (!here || (shapes[i].needs >= 0 && !has(r, (enum printed_field)shapes[i].needs)))
            continue;
        if (printed_progress_has(&found, PRINTED_STEP))
            tell_counter(r, found.value[PRINTED_STEP], NAN, 9, shapes[i].needs >= 0);
        for (int f = PRINTED_STEPS; f < PRINTED_FIELDS; f++)
            if (printed_progress_has(&found, (enum printed_field)f))
                tell(r, (enum printed_field)f, found.value[f], 30);
        return;
    }
}

/* --- bars ------------------------------------------------------------------------------- */

static bool other_bar(const struct printed_bar *bar, const struct printed_scan *label)
{
    bool other = label->negative || label->busy || bar->unit.kind == UNIT_BYTES ||
                 (bar->unit.kind == UNIT_PER_SECOND && bar->unit.counts == COUNT_OTHER);
    for (size_t i = 0; i < label->count; i++)
        other = other || label->items[i].negative || label->items[i].busy;
    return other;
}

static void read_label(struct reading *r, const struct printed_bar *bar, const struct printed_scan *label)
{
    char text[256];
    const char *last = label->last;
    const struct printed_item *first = label->count ? &label->items[0] : NULL;
    /* YOLO: "1/20  1.19G  1.018 ... 640: 100%": the label begins with the epoch. */
    if (first && !first->words[0] && !isnan(first->of) && label->count > 3)
        tell_epoch(r, first->value, first->of, 6);
    read_items(r, label);
    snprintf(text, sizeof(text), "%.*s", (int)bar->label_size, bar->label);
    read_shapes(r, text);
    const bool epochs = printed_scan_ends(last, "epochs") || printed_scan_ends(last, "epoch") ||
                        bar->unit.counts == COUNT_EPOCHS;
    const bool same = has(r, PRINTED_EPOCHS) && r->p.value[PRINTED_EPOCH] == bar->step &&
                      r->p.value[PRINTED_EPOCHS] == bar->steps;
    r->p.counts = epochs || (same && bar->steps > 1) ? COUNT_EPOCHS : bar->unit.counts;
    r->p.of_epoch = r->p.counts != COUNT_EPOCHS &&
                    (bar->epoch || printed_scan_ends(last, "batch") || printed_scan_ends(last, "step") ||
                     (has(r, PRINTED_EPOCH) && !printed_scan_ends(last, "steps")));
}

/* A dictionary glued to the bar: ms-swift. */
static void read_behind_bar(struct reading *r, const char *text)
{
    struct reading other = {.p.rank = -1};
    read_text(&other, text);
    other.p.told &= 1u << PRINTED_LOSS | 1u << PRINTED_LR | 1u << PRINTED_EPOCH;
    printed_progress_merge(&r->p, &other.p);
}

static bool read_bar(struct reading *r, const char *line)
{
    struct printed_bar bar;
    struct printed_scan scan;
    if (!printed_bar_read(&bar, line))
        return false;
    printed_scan(&scan, bar.label, bar.label_size);
    if (other_bar(&bar, &scan))
        return true;
    read_label(r, &bar, &scan);
    forget(r, PRINTED_STEP);
    forget(r, PRINTED_STEPS);
    if (!isnan(bar.step))
        tell_counter(r, bar.step, bar.steps, 9, r->p.of_epoch);
    else if (!isnan(bar.percent))
        tell(r, PRINTED_PERCENT, bar.percent, 9);
    if (!isnan(bar.eta_s))
        tell(r, PRINTED_ETA_S, bar.eta_s, 10);
    tell_rate(r, bar.rate, bar.unit, 30);
    printed_scan(&scan, bar.tail, bar.tail_size);
    read_items(r, &scan);
    if (bar.tail[bar.tail_size] == ']' && bar.tail[bar.tail_size + 1] == '{')
        read_behind_bar(r, bar.tail + bar.tail_size + 1);
    return true;
}

/* --- tables ----------------------------------------------------------------------------- */

static const char *next_cell(const char *p)
{
    return p + strspn(p, " \t|");
}

/* The length of the head at `p`: up to two blanks, a tab, '|' or the end. */
static size_t head_length(const char *p)
{
    size_t n = 0;
    while (p[n] && p[n] != '\t' && p[n] != '|' && !(p[n] == ' ' && (p[n + 1] == ' ' || !p[n + 1])))
        n++;
    return n;
}

static int field_of(const char *p, size_t n)
{
    static const struct { const char *head; enum printed_field field; } heads[] = {
        {"epoch", PRINTED_EPOCH}, {"e", PRINTED_EPOCH}, {"step", PRINTED_STEP}, {"iter", PRINTED_STEP},
        {"#", PRINTED_STEP}, {"train_loss", PRINTED_LOSS}, {"train loss", PRINTED_LOSS},
        {"training loss", PRINTED_LOSS}, {"loss", PRINTED_LOSS}, {"lr", PRINTED_LR}, {"learning_rate", PRINTED_LR}};
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        if (strlen(heads[i].head) == n && strncasecmp(p, heads[i].head, n) == 0)
            return (int)heads[i].field;
    return -1;
}

/* A head has no number: "loss 11.0" is a record. */
static bool is_head(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] == ':' || p[i] == '=' || (isdigit((unsigned char)p[i]) && (i == 0 || p[i - 1] == ' ')))
            return false;
    return true;
}

/* Whether the line is the head of a table of progress; keeps the head. */
static bool read_heads(struct printed_table *t, const char *line)
{
    struct printed_table found = {0};
    bool counts = false;
    for (const char *p = next_cell(line); *p && found.count < PRINTED_COLUMNS; p = next_cell(p)) {
        const size_t n = head_length(p);
        const int f = field_of(p, n);
        if (!is_head(p, n))
            return false;
        counts = counts || f == PRINTED_EPOCH || f == PRINTED_STEP;
        found.field[found.count++] = f;
        p += n;
    }
    if (found.count < 3 || !counts)
        return false;
    *t = found;
    return true;
}

/* Whether the line is a row of the table; tells its numbers. */
static bool read_row(struct reading *r, const struct printed_table *t, const char *line)
{
    int column = 0;
    struct reading row = {.p.rank = -1};
    for (const char *p = next_cell(line); *p; p = next_cell(p), column++) {
        double value;
        const char *end = isdigit((unsigned char)*p) || *p == '-' ? printed_number_read(p, &value) : NULL;
        const int f = column < t->count ? t->field[column] : -1;
        if (!end)
            return false;
        if (f >= 0)
            tell(&row, (enum printed_field)f, value, 0);
        p += strcspn(p, " \t|");
    }
    if (!t->count || column != t->count)
        return false;
    *r = row;
    return true;
}

/* --- lines ------------------------------------------------------------------------------ */

/* A row "| name | value |" of a table: the bar in the middle separates them. */
static void open_row(char *line)
{
    char *first = strchr(line, '|'), *middle = first ? strchr(first + 1, '|') : NULL;
    char *last = middle ? strchr(middle + 1, '|') : NULL;
    if (last && first == line + strspn(line, " \t") && !last[1 + strspn(last + 1, " \t")])
        *middle = ':';
}

/* Lines that have the numbers of training and are none: means after the end, histories, lists of files. */
static const char *const summaries[] = {"train_runtime", "wandb:", "frame=", "Namespace(", "' reached",
                                        "was not in top", NULL};

static void read_line(struct printed_progress *out, char *line, struct printed_table *table)
{
    const char *rank = strstr(line, "[rank");
    struct reading r = {.p.rank = rank && isdigit((unsigned char)rank[5]) ? atoi(rank + 5) : -1};
    const bool row = read_row(&r, table, line);
    if (text_line_has((struct text_line){line, strlen(line)}, summaries) || (!row && read_heads(table, line)))
        return;
    open_row(line);
    if (!row && !read_bar(&r, line)) {
        read_text(&r, line);
        read_shapes(&r, line);
        drop_settings(&r);
    }
    printed_progress_merge(out, &r.p);
}

void printed_progress_merge(struct printed_progress *out, const struct printed_progress *later)
{
    const unsigned speed = 1u << PRINTED_PER_S | 1u << PRINTED_S_PER_STEP, step = 1u << PRINTED_STEP;
    if (!later->told || (out->told && out->rank >= 0 && later->rank > out->rank))
        return;
    if (later->told & step) {
        out->told &= out->told & step ? ~(speed | 1u << PRINTED_ETA_S | 1u << PRINTED_STEPS) : ~0u;
        out->counts = later->counts;
        out->of_epoch = later->of_epoch;
    }
    if (later->told & speed) {
        out->told &= ~speed;
        out->rate_counts = later->rate_counts;
    }
    for (int f = 0; f < PRINTED_FIELDS; f++)
        if (printed_progress_has(later, (enum printed_field)f))
            out->value[f] = later->value[f];
    out->told |= later->told;
    out->rank = later->rank;
}

void printed_progress_line(struct printed_progress *out, char *line, struct printed_table *table)
{
    *out = (struct printed_progress){.rank = -1};
    text_line_screen(line);
    for (char *frame; (frame = strsep(&line, "\r\n"));)
        read_line(out, frame, table);
}

unsigned printed_progress_told(struct text_line line)
{
    char copy[1024];
    struct printed_table table = {0};
    struct printed_progress p;
    snprintf(copy, sizeof(copy), "%.*s", (int)line.n, line.at);
    printed_progress_line(&p, copy, &table);
    return p.told;
}

bool printed_progress_is_step(struct text_line line)
{
    const unsigned both = 1u << PRINTED_STEP | 1u << PRINTED_LOSS;
    return (printed_progress_told(line) & both) == both;
}
