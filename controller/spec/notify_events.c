/* SPDX-License-Identifier: Apache-2.0 */
/* notify_events.c - see notify_events.h */
#include "controller/spec/notify_events.h"

#include <string.h>

bool notify_events_has(const char *word)
{
    static const char *const events[] = { "done", "failed", "recovering", "hung", "budget" };
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        if (strcmp(events[i], word) == 0)
            return true;
    return false;
}
