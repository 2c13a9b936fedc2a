/* SPDX-License-Identifier: Apache-2.0 */
/* crash_message.c - see crash_message.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/crash_message.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/text_append.h"
#include "engine/contract/utf8.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char thrown[] = "terminate called after throwing an instance of '", fatal[] = "Fatal Python error: ";

/* What is shown begins with `begin`, or at the start of the line; `more`: the line behind it belongs to it. */
static const struct {
    const char *begin;
    bool whole, more;
} rows[] = {
    {"*** stack smashing detected ***", false, false},
    {"*** buffer overflow detected ***", false, false},
    {"double free or corruption", false, false},
    {"corrupted size vs. prev_size", false, false},
    {"corrupted double-linked list", false, false},
    {"free(): invalid", false, false},
    {"free(): double free", false, false},
    {"malloc(): ", false, false},
    {"realloc(): ", false, false},
    {"munmap_chunk(): ", false, false},
    {"terminate called without an active exception", false, false},
    {"terminate called recursively", false, false},
    {"libc++abi: ", true, false},
    {"AddressSanitizer: ", false, false},
    {"LeakSanitizer: ", false, false},
    {"ThreadSanitizer: ", false, false},
    {": runtime error: ", true, false},
    {": Assertion `", true, false},
    {"Exception in thread \"", true, false},
    {"ERROR: LoadError: ", false, false},
    {"fatal error: unexpected signal", false, false},
};

static void set(struct crash_message *out, const char *at, struct text_line first, struct text_line second)
{
    first = text_line_trim(first);
    second = text_line_trim(second);
    out->at = at;
    snprintf(out->text, sizeof(out->text), "%.*s%s%.*s", (int)utf8_fit(first.at, first.n, 200), first.at,
             second.n ? " " : "", (int)utf8_fit(second.at, second.n, 110), second.n ? second.at : "");
}

/* "terminate called after throwing an instance of 'T'", and on the next line "what():  text". */
static bool take_thrown(struct crash_message *out, struct text_line line, const char *next)
{
    static const char what[] = "what():";
    const char *at = text_line_find(line, thrown);
    struct text_line type, said = {NULL, 0};
    if (!at)
        return false;
    type.at = at + strlen(thrown);
    const char *end = memchr(type.at, '\'', line.n - (size_t)(type.at - line.at));
    type.n = (size_t)((end ? end : line.at + line.n) - type.at);
    const char *found = text_line_next(&next, &said) ? text_line_find(said, what) : NULL;
    if (found) {
        const char *text = found + strlen(what);
        said = text_line_trim((struct text_line){text, said.n - (size_t)(text - said.at)});
    }
    set(out, at, type, (struct text_line){NULL, 0});
    if (found)
        text_append(out->text, sizeof(out->text), ": %.*s", (int)said.n, said.at);
    return true;
}

/* The frames of the thread that crashed, innermost first. */
static void take_frames(struct crash_message *out, const char *text)
{
    struct source_place first = {0};
    struct text_line line, file, number;
    bool current = false;
    while (!first.file && text_line_next(&text, &line)) {
        if (text_line_find(line, "(most recent call first)"))
            current = text_line_find(line, "Current thread") || text_line_begins(line, "Stack ");
        else if (current && source_place_frame(line, &file, &number))
            source_place_take(&first, file, number);
        else if (current && line.n)
            break;
    }
    snprintf(out->place, sizeof(out->place), "%s", first.text);
}

static bool take_fatal(struct crash_message *out, struct text_line line, const char *next)
{
    const char *at = text_line_find(line, fatal);
    if (!at)
        return false;
    set(out, at, (struct text_line){at, line.n - (size_t)(at - line.at)}, (struct text_line){NULL, 0});
    take_frames(out, next);
    return true;
}

