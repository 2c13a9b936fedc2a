/* SPDX-License-Identifier: Apache-2.0 */
/* failure_reason.c - see failure_reason.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/failure_reason.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/printed/crash_message.h"
#include "agent/printed/traceback_choice.h"
#include "agent/printed/trouble_line.h"
#include "engine/contract/text_append.h"
#include "engine/contract/utf8.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { LAST_SHOWN = 220, ROOT_SHOWN = 120, LINE_SHOWN = 200 };

static const char *const mistakes[] = {
    "AttributeError", "AssertionError", "IndexError", "KeyError", "NameError", "NotImplementedError", "RecursionError",
    "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError", "SyntaxError", "IndentationError", "TabError",
    "JSONDecodeError", "ModuleNotFoundError", "ImportError", "UnicodeDecodeError",
};

/* Parts of what may pass by itself. */
static const char *const passing[] = {
    "Connection", "Timeout", "timed out", "HTTPError", "URLError", "gaierror", "SSLError", "IncompleteRead", "BrokenPipe",
    "BlockingIOError", "OSError", "OperationalError", "Unavailable", "unavailable", "temporar", "CUDA error", "cuDNN error",
    "CUBLAS", "NCCL", "Dist", "connect", "network", "Network", "HIP error", "Too Many Requests", "rate limit",
};

/* The same in words of programs other than Python's. */
static const char *const passing_words[] = {
    "ould not resolve", "Temporar", "unreachable", "returned error: 5", "Gateway", "Read-only file system",
    "Input/output error", "tale file handle", "in use", "busy",
};

/* Parts of what sounds so, and is there to stay: a PyTorch without what the script wants. */
static const char *const lasting[] = {"NCCL built in", "no GPUs found", "not compiled with CUDA"};

static int fit(const char *text, size_t most)
{
    return (int)utf8_fit(text, strlen(text), most);
}

static const char *after_place(const struct traceback *t, char *out, size_t size)
{
    snprintf(out, size, "%s%s", t->place.text, t->place.text[0] ? ": " : "");
    return out;
}

/* "ValueError: x", or the name alone where the other one has the message already. */
static void shorten(char *out, size_t size, const struct traceback *root, const struct traceback *last)
{
    const size_t name = traceback_name(root);
    const char *message = root->text + name + strspn(root->text + name, ": ");
    const bool told = *message && strstr(last->text, message);
    snprintf(out, size, "%.*s", told ? (int)name : fit(root->text, ROOT_SHOWN), root->text);
}

static void say_chain(struct failure_reason *out, const struct traceback_choice *c)
{
    static const char *const words[] = {[TRACEBACK_DURING] = "while handling ", [TRACEBACK_CAUSED] = "caused by ",
                                        [TRACEBACK_ORIGINAL] = "", [TRACEBACK_MEMBER] = "first: "};
    char at[SOURCE_PLACE + 2], from[SOURCE_PLACE + 2], root[ROOT_SHOWN + 1];
    shorten(root, sizeof(root), c->root, c->last);
    snprintf(out->text, sizeof(out->text), "%s%.*s (%s%s%s)", after_place(c->last, at, sizeof(at)),
             fit(c->last->text, LAST_SHOWN - 60), c->last->text, words[c->link], after_place(c->root, from, sizeof(from)), root);
}

/* The text of a device-side assertion is on a line of its own, which the CUDA kernel printed. */
static void add_assertion(struct failure_reason *out, const char *text)
{
    const char *at = strstr(out->last, "device-side assert") ? strstr(text, "Assertion `") : NULL;
    if (at && !strstr(out->text, "Assertion `"))
        text_append(out->text, sizeof(out->text), " (%.*s)", (int)strcspn(at, "\n"), at);
}

/* The interpreter, where a module is missing: agent/ranks/interpreter.h leaves it in the output. */
static void add_interpreter(struct failure_reason *out, const char *text)
{
    const char *at = strstr(out->last, "ModuleNotFoundError") ? strstr(text, FAILURE_INTERPRETER) : NULL;
    if (at && (at = at + strlen(FAILURE_INTERPRETER)))
        text_append(out->text, sizeof(out->text), " (interpreter %.*s)", (int)strcspn(at, "\n"), at);
}

static bool is_mistake(const struct traceback *t)
{
    for (size_t i = 0; i < ARRAY_LEN(mistakes); i++)
        if (traceback_is(t, mistakes[i]))
            return true;
    return false;
}

