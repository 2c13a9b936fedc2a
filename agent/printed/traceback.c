/* SPDX-License-Identifier: Apache-2.0 */
/* traceback.c - see traceback.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/traceback.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char head[] = "Traceback (most recent call last)";

struct scan {
    struct traceback *out;
    int  n;
    enum traceback_link link; /* said by the line before */
    bool aside;
    bool stacks;              /* within "(most recent call first)": no traceback */
    bool group;               /* the newest one is an exception group, or a member of it */
};

/* --- places ----------------------------------------------------------------------------- */

/* The last part of a path; the last two, where one alone says little: "models/__init__.py". */
static struct text_line base_name(struct text_line file)
{
    size_t at = file.n;
    while (at && file.at[at - 1] != '/')
        at--;
    if (at > 1 && text_line_begins(text_line_from(file, file.at + at), "__"))
        for (at--; at && file.at[at - 1] != '/';)
            at--;
    return text_line_from(file, file.at + at);
}

/* Keeps the place if it is the user's; later ones replace earlier ones. */
static void take_place(struct source_place *p, struct text_line file, struct text_line number)
{
    static const char *const foreign[] = {"/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python",
                                          "/torch/", "<frozen ", "<__array_function__", "<decorator", "/bin/torchrun",
                                          "/bin/accelerate", "/bin/deepspeed", "/multiprocessing/", NULL};
    const bool code = text_line_begins(file, "<");
    if (text_line_has(file, foreign) || (code && p->file))
        return;
    const struct text_line name = base_name(file);
    p->file = !code;
    snprintf(p->text, sizeof(p->text), "%.*s:%.*s", (int)(name.n < 48 ? name.n : 48), name.at,
             (int)(number.n < 9 ? number.n : 9), number.at);
}

bool traceback_frame(struct source_place *p, struct text_line line)
{
    static const char begin[] = "File \"", middle[] = "\", line ";
    line = text_line_trim(line);
    const char *end = text_line_begins(line, begin) ? text_line_find(line, middle) : NULL;
    const char *number = end ? end + strlen(middle) : "";
    const size_t digits = strspn(number, "0123456789");
    if (digits)
        take_place(p, text_line_before(text_line_from(line, line.at + strlen(begin)), end),
                   (struct text_line){number, digits});
    return digits > 0;
}

/* --- prefixes --------------------------------------------------------------------------- */

static struct text_line without_ending(struct text_line said, const char *ending)
{
    said.n -= text_line_ends(said, ending) ? strlen(ending) : 0;
    return said;
}

/* The prefix of the lines that follow a head; it may differ from what stands before the head. */
static void set_prefix(struct traceback *t, struct text_line said)
{
    said = without_ending(said, "Original ");
    if (text_line_ends(said, "traceback : "))
        said.n = (size_t)(text_line_trim(said).at - said.at);
    said = without_ending(said, "Exception Group ");
    snprintf(t->prefix, sizeof(t->prefix), "%.*s", (int)said.n, said.at);
    char *plus = strchr(t->prefix, '+');
    if (plus)
        *plus = '|';
}