/* "thread 'main' panicked at src/main.rs:4:5:" with the message behind it; "panic: text" of Go. */
static bool take_panic(struct crash_message *out, struct text_line line, const char *next)
{
    struct text_line more = {NULL, 0};
    const bool rust = text_line_begins(line, "thread '") && text_line_find(line, "panicked at");
    if (!rust && !text_line_begins(line, "panic: "))
        return false;
    if (rust && line.at[line.n - 1] == ':')
        text_line_next(&next, &more);
    set(out, line.at, line, more);
    return true;
}

static bool take_row(struct crash_message *out, struct text_line line)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *at = text_line_find(line, rows[i].begin);
        if (!at)
            continue;
        at = rows[i].whole ? line.at : at;
        set(out, at, (struct text_line){at, line.n - (size_t)(at - line.at)}, (struct text_line){NULL, 0});
        return true;
    }
    return false;
}

/* The fault handler speaks after whatever brought it about, and knows the line. */
static void add_fatal(struct crash_message *out, const char *text)
{
    struct crash_message later = {0};
    struct text_line line;
    while (text_line_next(&text, &line))
        if (take_fatal(&later, line, text))
            break;
    snprintf(out->place, sizeof(out->place), "%s", later.place);
}

void crash_message_find(struct crash_message *out, const char *text)
{
    struct text_line line;
    *out = (struct crash_message){0};
    while (text_line_next(&text, &line))
        if (take_thrown(out, line, text) || take_fatal(out, line, text) || take_panic(out, line, text) ||
            take_row(out, line)) {
            if (!out->place[0])
                add_fatal(out, text);
            return;
        }
}

/* --- the shell -------------------------------------------------------------------------- */

/* "/bin/bash: line 3: MESSAGE" or "sh: 3: MESSAGE": the number, or 0. */
static int shell_line(struct text_line line, struct text_line *message)
{
    size_t at = 0;
    while (at < line.n && line.at[at] != ':' && line.at[at] != ' ')
        at++;
    const struct text_line name = {line.at, at};
    if (at < 2 || at + 3 > line.n || line.at[at] != ':' || line.at[at - 1] != 'h' || line.at[at - 2] != 's')
        return 0;
    for (at = name.n + 1; at < line.n && line.at[at] == ' ';)
        at++;
    struct text_line rest = {line.at + at, line.n - at};
    if (text_line_begins(rest, "line "))
        rest = (struct text_line){rest.at + 5, rest.n - 5};
    char *end;
    const long n = rest.n && isdigit((unsigned char)rest.at[0]) ? strtol(rest.at, &end, 10) : 0;
    if (n < 1 || n > 100000 || *end != ':')
        return 0;
    *message = text_line_trim((struct text_line){end + 1, rest.n - (size_t)(end + 1 - rest.at)});
    return (int)n;
}

static struct text_line nth_line(const char *command, int n)
{
    struct text_line line = {NULL, 0};
    for (int i = 0; command && i < n; i++)
        if (!text_line_next(&command, &line))
            return (struct text_line){NULL, 0};
    return text_line_trim(line);
}

/* "4711 Killed      python3 x.py": one blank where the shell aligns. */
static void squeeze(char *text)
{
    char *out = text;
    for (const char *p = text; *p; p++)
        if (*p != ' ' || p[1] != ' ')
            *out++ = *p;
    *out = '\0';
}

void crash_message_shell(struct crash_message *out, const char *text, const char *command)
{
    struct text_line line, said;
    *out = (struct crash_message){0};
    while (text_line_next(&text, &line)) {
        const int n = shell_line(line, &said);
        if (!n || text_line_begins(said, "warning:"))
            continue;
        const struct text_line of = nth_line(command, n);
        out->at = line.at;
        snprintf(out->text, sizeof(out->text), "line %d of the command%s%.*s%s: %.*s", n, of.n ? " (" : "",
                 (int)utf8_fit(of.at, of.n, 80), of.n ? of.at : "", of.n > 80 ? "...)" : of.n ? ")" : "",
                 (int)utf8_fit(said.at, said.n, 160), said.at);
        squeeze(out->text);
    }
}