static bool is_passing(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(lasting); i++)
        if (strstr(text, lasting[i]))
            return false;
    for (size_t i = 0; i < ARRAY_LEN(passing); i++)
        if (strstr(text, passing[i]))
            return true;
    return false;
}

static void take_chain(struct failure_reason *out, const struct traceback_choice *c, const char *text)
{
    char at[SOURCE_PLACE + 2];
    const struct traceback *t = c->link == TRACEBACK_ORIGINAL ? c->root : c->last;
    const bool same = c->root == c->last || strcmp(c->root->text, c->last->text) == 0;
    out->kind = FAILURE_EXCEPTION;
    snprintf(out->last, sizeof(out->last), "%s", t->text);
    snprintf(out->root, sizeof(out->root), "%s", c->root->text);
    t = same ? c->root : t;
    snprintf(out->place, sizeof(out->place), "%s", t->place.text);
    out->mistake = is_mistake(t);
    out->passing = is_passing(out->last) || is_passing(out->root);
    if (same || c->link == TRACEBACK_ORIGINAL)
        snprintf(out->text, sizeof(out->text), "%s%.*s", after_place(t, at, sizeof(at)), fit(t->text, LAST_SHOWN), t->text);
    else
        say_chain(out, c);
    add_assertion(out, text);
    add_interpreter(out, text);
}

static bool has_passing(const char *text)
{
    bool found = is_passing(text);
    for (size_t i = 0; i < ARRAY_LEN(passing_words); i++)
        found = found || strstr(text, passing_words[i]);
    return found;
}

static void take_text(struct failure_reason *out, enum failure_kind kind, const char *text)
{
    out->kind = kind;
    snprintf(out->text, sizeof(out->text), "%.*s", fit(text, FAILURE_REASON - 1), text);
}

/* What torchrun's table says of the rank that failed first, where that rank has printed nothing. */
static bool take_table(struct failure_reason *out, const char *text)
{
    const char *at = strstr(text, "Root Cause (first observed failure)");
    const char *rank = at ? strstr(at, "\n  rank ") : NULL, *code = at ? strstr(at, "\n  exitcode ") : NULL;
    const char *said = at ? strstr(at, "\n  traceback : Signal ") : NULL;
    if (!rank || !code || !(rank = strchr(rank, ':')) || !(code = strchr(code, ':')))
        return false;
    if (said && (said = strstr(said, "Signal ")))
        snprintf(out->text, sizeof(out->text), "rank %d of torchrun: %.*s", atoi(rank + 1), (int)strcspn(said, "\n"),
                 said);
    else
        snprintf(out->text, sizeof(out->text), "rank %d of torchrun exited with code %d and printed no reason",
                 atoi(rank + 1), atoi(code + 1));
    out->kind = FAILURE_LAUNCHER;
    return true;
}

static void take_line(struct failure_reason *out, const char *text)
{
    const struct text_line line = trouble_line_find(text);
    out->kind = line.n ? FAILURE_LINE : FAILURE_SILENT;
    snprintf(out->text, sizeof(out->text), "%.*s", (int)utf8_fit(line.at, line.n, LINE_SHOWN), line.n ? line.at : "");
}

void failure_reason_read(struct failure_reason *out, const char *text, const char *command, bool signalled)
{
    struct traceback all[TRACEBACKS];
    struct traceback_choice choice;
    struct crash_message crash, shell;
    *out = (struct failure_reason){0};
    const int n = signalled ? 0 : traceback_find(all, text);
    traceback_choice_make(&choice, all, n, text);
    crash_message_find(&crash, text);
    crash_message_shell(&shell, text, command);
    if (shell.text[0] && (!choice.last || shell.at > choice.last->end)) {
        take_text(out, FAILURE_SHELL, shell.text);
    } else if (choice.last && !(choice.weak && (crash.text[0] || !choice.last->place.text[0]))) {
        take_chain(out, &choice, text);
    } else if (crash.text[0]) {
        take_text(out, FAILURE_CRASH, crash.text);
    } else if (!take_table(out, text)) {
        take_line(out, text);
    }
    if (out->kind != FAILURE_EXCEPTION)
        out->passing = has_passing(text);
    if (!out->place[0])
        snprintf(out->place, sizeof(out->place), "%s", crash.place);
    out->interrupted = choice.last && choice.weak;
}
