/* SPDX-License-Identifier: Apache-2.0 */
/* root_cause.c - see root_cause.h */
#include "agent/core/root_cause.h"

#include <string.h>

#include "agent/printed/failure_reason.h"
#include "engine/base/json_text.h"
#include "engine/base/utf8.h"

enum {
    EVIDENCE_LINES = 20,
    LINE_SHOWN = 500,
    FRAMES = 4,
    CLOSE_CALL_MS = 200 /* failures closer than this may be reported in the wrong order */
};

#define STACK_HEAD " (most recent call first):\n"
#define STACK_FRAME "  File "

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
    *b = (struct root_cause){0};
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

/* The innermost frames of the last stack of faulthandler, which is that of the main thread. */
static json_t *python_frames(const char *text)
{
    const char *at = NULL;
    json_t *lines = json_array();
    for (const char *p = text; lines && p && (p = strstr(p, STACK_HEAD)); p += strlen(STACK_HEAD))
        at = p + strlen(STACK_HEAD);
    while (at && strncmp(at, STACK_FRAME, strlen(STACK_FRAME)) == 0 && json_array_size(lines) < FRAMES) {
        size_t len = strcspn(at, "\n");
        json_array_append_new(lines, json_text_n(at, utf8_fit(at, len, LINE_SHOWN)));
        at += len + (at[len] == '\n');
    }
    return lines;
}

void root_cause_stack(struct root_cause *b, const struct agent_exit *e)
{
    const bool hangs = b->verdict.cause == CAUSE_HANG_INIT || b->verdict.cause == CAUSE_HANG_STEP;
    if (!hangs || !b->exit.none || json_array_size(b->evidence) || (b->exit.rank >= 0 && b->exit.rank != e->rank))
        return;
    json_decref(b->evidence);
    b->evidence = python_frames(e->last_lines);
    if (json_array_size(b->evidence))
        json_array_insert_new(b->evidence, 0, json_text_f("stack of rank %d, innermost call first:", e->rank));
}

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
