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

#include "agent/printed/printed_bar.h"
#include "agent/printed/printed_number.h"
#include "agent/printed/printed_scan.h"
#include "agent/printed/printed_table.h"
#include "agent/printed/printed_words.h"
#include "agent/printed/screen_line.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* One line while it is read: per field the number of the highest rank. */
struct reading {
    struct printed_progress p;
    int rank[PRINTED_FIELDS];
    bool step_of_epoch; /* the step that was chosen counts within an epoch */
};

const char *printed_field_name(enum printed_field f)
{
    static const char *const names[PRINTED_FIELDS] = {"step", "steps", "epoch",      "epochs", "percent",
                                                      "loss", "lr",    "per_s",      "s_per_step", "eta_s"};
    return names[f];
}

static void tell(struct reading *r, enum printed_field f, double value, int rank)
{
    if (printed_progress_has(&r->p, f) && rank < r->rank[f])
        return;
    r->p.told |= 1u << f;
    r->p.value[f] = value;
    r->rank[f] = rank;
}

/* The first number of a rank stays. */
static void tell_first(struct reading *r, enum printed_field f, double value, int rank)
{
    if (!printed_progress_has(&r->p, f) || rank > r->rank[f])
        tell(r, f, value, rank);
}

static void forget(struct reading *r, enum printed_field f)
{
    r->p.told &= ~(1u << f);
    r->rank[f] = 0;
}

static bool has(const struct reading *r, enum printed_field f)
{
    return printed_progress_has(&r->p, f);
}

/* A counter "a/b"; b < a is not a total. */
static void tell_counter(struct reading *r, double step, double steps, int rank, bool of_epoch)
{
    if (has(r, PRINTED_STEP) && rank < r->rank[PRINTED_STEP])
        return;
    tell(r, PRINTED_STEP, step, rank);
    forget(r, PRINTED_STEPS);
    if (!isnan(steps) && steps >= step)
        tell(r, PRINTED_STEPS, steps, rank);
    r->step_of_epoch = of_epoch;
}

static void tell_rate(struct reading *r, double rate, const struct printed_unit *unit, int rank)
{
    const enum printed_field f = unit->kind == UNIT_SECONDS_EACH ? PRINTED_S_PER_STEP : PRINTED_PER_S;
    if (isnan(rate) || (unit->kind != UNIT_SECONDS_EACH && unit->kind != UNIT_PER_SECOND) ||
        unit->counts == COUNT_OTHER)
        return;
    const int now = has(r, PRINTED_PER_S)        ? r->rank[PRINTED_PER_S]
                    : has(r, PRINTED_S_PER_STEP) ? r->rank[PRINTED_S_PER_STEP]
                                                 : 0;
    if (rank <= now)
        return;
    forget(r, PRINTED_PER_S);
    forget(r, PRINTED_S_PER_STEP);
    tell(r, f, rate * unit->scale, rank);
    r->p.rate_counts = unit->counts;
}

static void tell_epoch(struct reading *r, const struct printed_item *item, int rank)
{
    tell_first(r, PRINTED_EPOCH, item->value, rank);
    if (!isnan(item->of) && item->of >= item->value)
        tell_first(r, PRINTED_EPOCHS, item->of, rank);
}

static void tell_time(struct reading *r, const struct printed_item *item, const struct printed_name *name)
{
    struct printed_unit unit = printed_unit_of(item->unit);
    const bool plain = unit.kind == UNIT_NONE || unit.kind == UNIT_SECONDS || unit.kind == UNIT_OTHER;
    const bool seconds_word = strcmp(name->words, "batch") == 0;
    if (!isnan(item->seconds) || isnan(item->value) || (seconds_word && strcmp(item->unit, "t") != 0))
        return;
    const double scale = strncmp(name->words, "ms ", 3) == 0 ? 1e-3 : plain ? unit.scale : 1;
    unit = (struct printed_unit){UNIT_SECONDS_EACH, COUNT_STEPS, scale};
    tell_rate(r, item->value, &unit, 10 + name->rank);
}

static void tell_speed(struct reading *r, const struct printed_item *item, const struct printed_name *name)
{
    const struct printed_unit unit = {UNIT_PER_SECOND, name->counts, 1};
    if (isnan(item->seconds))
        tell_rate(r, item->value, &unit, name->counts == COUNT_STEPS ? 10 + name->rank : name->rank);
}

