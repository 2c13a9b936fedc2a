/* SPDX-License-Identifier: Apache-2.0 */
/* line_pattern.c - see line_pattern.h
 *
 * Pure: no clock, no I/O.
 * The pattern becomes steps (K. Thompson, 1968). A way is a place among the steps and the group that it has seen; for
 * each byte of the line a list has all ways that are open, at most one for each step, those that are preferred first.
 */
#include "agent/printed/line_pattern.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

enum { NESTED_MAX = 50, COUNT_MAX = 1000 };

/* Jumps are relative to their step, so that steps can be copied. */
enum op {
    STEP_SET,                           /* takes a byte of the set */
    STEP_SPLIT,                         /* continues at x; if that fails, at y */
    STEP_JUMP,                          /* continues at x */
    STEP_OPEN, STEP_CLOSE,              /* of the first group */
    STEP_BEGIN, STEP_END,               /* of the line */
    STEP_WORD, STEP_NO_WORD, STEP_WORD_BEGIN, STEP_WORD_END,
    STEP_MATCH
};

struct byte_set {
    uint32_t bits[8];
};

struct step {
    enum op         op;
    int             x, y;
    struct byte_set set;
};

struct way {
    int               at;
    struct line_group group;
};

struct ways {
    int        n;
    struct way way[LINE_PATTERN_STEPS + 1];
};

struct line_pattern {
    int         n, groups;
    struct step step[LINE_PATTERN_STEPS + 1];
    struct ways ways[2];
    int         seen[LINE_PATTERN_STEPS + 1];   /* the place in the line for which a step was last added, and 1 */
};

static void put(struct byte_set *s, unsigned char c)
{
    s->bits[c / 32] |= UINT32_C(1) << c % 32;
}

static bool has(const struct byte_set *s, unsigned char c)
{
    return s->bits[c / 32] >> c % 32 & 1;
}

static void invert(struct byte_set *s)
{
    for (int i = 0; i < 8; i++)
        s->bits[i] = ~s->bits[i];
}

/* --- from the pattern to steps -------------------------------------------------------------- */

struct parser {
    struct line_pattern *out;
    const char          *begin, *at;
    int                  nested;
    struct err          *err;
};

#define WRONG(p, ...) err_set((p)->err, ERR_USAGE, __VA_ARGS__)

static int place(const struct parser *p)
{
    return (int)(p->at - p->begin) + 1;
}

static int room(struct parser *p, int steps)
{
    return p->out->n + steps <= LINE_PATTERN_STEPS ? 0
           : WRONG(p, "it has more than %d steps at character %d; each count multiplies what it repeats: write smaller "
                   "counts, or * or +", LINE_PATTERN_STEPS, place(p));
}

static int add(struct parser *p, struct step step)
{
    if (room(p, 1) < 0)
        return -1;
    p->out->step[p->out->n++] = step;
    return 0;
}

static int insert(struct parser *p, int at, struct step step)
{
    if (add(p, step) < 0)
        return -1;
    struct step *s = p->out->step;
    memmove(s + at + 1, s + at, (size_t)(p->out->n - 1 - at) * sizeof(*s));
    s[at] = step;
    return 0;
}

/* From one character to another, as often as there are pairs. */
static void put_ranges(struct byte_set *s, const char *pairs)
{
    for (; *pairs; pairs += 2)
        for (int c = pairs[0]; c <= pairs[1]; c++)
            put(s, (unsigned char)c);
}

static const char digits[] = "09", spaces[] = "\t\r  ", words[] = "azAZ09__";

static bool is_word(int c)
{
    return isalnum(c) || c == '_';
}

/* [:NAME:], behind its first bracket. */
static int add_class(struct parser *p, struct byte_set *s)
{
    static const struct {
        const char *name, *pairs;
    } classes[] = {
        {":alpha:]", "azAZ"}, {":digit:]", digits}, {":alnum:]", "azAZ09"}, {":upper:]", "AZ"},
        {":lower:]", "az"}, {":space:]", spaces}, {":blank:]", "\t\t  "}, {":punct:]", "!/:@[`{~"},
        {":print:]", " ~"}, {":graph:]", "!~"}, {":cntrl:]", "\1\37\177\177"}, {":xdigit:]", "09afAF"},
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (strncmp(p->at, classes[i].name, strlen(classes[i].name)) != 0)
            continue;
        put_ranges(s, classes[i].pairs);
        p->at += strlen(classes[i].name);
        return 0;
    }
    return WRONG(p, "unknown class at character %d; known are [:digit:], [:alpha:], [:space:] and so on",
                 place(p));
}

