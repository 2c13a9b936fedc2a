/* SPDX-License-Identifier: Apache-2.0 */
/* traceback.c - see traceback.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/traceback.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char head[] = "Traceback (most recent call last)";

struct scan {
    struct traceback *out;
    int  n;
    enum traceback_link link; /* said by the line before */
    bool aside;
    bool stacks;              /* within "(most recent call first)": no traceback */
    bool group;               /* the newest one is an exception group, or a member of it */
};

/* --- prefixes --------------------------------------------------------------------------- */

static struct text_line before(struct text_line line, const char *at)
{
    return (struct text_line){line.at, (size_t)(at - line.at)};
}

static struct text_line behind(struct text_line line, const char *at)
{
    return (struct text_line){at, line.n - (size_t)(at - line.at)};
}

static bool ends_with(struct text_line line, const char *text)
{
    const size_t n = strlen(text);
    return line.n >= n && memcmp(line.at + line.n - n, text, n) == 0;
}

/* The prefix of the lines that follow a head; it may differ from what stands before the head. */
static void set_prefix(struct traceback *t, struct text_line said)
{
    static const char group[] = "Exception Group ", worker[] = "Original ", table[] = "traceback : ";
    if (ends_with(said, worker))
        said.n -= strlen(worker);
    if (ends_with(said, table))
        said.n = (size_t)(text_line_trim(said).at - said.at);
    if (ends_with(said, group))
        said.n -= strlen(group);
    snprintf(t->prefix, sizeof(t->prefix), "%.*s", (int)said.n, said.at);
    char *plus = strchr(t->prefix, '+');
    if (plus)
        *plus = '|';
}

/* Takes the prefix off; false: a line of somebody else.  Digits of a time stamp may differ. */
static bool without_prefix(const struct traceback *t, struct text_line line, struct text_line *rest)
{
    const char *p = t->prefix;
    const bool times = strchr(p, ':') && isdigit((unsigned char)strchr(p, ':')[1]);
    size_t n = strlen(p);
    if (line.n < n) { /* an empty line has lost its blanks */
        while (n > line.n && p[n - 1] == ' ')
            n--;
        if (line.n < n)
            return false;
    }
    for (size_t i = 0; i < n; i++)
        if (p[i] != line.at[i] &&
            !(times && isdigit((unsigned char)p[i]) && isdigit((unsigned char)line.at[i])))
            return false;
    *rest = (struct text_line){line.at + n, line.n - n};
    return n > 0 || !text_line_begins(line, "[rank");
}

/* --- one traceback ---------------------------------------------------------------------- */

/* "boom" in "RuntimeError: boom" continues on the next line where it ends in a colon or is empty. */
static bool continues(const char *text)
{
    const size_t n = strlen(text);
    return n && (text[n - 1] == ':' || strstr(text, "validation error")) && n + 40 < TRACEBACK_TEXT;
}

static void add_text(struct traceback *t, struct text_line line)
{
    const size_t n = strlen(t->text);
    line = text_line_trim(line);
    snprintf(t->text + n, sizeof(t->text) - n, "%s%.*s", n ? " " : "", (int)line.n, line.at);
}

static void take_message(struct traceback *t, const char *text)
{
    struct text_line line, rest;
    for (int lines = 0; lines < 3 && continues(t->text);) {
        const char *next = text;
        if (!text_line_next(&next, &line) || text_line_find(line, head))
            return;
        text = next;
        if (!without_prefix(t, line, &rest) || !rest.n)
            continue;
        if (text_line_begins(rest, "\"\"\"") || text_line_begins(rest, "-- ") || text_line_begins(rest, "The above"))
            return;
        add_text(t, rest);
        t->end = text;
        lines++;
    }
}

/* The exception: `__main__.` says nothing to the one who wrote it. */
static void take_exception(struct traceback *t, struct text_line line, const char *text)
{
    static const char main_module[] = "__main__.";
    if (text_line_begins(line, main_module)) {
        line.at += strlen(main_module);
        line.n -= strlen(main_module);
    }
    t->text[0] = '\0';
    add_text(t, line);
    t->end = text;
    take_message(t, text);
}

static void take_frame(struct traceback *t, struct text_line line)
{
    struct text_line file, number;
    if (source_place_frame(line, &file, &number))
        source_place_take(&t->place, file, number);
}