static void tell_step(struct reading *r, const struct printed_item *item, const struct printed_name *name)
{
    const bool behind_epoch = has(r, PRINTED_EPOCH) && r->p.value[PRINTED_EPOCH] == floor(r->p.value[PRINTED_EPOCH]);
    const bool of_epoch = strcmp(name->words, "local step") == 0 || strcmp(name->words, "epoch step") == 0 ||
                          (name->rank < 8 && behind_epoch && !isnan(item->of));
    if (isnan(item->value) || (!item->whole && item->value != floor(item->value)) || item->value < 0)
        return;
    if (strcmp(name->words, "update") == 0 && !item->whole)
        return;
    if (strcmp(name->words, "total timesteps") == 0 && item->own != 0)
        return; /* "total_timesteps" is what is done, "Total timesteps" a sum over environments */
    tell_counter(r, item->value, item->of, name->rank, of_epoch);
}

static void tell_item(struct reading *r, const struct printed_item *item, const struct printed_name *name)
{
    switch (name->field) {
    case PRINTED_STEP:
        if (strcmp(item->unit, "t") == 0)
            tell_time(r, item, name);
        else if (isnan(item->seconds))
            tell_step(r, item, name);
        return;
    case PRINTED_EPOCH:
        if (isnan(item->seconds) && !isnan(item->value))
            tell_epoch(r, item, name->rank);
        return;
    case PRINTED_S_PER_STEP:
        tell_time(r, item, name);
        return;
    case PRINTED_PER_S:
        tell_speed(r, item, name);
        return;
    case PRINTED_ETA_S:
        tell_first(r, PRINTED_ETA_S, isnan(item->seconds) ? item->value : item->seconds, name->rank);
        return;
    default:
        if (isnan(item->seconds))
            tell_first(r, name->field, item->value, name->rank);
    }
}

/* "Epoch [1][50/930]", "epoch 143:   85 / 282", "Train: 0 [  50/10009 (  0%)]": the counter behind the epoch. */
static bool counts_behind_epoch(const struct printed_scan *s, size_t i)
{
    const struct printed_item *item = &s->items[i], *before = i ? item - 1 : NULL;
    const struct printed_name *name = before ? printed_name_of(before) : NULL;
    return name && name->field == PRINTED_EPOCH && !item->words[0] && !isnan(item->of);
}

static void tell_nameless(struct reading *r, const struct printed_item *item)
{
    struct printed_unit unit = printed_unit_of(item->unit);
    if (unit.kind == UNIT_SECONDS_EACH || unit.kind == UNIT_PER_SECOND) {
        const bool steps = unit.counts == COUNT_STEPS;
        if (printed_scan_within(item->words, strlen(item->words), "train speed throughput rate avg average"))
            tell_rate(r, item->value, &unit, steps ? 12 : 2);
    } else if (strcmp(item->unit, "ms") == 0 && !item->words[0]) {
        unit = (struct printed_unit){UNIT_SECONDS_EACH, COUNT_STEPS, 1e-3};
        tell_rate(r, item->value, &unit, 11);
    }
}

static bool is_step_name(const struct printed_name *name)
{
    return name && (name->field == PRINTED_STEP || name->field == PRINTED_EPOCH);
}

/* The words at the head of a line that make all of it an evaluation, or something else than training. */
static bool other_line(const struct printed_item *item, const struct printed_name *name)
{
    return item->negative &&
           (is_step_name(name) || !isnan(item->of) || printed_scan_has(item->words, "step iteration iter epoch batch"));
}

/* Numbers with names.  Returns false where the line is about something else than training. */
static bool read_items(struct reading *r, const struct printed_scan *s)
{
    bool busy = false;
    for (size_t i = 0; i < s->count; i++) {
        const struct printed_item *item = &s->items[i];
        const struct printed_name *name = printed_name_of(item);
        if (!r->p.told && other_line(item, name))
            return false;
        if (item->negative)
            continue;
        busy = busy || (item->busy && !r->p.told);
        if (counts_behind_epoch(s, i)) {
            tell_counter(r, item->value, item->of, 5, true);
            r->p.counts = strcmp(item[-1].words, "train epoch") == 0 ? COUNT_SAMPLES : COUNT_STEPS;
        }
        else if (name && !(strcmp(name->words, "train") == 0 && !counts_behind_epoch(s, i + 1 < s->count ? i + 1 : i)))
            tell_item(r, item, name);
        else
            tell_nameless(r, item);
    }
    return !busy || has(r, PRINTED_LOSS);
}

