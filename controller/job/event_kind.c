/* SPDX-License-Identifier: Apache-2.0 */
/* event_kind.c - see event_kind.h */
#include "controller/job/event_kind.h"

#include <string.h>

enum { LIVE = EVENT_IS_LIVE, NEWS = EVENT_IS_NEWS, BAD = EVENT_IS_BAD, WHY = EVENT_IS_EVIDENCE,
       FAULT = EVENT_IS_FAULT, END = EVENT_IS_END };

#define OURS(id, name, arrow, apply, text, flags)   [EVENT_##id] = { #name, flags },
#define THEIRS(id, name, arrow, apply, text, flags) [EVENT_##id] = { #name, (flags) | EVENT_IS_AGENTS },
static const struct { const char *name; int flags; } kinds[EVENT_KINDS] = {
    [EVENT_UNKNOWN] = { "", 0 }, EVENTS_OF_CONTROLLER(OURS) EVENTS_OF_AGENT(THEIRS)
};

enum event_kind event_kind_of(const char *name)
{
    int kind = EVENT_KINDS - 1;
    while (kind > 0 && (!name || strcmp(kinds[kind].name, name) != 0))
        kind--;
    return (enum event_kind)kind;
}

const char *event_kind_name(enum event_kind kind)
{
    return kinds[kind].name;
}

bool event_kind_is(enum event_kind kind, enum event_flag flag)
{
    return kinds[kind].flags & flag;
}