/* Behind the '['. */
static int read_set(struct parser *p, struct byte_set *s)
{
    const bool not = *p->at == '^';
    p->at += not;
    for (const char *first = p->at; *p->at != ']' || p->at == first;) {
        if (!*p->at)
            return WRONG(p, "a [ has no ]");
        if (*p->at == '[' && p->at[1] && strchr(":.=", p->at[1])) {
            p->at++;
            if (add_class(p, s) < 0)
                return -1;
            continue;
        }
        const unsigned char from = (unsigned char)*p->at++;
        unsigned char to = from;
        if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
            to = (unsigned char)p->at[1];
            p->at += 2;
        }
        if (to < from)
            return WRONG(p, "the range before character %d ends before it begins", place(p));
        for (int c = from; c <= to; c++)
            put(s, (unsigned char)c);
    }
    p->at++;
    if (not)
        invert(s);
    return 0;
}

/* Behind the '\'. */
static int read_escape(struct parser *p, struct step *step)
{
    static const char tests[] = "bB<>";
    const char c = *p->at;
    if (!c)
        return WRONG(p, "it ends with \\; write \\\\ for a backslash");
    if (c >= '1' && c <= '9')
        return WRONG(p, "\\%c at character %d is a back reference, which can take minutes for one line; write out what "
                     "it repeats", c, place(p) - 1);
    p->at++;
    if (strchr(tests, c)) {
        step->op = (enum op)(STEP_WORD + (int)(strchr(tests, c) - tests));
        return 0;
    }
    const int low = tolower((unsigned char)c);
    if (low != 'd' && low != 'w' && low != 's') {
        put(&step->set, (unsigned char)c);
        return 0;
    }
    put_ranges(&step->set, low == 'd' ? digits : low == 's' ? spaces : words);
    if (low != c)
        invert(&step->set);
    return 0;
}

static int read_choice(struct parser *p);

/* Behind the '('. */
static int read_group(struct parser *p)
{
    const bool first = p->out->groups++ == 0;
    const int from = place(p) - 1;
    if (p->nested++ == NESTED_MAX)
        return WRONG(p, "more than %d groups are nested at character %d", NESTED_MAX, from);
    if ((first && add(p, (struct step){.op = STEP_OPEN}) < 0) || read_choice(p) < 0)
        return -1;
    if (*p->at != ')')
        return WRONG(p, "the ( at character %d is not closed", from);
    p->at++;
    p->nested--;
    return first ? add(p, (struct step){.op = STEP_CLOSE}) : 0;
}

static int read_one(struct parser *p)
{
    struct step step = {.op = STEP_SET};
    const char c = *p->at++;
    switch (c) {
    case '(':
        return read_group(p);
    case '[':
        return read_set(p, &step.set) < 0 ? -1 : add(p, step);
    case '\\':
        return read_escape(p, &step) < 0 ? -1 : add(p, step);
    case '^':
    case '$':
        step.op = c == '^' ? STEP_BEGIN : STEP_END;
        return add(p, step);
    case '.':
        invert(&step.set);
        return add(p, step);
    case '*':
    case '+':
    case '?':
    case '{':
        return WRONG(p, "the %c at character %d has nothing to repeat; write \\%c for the character", c,
                     place(p) - 1, c);
    default:
        put(&step.set, (unsigned char)c);
        return add(p, step);
    }
}

/* "{3}", "{3,}", "{,5}" or "{3,5}", behind the brace; *most: -1, no limit. */
static int read_counts(struct parser *p, int *least, int *most)
{
    char *end;
    const int from = place(p) - 1;
    const long a = strtol(p->at, &end, 10);
    const bool one = isdigit((unsigned char)*p->at);
    long b = a;
    bool two = false;
    if (*end == ',') {
        p->at = end + 1;
        two = isdigit((unsigned char)*p->at);
        b = two ? strtol(p->at, &end, 10) : -1;
        end = two ? end : (char *)(uintptr_t)p->at;
    }
    if (*end != '}' || (!one && !two))
        return WRONG(p, "the { at character %d starts no count such as {2,5}; write \\{ for the character", from);
    if (a < 0 || a > COUNT_MAX || b > COUNT_MAX || (b >= 0 && b < a))
        return WRONG(p, "the count at character %d is not one from 0 to %d; write * or + for more", from, COUNT_MAX);
    p->at = end + 1;
    *least = one ? (int)a : 0;
    *most = (int)b;
    return 0;
}

/* What was read as steps from `start` on, that often. */
static int repeat(struct parser *p, int start, int least, int most)
{
    struct step *s = p->out->step;
    const int n = p->out->n - start, more = most < 0 ? 0 : most - least;
    const long steps = (long)least * n + (most < 0 ? n + 2 : (long)more * (n + 1));
    struct step one[LINE_PATTERN_STEPS];
    memcpy(one, s + start, (size_t)n * sizeof(*s));
    p->out->n = start;
    if (room(p, steps > LINE_PATTERN_STEPS ? LINE_PATTERN_STEPS + 1 : (int)steps) < 0)
        return -1;
    for (int i = 0; i < least + more + (most < 0); i++) {
        const int behind = most < 0 ? n + 2 : (least + more - i) * (n + 1);
        if (i >= least)
            s[p->out->n++] = (struct step){.op = STEP_SPLIT, .x = 1, .y = behind};
        memcpy(s + p->out->n, one, (size_t)n * sizeof(*s));
        p->out->n += n;
    }
    if (most < 0)
        s[p->out->n++] = (struct step){.op = STEP_JUMP, .x = -(n + 1)};
    return 0;
}