/* What settings look like is not progress without a number that only training has. */
static void drop_settings(struct reading *r)
{
    const bool steps_word = r->rank[PRINTED_STEP] == 3 && has(r, PRINTED_STEP);
    if (steps_word && !has(r, PRINTED_LOSS)) {
        forget(r, PRINTED_STEP);
        forget(r, PRINTED_STEPS);
    }
    if (r->rank[PRINTED_STEPS] == 1 && has(r, PRINTED_STEPS) && !has(r, PRINTED_STEP))
        forget(r, PRINTED_STEPS);
    /* "time: 0.3" and "took 0.08 seconds" of something else */
    if (!has(r, PRINTED_STEP) && !has(r, PRINTED_LOSS) && has(r, PRINTED_S_PER_STEP) &&
        r->rank[PRINTED_S_PER_STEP] < 18)
        forget(r, PRINTED_S_PER_STEP);
}

/* "[12.5k/100k] loss=1.87", "loss: 2.303  [   64/60000]": a counter in brackets, in a record that has a loss. */
static void read_bracket_counter(struct reading *r, const struct printed_scan *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct printed_item *item = &s->items[i];
        const bool nameless = !item->words[0] && item->after_bracket && !isnan(item->of);
        if (nameless && has(r, PRINTED_LOSS) && !has(r, PRINTED_STEP))
            tell_counter(r, item->value, item->of, 5, false);
    }
}

static void read_text(struct reading *r, const char *text, size_t n)
{
    struct printed_scan scan;
    printed_scan(&scan, text, n);
    if (read_items(r, &scan)) {
        read_bracket_counter(r, &scan);
        drop_settings(r);
    } else {
        r->p.told = 0;
    }
}

/* -- bars -- */

static bool other_bar(const struct printed_bar *bar, const struct printed_scan *label)
{
    if (bar->unit.kind == UNIT_BYTES || (bar->unit.kind == UNIT_PER_SECOND && bar->unit.counts == COUNT_OTHER))
        return true;
    if (label->negative || label->busy)
        return true;
    for (size_t i = 0; i < label->count; i++)
        if (label->items[i].negative || label->items[i].busy)
            return true;
    return false;
}

/* YOLO: "1/20  1.19G  1.018 ... 640: 100%": the label begins with the epoch. */
static void read_label_columns(struct reading *r, const struct printed_scan *label)
{
    const struct printed_item *first = label->count ? &label->items[0] : NULL;
    if (first && !first->words[0] && !isnan(first->of) && label->count > 3)
        tell_epoch(r, first, 6);
}

/* torchtune: "1|25880|Loss: 0.84" */
static bool read_pipes(struct reading *r, const char *text, size_t n)
{
    char *end;
    const char *pipe = memchr(text, '|', n), *p = pipe;
    while (p && p > text && isdigit((unsigned char)p[-1]))
        p--;
    if (!p || p == pipe)
        return false;
    const double epoch = strtod(p, &end);
    if (end == p || *end != '|' || !isdigit((unsigned char)end[1]))
        return false;
    const double step = strtod(end + 1, &end);
    if (*end != '|' || !isalpha((unsigned char)end[1]))
        return false;
    tell(r, PRINTED_EPOCH, epoch, 6);
    tell(r, PRINTED_STEP, step, 6);
    read_text(r, end + 1, n - (size_t)(end + 1 - text));
    return true;
}

static bool label_is(const struct printed_scan *label, const char *word)
{
    size_t at;
    return printed_scan_ends(label->last, word, &at);
}

static void read_bar_label(struct reading *r, const struct printed_bar *bar, const char *line)
{
    struct printed_scan label;
    printed_scan(&label, line + bar->begin, bar->label);
    read_label_columns(r, &label);
    if (!read_pipes(r, line + bar->begin, bar->label))
        read_items(r, &label);
    const bool epochs = label_is(&label, "epochs") || label_is(&label, "epoch") || bar->unit.counts == COUNT_EPOCHS;
    const bool same = has(r, PRINTED_EPOCHS) && r->p.value[PRINTED_EPOCH] == bar->step &&
                      r->p.value[PRINTED_EPOCHS] == bar->steps;
    r->p.of_epoch = bar->epoch || label_is(&label, "batch") || label_is(&label, "step") ||
                    (has(r, PRINTED_EPOCH) && !label_is(&label, "steps"));
    r->p.counts = epochs || (same && bar->steps > 1) ? COUNT_EPOCHS : bar->unit.counts;
    r->p.of_epoch = r->p.of_epoch && r->p.counts != COUNT_EPOCHS;
}

static void read_bar_counters(struct reading *r, const struct printed_bar *bar)
{
    if (!isnan(bar->step))
        tell_counter(r, bar->step, bar->steps, 9, r->p.of_epoch);
    if (!isnan(bar->eta_s))
        tell(r, PRINTED_ETA_S, bar->eta_s, 10);
    if (!isnan(bar->percent) && isnan(bar->step))
        tell(r, PRINTED_PERCENT, bar->percent, 9);
    tell_rate(r, bar->rate, &bar->unit, 30);
}

