/* SPDX-License-Identifier: Apache-2.0 */
/* python_stack.c - see python_stack.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/python_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the scan of one output is. */
struct scan {
    struct python_stack *out;
    int  n;        /* with the process being read */
    bool open;     /* ... whose stacks were not seen yet */
    bool inside;   /* a stack */
    bool found;    /* the frame of the user in it */
};

static void begin_process(struct scan *s, int rank)
{
    if (!s->open && s->n < PYTHON_STACKS)
        s->n++;
    s->out[s->n - 1] = (struct python_stack){.rank = rank};
    s->open = true;
    s->inside = false;
}

/* A thread; later ones replace earlier ones. */
static void begin_stack(struct scan *s)
{
    if (!s->n)
        begin_process(s, -1);
    s->out[s->n - 1] = (struct python_stack){.rank = s->out[s->n - 1].rank};
    s->open = s->found = false;
    s->inside = true;
}

static bool is_of_others(struct text_line line)
{
    static const char *const files[] = {"/torch/distributed/", "/torch/autograd/", "/deepspeed/comm/", NULL};
    return text_line_has(line, files);
}

/* `  File "/home/u/train.py", line 13 in step` */
static bool take_frame(struct scan *s, struct text_line line)
{
    static const char in[] = " in ";
    struct python_stack *p = &s->out[s->n - 1];
    struct source_place place = {"", false};
    const char *at = text_line_find(line, "File \""), *name = NULL;
    if (!at || !traceback_frame(&place, text_line_from(line, at)))
        return false;
    if (s->found)
        return true;
    s->found = place.text[0];
    if (s->found) {
        snprintf(p->place, sizeof(p->place), "%s", place.text);
        return true;
    }
    p->waits = p->waits || is_of_others(line);
    for (const char *next = at; (next = text_line_find(text_line_from(line, next), in)); next += strlen(in))
        name = next + strlen(in);
    if (name)
        snprintf(p->call, sizeof(p->call), "%.*s", (int)text_line_from(line, name).n, name);
    return true;
}

int python_stack_find(struct python_stack out[PYTHON_STACKS], const char *text)
{
    struct scan s = {.out = out};
    struct text_line line;
    int named = 0;
    while (text && text_line_next(&text, &line)) {
        const char *head = text_line_find(line, PYTHON_STACK_HEAD);
        if (head)
            begin_process(&s, atoi(head + strlen(PYTHON_STACK_HEAD)));
        else if (text_line_find(line, "Fatal Python error: ") && !s.open)
            begin_process(&s, -1);
        else if (text_line_ends(line, "(most recent call first):"))
            begin_stack(&s);
        else
            s.inside = s.inside && take_frame(&s, line);
    }
    for (int i = 0; i < s.n; i++)
        if (out[i].place[0])
            out[named++] = out[i];
    return named;
}