static int read_repeated(struct parser *p)
{
    const int start = p->out->n;
    if (read_one(p) < 0)
        return -1;
    while (*p->at && strchr("*+?{", *p->at)) {
        const char c = *p->at++;
        int least = c == '+', most = c == '?' ? 1 : -1;
        if ((c == '{' && read_counts(p, &least, &most) < 0) || repeat(p, start, least, most) < 0)
            return -1;
    }
    return 0;
}

static int read_choice(struct parser *p)
{
    int last_jump = -1, start = p->out->n;
    for (;;) {
        while (*p->at && *p->at != '|' && (*p->at != ')' || p->nested == 0))
            if (read_repeated(p) < 0)
                return -1;
        if (*p->at != '|')
            break;
        p->at++;
        if (insert(p, start, (struct step){.op = STEP_SPLIT, .x = 1, .y = p->out->n - start + 2}) < 0 ||
            add(p, (struct step){.op = STEP_JUMP, .x = last_jump}) < 0)
            return -1;
        last_jump = p->out->n - 1;
        start = p->out->n;
    }
    for (int at = last_jump, before; at >= 0; at = before) {    /* each was a link to the one before */
        before = p->out->step[at].x;
        p->out->step[at].x = p->out->n - at;
    }
    return 0;
}

int line_pattern_create(struct line_pattern **out, const char *pattern, struct err *err)
{
    struct line_pattern *made = calloc(1, sizeof(*made));
    struct parser p = {.out = made, .begin = pattern, .at = pattern, .err = err};
    if (!made)
        return err_set(err, ERR_MEMORY, "no memory for a pattern");
    if (read_choice(&p) < 0) {
        free(made);
        return -1;
    }
    made->step[made->n++] = (struct step){.op = STEP_MATCH};
    *out = made;
    return 0;
}

void line_pattern_destroy(struct line_pattern *p)
{
    free(p);
}

int line_pattern_groups(const struct line_pattern *p)
{
    return p->groups;
}

/* --- matching --------------------------------------------------------------------------------- */

static bool holds(enum op op, const char *line, int at)
{
    const bool before = at > 0 && is_word((unsigned char)line[at - 1]), after = is_word((unsigned char)line[at]);
    switch (op) {
    case STEP_BEGIN:
        return at == 0;
    case STEP_END:
        return !line[at];
    case STEP_WORD:
        return before != after;
    case STEP_NO_WORD:
        return before == after;
    case STEP_WORD_BEGIN:
        return !before && after;
    case STEP_WORD_END:
        return before && !after;
    default:
        return true;
    }
}

/* Adds the ways that go on from this one without a byte, in the order of preference. */
static void follow(struct line_pattern *p, struct ways *to, struct way first, const char *line, int at)
{
    struct way open[LINE_PATTERN_STEPS + 2];     /* each step that was not seen leaves one more at most */
    int n = 0;
    open[n++] = first;
    while (n > 0) {
        struct way w = open[--n];
        const struct step *s = &p->step[w.at];
        if (p->seen[w.at] == at + 1)
            continue;
        p->seen[w.at] = at + 1;
        if (s->op == STEP_SET || s->op == STEP_MATCH) {
            to->way[to->n++] = w;
            continue;
        }
        if (!holds(s->op, line, at))
            continue;
        if (s->op == STEP_SPLIT)
            open[n++] = (struct way){w.at + s->y, w.group};
        if (s->op == STEP_OPEN)
            w.group = (struct line_group){at, -1};
        if (s->op == STEP_CLOSE)
            w.group.end = at;
        w.at += s->op == STEP_SPLIT || s->op == STEP_JUMP ? s->x : 1;
        open[n++] = w;
    }
}

/* At most places no way is open, and none begins. */
static bool may_begin(const struct line_pattern *p, char c)
{
    return p->step[0].op != STEP_SET || has(&p->step[0].set, (unsigned char)c);
}

bool line_pattern_find(struct line_pattern *p, const char *line, struct line_group *group)
{
    struct ways *now = &p->ways[0], *next = &p->ways[1];
    bool found = false;
    memset(p->seen, 0, sizeof(p->seen));
    now->n = 0;
    for (int at = 0;; at++) {
        if (!found && may_begin(p, line[at]))
            follow(p, now, (struct way){0, {-1, -1}}, line, at);
        next->n = 0;
        for (int i = 0; i < now->n; i++) {
            const struct way *w = &now->way[i];
            if (p->step[w->at].op == STEP_MATCH) {
                found = true;
                *group = w->group;
                break;  /* those behind are not preferred */
            }
            if (line[at] && has(&p->step[w->at].set, (unsigned char)line[at]))
                follow(p, next, (struct way){w->at + 1, w->group}, line, at + 1);
        }
        if (!line[at] || (found && next->n == 0))
            return found;
        struct ways *old = now;
        now = next;
        next = old;
    }
}