/* Takes the prefix off; false: a line of somebody else.  Digits of a time stamp may differ. */
static bool without_prefix(const struct traceback *t, struct text_line line, struct text_line *rest)
{
    const char *p = t->prefix, *colon = strchr(p, ':');
    const bool times = colon && isdigit((unsigned char)colon[1]);
    size_t n = strlen(p);
    while (n > line.n && p[n - 1] == ' ') /* an empty line has lost its blanks */
        n--;
    if (n > line.n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (p[i] != line.at[i] && !(times && isdigit((unsigned char)p[i]) && isdigit((unsigned char)line.at[i])))
            return false;
    *rest = text_line_from(line, line.at + n);
    return n > 0 || !text_line_begins(line, "[rank");
}

/* --- one traceback ---------------------------------------------------------------------- */

static void add_text(struct traceback *t, struct text_line line, const char *end)
{
    const size_t n = strlen(t->text);
    line = text_line_trim(line);
    snprintf(t->text + n, sizeof(t->text) - n, "%s%.*s", n ? " " : "", (int)line.n, line.at);
    t->end = end;
}

/* "boom" in "RuntimeError: boom" continues on the next line where it ends in a colon or is empty. */
static bool continues(const char *text)
{
    const size_t n = strlen(text);
    return n && (text[n - 1] == ':' || strstr(text, "validation error")) && n + 40 < TRACEBACK_TEXT;
}

/* The exception, of up to four lines: `__main__.` says nothing to the one who wrote it. */
static void take_exception(struct traceback *t, struct text_line line, const char *text)
{
    struct text_line rest;
    add_text(t, text_line_begins(line, "__main__.") ? text_line_from(line, line.at + 9) : line, text);
    for (int lines = 0; lines < 3 && continues(t->text) && text_line_next(&text, &line);) {
        if (text_line_find(line, head))
            return;
        if (!without_prefix(t, line, &rest) || !rest.n)
            continue;
        if (text_line_begins(rest, "\"\"\"") || text_line_begins(rest, "-- ") || text_line_begins(rest, "The above"))
            return;
        add_text(t, rest, text);
        lines++;
    }
}

/* "torch.OutOfMemoryError: CUDA ...", "KeyboardInterrupt", but not "wandb: synced" or "INFO: saved". */
static bool is_exception(struct text_line line, bool strict)
{
    static const char *const endings[] = {"Error", "Exception", "Interrupt", "Iteration", "Exit", "Warning", "Group"};
    struct text_line name = {line.at, 0};
    bool dot = false, low = false;
    for (; name.n < line.n; name.n++) {
        const char c = line.at[name.n];
        if (!isalnum((unsigned char)c) && c != '.' && c != '_')
            break;
        dot = dot || c == '.';
        low = low || islower((unsigned char)c);
    }
    if (name.n < 3 || !low || text_line_ends(name, ".") || isdigit((unsigned char)line.at[0]) ||
        (name.n < line.n && line.at[name.n] != ':'))
        return false;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        if (text_line_ends(name, endings[i]))
            return true;
    return !strict && (dot || isupper((unsigned char)line.at[0]));
}

/* Reads frames and exception from `text` on; false: the exception is missing.  Lines of other programs between them
 * are left out. */
static bool read_plain(struct traceback *t, const char *text, bool strict)
{
    struct text_line line, rest;
    while (text_line_next(&text, &line)) {
        if (!without_prefix(t, line, &rest) || !rest.n)
            continue;
        if (text_line_find(rest, head))
            return false;
        if (is_exception(rest, strict)) {
            take_exception(t, rest, text);
            return true;
        }
        traceback_frame(&t->place, rest);
    }
    return false;
}

/* In the box of rich: "| /home/u/train.py:41 in main      |"; a long path is broken before its last part. */
static void take_rich_frame(struct traceback *t, struct text_line line, struct text_line *path)
{
    line = text_line_trim(without_ending(text_line_from(line, line.at + 1), "|"));
    const char *in = text_line_find(line, " in "), *colon = in;
    while (colon && colon > line.at && *colon != ':')
        colon--;
    const bool absolute = text_line_begins(line, "/"), broken = path->n > 0;
    if (colon && colon + 1 < in && isdigit((unsigned char)colon[1]) && (broken || absolute)) {
        const struct text_line number = {colon + 1, (size_t)(in - colon) - 1};
        struct source_place whole = {0};
        take_place(&whole, broken ? *path : line, number); /* is the directory the user's? */
        if (!broken || whole.text[0])
            take_place(&t->place, text_line_before(line, colon), number);
    }
    *path = absolute && !in ? line : (struct text_line){line.at, 0};
}

static bool read_rich(struct traceback *t, const char *text)
{
    struct text_line line, path = {NULL, 0};
    bool inside = true;
    while (text_line_next(&text, &line)) {
        if (inside && text_line_begins(line, "|"))
            take_rich_frame(t, line, &path);
        else if (inside && text_line_begins(line, "#"))
            inside = false;
        else if (!inside && line.n && line.at[0] != ' ') {
            take_exception(t, line, text);
            return true;
        }
    }
    return false;
}

/* --- all of them ------------------------------------------------------------------------ */

static void add(struct scan *s, const struct traceback *t)
{
    if (s->n == TRACEBACKS)
        memmove(s->out, s->out + 1, (size_t)--s->n * sizeof(*s->out));
    s->out[s->n++] = *t;
    s->link = TRACEBACK_ALONE;
    s->aside = false;
}

/* What a line that is not part of a traceback says about the next one. */
static void listen(struct scan *s, struct text_line line)
{
    static const char *const aside[] = {"Exception ignored", "Exception in thread", "Error in atexit",
                                        "--- Logging error ---", "Error in sys.excepthook", NULL};
    if (text_line_find(line, "During handling of the above exception"))
        s->link = TRACEBACK_DURING;
    else if (text_line_find(line, "The above exception was the direct cause"))
        s->link = TRACEBACK_CAUSED;
    else if (text_line_find(line, "terminated with the following error"))
        s->link = TRACEBACK_ORIGINAL;
    s->aside = s->aside || text_line_has(line, aside);
    if (text_line_find(line, "(most recent call first)"))
        s->stacks = true;
    else if (line.n && line.at[0] != ' ')
        s->stacks = false;
}

static bool is_member(const struct scan *s, const struct traceback *t)
{
    if (!s->n || !s->group || !strchr(t->prefix, '|'))
        return false;
    const struct traceback *before = &s->out[s->n - 1];
    const size_t n = strlen(t->prefix), last = strlen(before->prefix);
    return n > last || (n == last && before->link == TRACEBACK_MEMBER);
}

/* `headless`: there are only frames; it is a SyntaxError, or the head was cut off. */
static void begin(struct scan *s, struct text_line said, const char *rest, bool headless)
{
    struct traceback t = {.link = s->link, .aside = s->aside};
    const bool rich = text_line_begins(said, "#");
    if (text_line_ends(said, "Original "))
        t.link = TRACEBACK_ORIGINAL;
    if (!rich)
        set_prefix(&t, said);
    if (is_member(s, &t))
        t.link = TRACEBACK_MEMBER;
    if (rich ? read_rich(&t, rest) : read_plain(&t, rest, headless)) {
        add(s, &t);
        s->group = text_line_find(said, "Exception Group ") || t.link == TRACEBACK_MEMBER;
    }
}

/* An exception whose frames somebody has left out. */
static void add_bare(struct scan *s, struct text_line line, const char *text)
{
    struct traceback t = {.link = s->link};
    take_exception(&t, line, text);
    add(s, &t);
}

/* Is the line part of a traceback that has been read? */
static bool is_covered(const struct scan *s, struct text_line line)
{
    struct text_line rest;
    for (int i = 0; i < s->n; i++)
        if (line.at < s->out[i].end && without_prefix(&s->out[i], line, &rest))
            return true;
    return false;
}

int traceback_find(struct traceback out[TRACEBACKS], const char *text)
{
    struct scan s = {.out = out};
    struct text_line line;
    while (*text) {
        const char *begins = text;
        const int had = s.n;
        text_line_next(&text, &line);
        const char *at = text_line_find(line, head), *frame = text_line_find(line, "  File \"");
        struct source_place place = {0};
        if (at)
            begin(&s, text_line_before(line, at), text, false);
        else if (frame && !s.stacks && !is_covered(&s, line) && traceback_frame(&place, text_line_from(line, frame)))
            begin(&s, text_line_before(line, frame), begins, true);
        else if (s.link != TRACEBACK_ALONE && is_exception(line, true))
            add_bare(&s, line, text);
        else
            listen(&s, line);
        if (s.n > had && !s.out[s.n - 1].prefix[0] && s.out[s.n - 1].end > text)
            text = s.out[s.n - 1].end;
    }
    return s.n;
}

size_t traceback_name(const struct traceback *t)
{
    size_t n = 0;
    while (isalnum((unsigned char)t->text[n]) || t->text[n] == '.' || t->text[n] == '_')
        n++;
    return n;
}

bool traceback_is(const struct traceback *t, const char *const *names)
{
    const struct text_line name = {t->text, traceback_name(t)};
    for (; *names; names++)
        if (text_line_ends(name, *names) &&
            (name.n == strlen(*names) || t->text[name.n - strlen(*names) - 1] == '.'))
            return true;
    return false;
}
