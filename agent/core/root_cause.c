/* SPDX-License-Identifier: Apache-2.0 */
/* root_cause.c - see root_cause.h */
#include "agent/core/root_cause.h"

#include <stdio.h>
#include <string.h>

#include "agent/printed/failure_reason.h"
#include "agent/printed/python_stack.h"
#include "engine/base/json_make.h"
#include "engine/base/json_text.h"
#include "engine/base/text_append.h"
#include "engine/base/utf8.h"

enum {
    EVIDENCE_LINES = 20,
    LINE_SHOWN = 500,
    RANKS_SHOWN = 4,  /* of those at the same place */
    PLACES_SHOWN = 3, /* in the verdict; the evidence has all */
    CLOSE_CALL_MS = 200 /* failures closer than this may be reported in the wrong order */
};

/* The last lines of a text as an array. */
static json_t *last_lines(const char *text, int most)
{
    json_t *lines = json_array();
    if (!text || !lines)
        return lines;
    size_t end = strlen(text);
    while (end && text[end - 1] == '\n')
        end--;
    while (end > 0 && (int)json_array_size(lines) < most) {
        size_t at = end;
        while (at && text[at - 1] != '\n')
            at--;
        const size_t len = utf8_fit(text + at, end - at, LINE_SHOWN);
        if (strncmp(text + at, FAILURE_INTERPRETER, strlen(FAILURE_INTERPRETER)) != 0) /* no output of the program */
            json_array_insert_new(lines, 0, json_text_n(text + at, len));
        end = at ? at - 1 : 0;
    }
    return lines;
}

void root_cause_clear(struct root_cause *b)
{
    json_decref(b->evidence);
    json_decref(b->stands);
    *b = (struct root_cause){0};
}

bool root_cause_hangs(const struct root_cause *b)
{
    return b->exit.none && (b->verdict.cause == CAUSE_HANG_INIT || b->verdict.cause == CAUSE_HANG_STEP);
}

void root_cause_set(struct root_cause *b, const struct agent_exit *e, const struct verdict *v, int64_t now_ms)
{
    root_cause_clear(b);
    *b = (struct root_cause){.failed = true,
                             .at_ms = now_ms,
                             .verdict = *v,
                             .exit = *e,
                             .evidence = last_lines(e->last_lines, EVIDENCE_LINES)};
    b->exit.last_lines = b->exit.kernel = b->exit.command = NULL;
}

/* --- where ranks hang ------------------------------------------------------------------------ */

/* In the order of the ranks. */
static void put_stand(json_t *stands, int rank, const struct python_stack *p)
{
    size_t at = json_array_size(stands);
    while (at > 0 && json_integer_value(json_object_get(json_array_get(stands, at - 1), "rank")) > rank)
        at--;
    json_array_insert_new(stands, at, json_make("{s:i, s:b, s:o, s:o}", "rank", rank, "waits", p->waits, "place",
                                                json_text(p->place), "call", json_text(p->call)));
}

/* The last exception before the stacks, perhaps of a worker for which the others wait: the program went on after it. */
static void find_exception(struct root_cause *b, const struct agent_exit *e)
{
    char text[OUTPUT_TEXT_BYTES];
    struct traceback all[TRACEBACKS];
    text_line_clean(text, sizeof(text), e->last_lines);
    char *head = strstr(text, PYTHON_STACK_HEAD), *fatal = strstr(text, "Fatal Python error: ");
    if (fatal && (!head || fatal < head))
        head = fatal;
    if (!head)
        return;
    *head = '\0';
    int n = traceback_find(all, text);
    while (n > 0 && all[n - 1].aside)
        n--;
    if (n > 0)
        text_append(b->printed, sizeof(b->printed), "rank %d had printed %s%s%s", e->rank, all[n - 1].place.text,
                    all[n - 1].place.text[0] ? ": " : "", all[n - 1].text);
}

void root_cause_stack(struct root_cause *b, const struct agent_exit *e)
{
    struct python_stack found[PYTHON_STACKS];
    if (!root_cause_hangs(b))
        return;
    if (!b->printed[0] && e->last_lines)
        find_exception(b, e);
    const int n = python_stack_find(found, e->last_lines);
    if (n > 0 && !b->stands)
        b->stands = json_array();
    for (int i = 0; i < n; i++)
        put_stand(b->stands, found[i].rank < 0 ? e->rank : found[i].rank, &found[i]);
}

static bool same_place(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "place"), json_object_get(b, "place")) &&
           json_equal(json_object_get(a, "call"), json_object_get(b, "call"));
}

/* "ranks 0, 2 and 5 others wait at train.py:9 in backward": all that stand where number i does; "": one before it
 * does. */
static void say_place(char *out, size_t size, const json_t *stands, size_t i)
{
    const json_t *one = json_array_get(stands, i), *other;
    const char *call = json_string_value(json_object_get(one, "call"));
    const bool waits = json_is_true(json_object_get(one, "waits"));
    size_t k;
    int n = 0;
    out[0] = '\0';
    json_array_foreach(stands, k, other)
    {
        if (!same_place(one, other))
            continue;
        if (k < i)
            return;
        if (n++ < RANKS_SHOWN)
            text_append(out, size, "%s%d", n > 1 ? ", " : "", (int)json_integer_value(json_object_get(other, "rank")));
    }
    char ranks[LINE_SHOWN];
    snprintf(ranks, sizeof(ranks), "%s", out);
    out[0] = '\0';
    text_append(out, size, "rank%s %s", n > 1 ? "s" : "", ranks);
    if (n > RANKS_SHOWN)
        text_append(out, size, " and %d others", n - RANKS_SHOWN);
    text_append(out, size, " %s at %s", waits ? n > 1 ? "wait" : "waits" : n > 1 ? "are" : "is",
                json_string_value(json_object_get(one, "place")));
    if (call && call[0])
        text_append(out, size, " in %s", call);
}

static void add_places(struct root_cause *b, bool waiting, int *shown)
{
    char line[LINE_SHOWN];
    const json_t *one;
    size_t i;
    json_array_foreach(b->stands, i, one)
    {
        if (json_is_true(json_object_get(one, "waits")) != waiting)
            continue;
        say_place(line, sizeof(line), b->stands, i);
        if (!line[0])
            continue;
        json_array_append_new(b->evidence, json_text(line));
        if ((*shown)++ < PLACES_SHOWN)
            text_append(b->verdict.text, sizeof(b->verdict.text), "%s%s", *shown > 1 ? ", " : "; ", line);
    }
}

void root_cause_places(struct root_cause *b)
{
    int shown = 0;
    if (!b->stands || json_array_size(b->evidence))
        return;
    json_decref(b->evidence);
    b->evidence = json_array();
    add_places(b, false, &shown);
    add_places(b, true, &shown);
    if (b->printed[0])
        text_append(b->verdict.text, sizeof(b->verdict.text), "; %s", b->printed);
}

/* --- the first failure ----------------------------------------------------------------------- */

static bool explains(const struct verdict *later, const struct verdict *first)
{
    return (first->echo && !later->echo) || (first->cause == CAUSE_CUDA_ERROR && later->cause == CAUSE_GPU_FAULT);
}

void root_cause_consider(struct root_cause *b, const struct agent_exit *e, const struct verdict *v, int64_t now_ms)
{
    if (v->cause == CAUSE_NONE)
        return;
    if (!b->failed || (explains(v, &b->verdict) && now_ms - b->at_ms < CLOSE_CALL_MS))
        root_cause_set(b, e, v, now_ms);
    else if (v->cause == b->verdict.cause && !v->echo && e->rank != b->exit.rank)
        b->verdict.shared = true;
}