/* A dictionary glued to the bar: ms-swift. */
static void read_behind_bar(struct reading *r, const struct printed_bar *bar, const char *line)
{
    const char *after = line + bar->tail + bar->tail_size;
    struct reading other = {.p.rank = -1};
    if (after[0] != ']' || after[1] != '{')
        return;
    read_text(&other, after + 1, strlen(after + 1));
    other.p.told &= 1u << PRINTED_LOSS | 1u << PRINTED_LR | 1u << PRINTED_EPOCH;
    printed_progress_merge(&r->p, &other.p);
}

static bool read_bar(struct reading *r, const char *line)
{
    struct printed_bar bar;
    struct printed_scan label, tail;
    if (!printed_bar_read(&bar, line))
        return false;
    printed_scan(&label, line + bar.begin, bar.label);
    if (other_bar(&bar, &label) || (bar.epoch && !strchr(line + bar.tail, ':')))
        return true;
    read_bar_label(r, &bar, line);
    forget(r, PRINTED_STEP);
    forget(r, PRINTED_STEPS);
    read_bar_counters(r, &bar);
    printed_scan(&tail, line + bar.tail, bar.tail_size);
    if (strcasestr(label.last, "generat"))
        return true;
    read_items(r, &tail);
    read_behind_bar(r, &bar, line);
    return true;
}

/* -- other shapes -- */

static const char *blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* xgboost and lightgbm: "[2]\ttrain-rmse:1.8"; catboost: "300:\tlearn: 0.97 ...\tremaining: 1m 51s" */
static bool read_boosting(struct reading *r, const char *line)
{
    char *end;
    const char *p = blanks(line);
    const bool bracket = *p == '[';
    p += bracket;
    if (!isdigit((unsigned char)*p))
        return false;
    const double step = strtod(p, &end);
    const bool round = bracket ? end[0] == ']' && end[1] == '\t' : strncmp(end, ":\tlearn", 7) == 0;
    if (!round)
        return false;
    tell(r, PRINTED_STEP, step, 9);
    const char *left = strstr(end, "remaining:");
    if (left)
        read_text(r, left, strlen(left));
    return true;
}

/* nerfstudio: "29910 (99.70%)   101.070 ms   9 s, 96.299 ms   41.18 K" */
static bool read_percent_row(struct reading *r, const char *line)
{
    double seconds, eta;
    char *end;
    const double step = strtod(line, &end);
    const char *p = blanks(end);
    if (end == line || *p != '(')
        return false;
    const double percent = strtod(p + 1, &end);
    if (end[0] != '%' || end[1] != ')')
        return false;
    const char *after = printed_duration_read(blanks(end + 2), &seconds);
    if (!after)
        return false;
    tell(r, PRINTED_STEP, step, 9);
    tell(r, PRINTED_PERCENT, percent, 9);
    tell(r, PRINTED_S_PER_STEP, seconds, 30);
    if (printed_duration_read(blanks(after), &eta))
        tell(r, PRINTED_ETA_S, eta, 9);
    return true;
}

/* fastText: "Progress:  15.9% words/sec/thread: ..." */
static bool read_percent(struct reading *r, const char *line)
{
    char *end;
    const char *p = blanks(line);
    if (strncasecmp(p, "progress:", 9) != 0)
        return false;
    const double percent = strtod(p + 9, &end);
    if (*end != '%')
        return false;
    read_text(r, end + 1, strlen(end + 1));
    tell(r, PRINTED_PERCENT, percent, 9);
    return true;
}

/* PixArt: "Step/Epoch [2040/3][120/960]:" */
static bool read_step_of_epoch(struct reading *r, const char *line)
{
    char *end;
    const char *p = strstr(line, "Step/Epoch [");
    if (!p)
        return false;
    const double step = strtod(p + 12, &end);
    if (*end != '/')
        return false;
    const double epoch = strtod(end + 1, &end);
    const char *rest = strchr(end, ':');
    if (rest)
        read_text(r, rest, strlen(rest));
    tell(r, PRINTED_STEP, step, 9);
    tell(r, PRINTED_EPOCH, epoch, 9);
    return true;
}

