/* SPDX-License-Identifier: Apache-2.0 */
/* blame.c - see blame.h */
#include "agent/blame.h"

#include <string.h>

#include "agent/agent_event.h"

enum {
    EVIDENCE_LINES = 20,
    CLOSE_CALL_MS = 200 /* failures nearer than this may have been seen in the wrong order */
};

void blame_clear(struct blame *b)
{
    json_decref(b->evidence);
    *b = (struct blame){0};
}

void blame_set(struct blame *b, const struct agent_exit *e, const struct verdict *v, int64_t now_ms)
{
    blame_clear(b);
    *b = (struct blame){.failed = true,
                        .at_ms = now_ms,
                        .verdict = *v,
                        .exit = *e,
                        .evidence = agent_event_lines(e->last_lines, EVIDENCE_LINES)};
    b->exit.last_lines = NULL;
}

static bool is_echo(const struct verdict *v)
{
    return v->cause == CAUSE_NCCL_ERROR || strstr(v->detail, "onnection closed by peer") ||
           strstr(v->detail, "onnection reset by peer");
}

void blame_consider(struct blame *b, const struct agent_exit *e, const struct verdict *v,
                    int64_t now_ms)
{
    if (v->cause == CAUSE_NONE)
        return;
    if (!b->failed || (is_echo(&b->verdict) && !is_echo(v) && now_ms - b->at_ms < CLOSE_CALL_MS))
        blame_set(b, e, v, now_ms);
}
