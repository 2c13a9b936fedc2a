/* SPDX-License-Identifier: Apache-2.0 */
/* success_note.c - see success_note.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/core/success_note.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/os/shell_text.h"
#include "agent/printed/failure_reason.h"
#include "agent/printed/text_line.h"
#include "engine/base/text_append.h"

enum { LINES_AFTER = 3 }; /* of an echo, or of a shell */

/* Its last traceback, or the table of a launcher, has at most a few lines after it. */
static bool ends_with_failure(const char *text)
{
    struct traceback all[TRACEBACKS];
    struct text_line line;
    const int n = traceback_find(all, text);
    const char *rest = n > 0 ? all[n - 1].end : NULL;
    int lines = 0;
    if (!rest || all[n - 1].aside)
        return false;
    if (strstr(rest, "Root Cause (first observed failure)"))
        return true;
    while (text_line_next(&rest, &line))
        lines += text_line_trim(line).n > 0;
    return lines <= LINES_AFTER;
}

void success_note_exit(struct success_note *n, const struct agent_exit *e)
{
    char text[OUTPUT_TEXT_BYTES];
    struct failure_reason why;
    n->background = n->background || shell_text_has_background(e->command);
    if (n->trouble[0] || !e->last_lines)
        return;
    text_line_clean(text, sizeof(text), e->last_lines);
    if (!ends_with_failure(text))
        return;
    failure_reason_read(&why, text, e->command, false);
    if (why.kind == FAILURE_EXCEPTION || why.kind == FAILURE_LAUNCHER)
        snprintf(n->trouble, sizeof(n->trouble), "the output of rank %d ends with %s", e->rank, why.text);
}

/* How many of "123 (python3), 124 (sh)". */
static int count(const char *left)
{
    int n = left[0] ? 1 : 0;
    for (const char *p = left; (p = strstr(p, "), ")); p++)
        n++;
    return n;
}

void success_note_say(char *out, size_t size, const struct success_note *n, int64_t step, int64_t steps,
                      const char *left)
{
    const char *also = "; but ";
    snprintf(out, size, "every rank exited with code 0");
    if (n->trouble[0]) {
        text_append(out, size, "%s%s", also, n->trouble);
        also = ", and ";
    }
    if (steps > 0 && step >= 0 && step <= steps / 2) {
        text_append(out, size, "%sonly %lld of %lld steps were reported", also, (long long)step, (long long)steps);
        also = ", and ";
    }
    if (n->background && left[0])
        text_append(out, size, "%s%d process%s still running and %s ended: %.100s; leave out `&`, or end `run` with "
                    "`wait`", also, count(left), count(left) == 1 ? " was" : "es were",
                    count(left) == 1 ? "was" : "were", left);
}