/* "Training for 5,000,000 steps...", "Starting training for 20 epochs...", "max: 12 epochs" */
static bool read_banner(struct reading *r, const char *line)
{
    static const struct { const char *before, *behind; enum printed_field field; } all[] = {
        {"raining for ", " steps", PRINTED_STEPS}, {"raining for ", " iter", PRINTED_STEPS},
        {"raining for ", " epochs", PRINTED_EPOCHS}, {"max: ", " epochs", PRINTED_EPOCHS},
        {"max: ", " iters", PRINTED_STEPS}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        double value;
        bool whole;
        const char *p = strstr(line, all[i].before);
        const char *end = p && isdigit((unsigned char)p[strlen(all[i].before)])
                              ? printed_number_read(p + strlen(all[i].before), &value, &whole) : NULL;
        if (end && strncmp(end, all[i].behind, strlen(all[i].behind)) == 0) {
            tell(r, all[i].field, value, 9);
            return true;
        }
    }
    return false;
}

/* "[1,  2000] loss: 2.208": epoch and step. */
static bool read_bracket_pair(struct reading *r, const char *line)
{
    char *end;
    if (line[0] != '[' || !isdigit((unsigned char)*blanks(line + 1)))
        return false;
    const double epoch = strtod(blanks(line + 1), &end);
    if (*end != ',' || !isdigit((unsigned char)*blanks(end + 1)))
        return false;
    const double step = strtod(blanks(end + 1), &end);
    if (*end != ']')
        return false;
    read_text(r, end + 1, strlen(end + 1));
    if (!has(r, PRINTED_LOSS))
        return false;
    tell(r, PRINTED_EPOCH, epoch, 9);
    tell_counter(r, step, NAN, 9, true);
    return true;
}

/* A row "| name | value |" of a table: the bar in the middle separates them. */
static void open_row(char *line)
{
    char *first = strchr(line, '|'), *middle = first ? strchr(first + 1, '|') : NULL;
    char *last = middle ? strchr(middle + 1, '|') : NULL;
    if (!last || blanks(line) != first || *blanks(last + 1) != '\0')
        return;
    *middle = ':';
}

/* Lines that have the numbers of training and are none: means after the end, histories, lists of files. */
static bool summary(const char *line)
{
    static const char *const marks[] = {"train_runtime", "wandb:", "frame=", "Namespace(", "' reached",
                                        "was not in top"};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (strstr(line, marks[i]))
            return true;
    return false;
}

static int rank_of(const char *line)
{
    const char *p = strstr(line, "[rank");
    return p && isdigit((unsigned char)p[5]) ? atoi(p + 5) : -1;
}

static bool read_pipes_line(struct reading *r, const char *line)
{
    return read_pipes(r, line, strlen(line));
}

static void read_line(struct printed_progress *out, char *line, struct printed_table *table)
{
    static bool (*const shapes[])(struct reading *, const char *) = {
        read_bar, read_boosting, read_percent_row, read_percent, read_step_of_epoch, read_banner, read_pipes_line,
        read_bracket_pair};
    struct reading r = {.p.rank = rank_of(line)};
    bool read = printed_table_row(table, line, &r.p);
    if (summary(line) || (!read && printed_table_heads(table, line)))
        return;
    open_row(line);
    for (size_t i = 0; !read && i < ARRAY_LEN(shapes); i++)
        read = shapes[i](&r, line);
    if (!read)
        read_text(&r, line, strlen(line));
    r.p.of_epoch = r.p.of_epoch || r.step_of_epoch;
    printed_progress_merge(out, &r.p);
}

/* -- several lines -- */

void printed_progress_merge(struct printed_progress *out, const struct printed_progress *later)
{
    const unsigned speed = 1u << PRINTED_PER_S | 1u << PRINTED_S_PER_STEP | 1u << PRINTED_ETA_S;
    if (!later->told || (out->told && out->rank >= 0 && later->rank > out->rank))
        return;
    if (printed_progress_has(later, PRINTED_STEP)) {
        if (printed_progress_has(out, PRINTED_STEP))
            out->told &= ~(speed | 1u << PRINTED_STEPS);
        out->counts = later->counts;
        out->of_epoch = later->of_epoch;
    }
    if (later->told & (1u << PRINTED_PER_S | 1u << PRINTED_S_PER_STEP)) {
        out->told &= ~(1u << PRINTED_PER_S | 1u << PRINTED_S_PER_STEP);
        out->rate_counts = later->rate_counts;
    }
    for (int f = 0; f < PRINTED_FIELDS; f++)
        if (printed_progress_has(later, f))
            out->value[f] = later->value[f];
    out->told |= later->told;
    out->rank = later->rank;
}

void printed_progress_line(struct printed_progress *out, char *line, struct printed_table *table)
{
    *out = (struct printed_progress){.rank = -1};
    screen_line_clean(line);
    for (char *frame; (frame = screen_line_next(&line));)
        read_line(out, frame, table);
}