/* "torch.OutOfMemoryError: CUDA ...", "KeyboardInterrupt", but not "wandb: synced" or "INFO: saved". */
static bool is_exception(struct text_line line, bool strict)
{
    static const char *const endings[] = {"Error", "Exception", "Interrupt", "Iteration", "Exit", "Warning", "Group"};
    size_t n = 0;
    bool dot = false, low = false;
    for (; n < line.n && (isalnum((unsigned char)line.at[n]) || line.at[n] == '.' || line.at[n] == '_'); n++) {
        dot = dot || line.at[n] == '.';
        low = low || islower((unsigned char)line.at[n]);
    }
    if (n < 3 || !low || line.at[n - 1] == '.' || isdigit((unsigned char)line.at[0]) ||
        (n < line.n && line.at[n] != ':'))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++)
        if (ends_with((struct text_line){line.at, n}, endings[i]))
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
        take_frame(t, rest);
    }
    return false;
}

/* --- the box of rich -------------------------------------------------------------------- */

/* "| /home/u/train.py:41 in main      |"; a long path is broken before its last part. */
static void take_rich_frame(struct traceback *t, struct text_line line, struct text_line *path)
{
    line.n -= line.n && line.at[line.n - 1] == '|';
    line.at += line.n != 0;
    line.n -= line.n != 0;
    line = text_line_trim(line);
    const char *in = text_line_find(line, " in ");
    const char *colon = in;
    while (colon && colon > line.at && *colon != ':')
        colon--;
    const bool rest_of_path = path->n > 0;
    if (colon && colon + 1 < in && isdigit((unsigned char)colon[1]) && (rest_of_path || line.at[0] == '/')) {
        const struct text_line number = {colon + 1, (size_t)(in - colon) - 1};
        struct source_place whole = {0};
        if (rest_of_path) /* is the directory the user's? */
            source_place_take(&whole, *path, number);
        if (!rest_of_path || whole.text[0])
            source_place_take(&t->place, before(line, colon), number);
    }
    *path = line.at[0] == '/' && !in ? line : (struct text_line){line.at, 0};
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
    if (s->n == TRACEBACKS) {
        memmove(s->out, s->out + 1, (TRACEBACKS - 1) * sizeof(*s->out));
        s->n--;
    }
    s->out[s->n++] = *t;
    s->link = TRACEBACK_ALONE;
    s->aside = false;
}

/* What a line that is not part of a traceback says about the next one. */
static void listen(struct scan *s, struct text_line line)
{
    static const char *const aside[] = {"Exception ignored", "Exception in thread", "Error in atexit",
                                        "--- Logging error ---", "Error in sys.excepthook"};
    if (text_line_find(line, "During handling of the above exception"))
        s->link = TRACEBACK_DURING;
    else if (text_line_find(line, "The above exception was the direct cause"))
        s->link = TRACEBACK_CAUSED;
    else if (text_line_find(line, "terminated with the following error"))
        s->link = TRACEBACK_ORIGINAL;
    for (size_t i = 0; i < ARRAY_LEN(aside); i++)
        s->aside = s->aside || text_line_find(line, aside[i]);
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

static void begin(struct scan *s, struct text_line line, const char *at, const char *rest)
{
    struct traceback t = {.link = s->link, .aside = s->aside};
    const struct text_line said = before(line, at);
    const bool group = text_line_find(said, "Exception Group ");
    const bool rich = said.n && said.at[0] == '#';
    if (ends_with(said, "Original "))
        t.link = TRACEBACK_ORIGINAL;
    if (!rich)
        set_prefix(&t, said);
    if (is_member(s, &t))
        t.link = TRACEBACK_MEMBER;
    if (rich ? read_rich(&t, rest) : read_plain(&t, rest, false)) {
        add(s, &t);
        s->group = group || t.link == TRACEBACK_MEMBER;
    }
}

/* Frames without a head: of a SyntaxError, or the head was cut off. */
static void begin_headless(struct scan *s, struct text_line line, const char *at, const char *text)
{
    struct traceback t = {.link = s->link, .aside = s->aside};
    struct text_line said = before(line, at);
    said.n -= ends_with(said, "  ") ? 2 : 0;
    set_prefix(&t, said);
    if (read_plain(&t, text, true))
        add(s, &t);
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
    struct text_line line, file, number;
    while (*text) {
        const char *begins = text, *at;
        const int had = s.n;
        text_line_next(&text, &line);
        const char *frame = is_covered(&s, line) ? NULL : text_line_find(line, "  File \"");
        if ((at = text_line_find(line, head)))
            begin(&s, line, at, text);
        else if (frame && !s.stacks && source_place_frame(behind(line, frame), &file, &number))
            begin_headless(&s, line, frame + 2, begins);
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

bool traceback_is(const struct traceback *t, const char *name)
{
    const size_t n = traceback_name(t), want = strlen(name);
    return n >= want && memcmp(t->text + n - want, name, want) == 0 && (n == want || t->text[n - want - 1] == '.');
}
