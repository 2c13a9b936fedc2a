/* SPDX-License-Identifier: Apache-2.0 */
/* disk_notice.c - see disk_notice.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/attempt/disk_notice.h"

#include <stdio.h>

#include "engine/base/text_append.h"

static void begin(struct disk_notice *d, const struct disk_state *now, const char *dir, char *text, size_t size)
{
    d->full = true;
    d->since_ms = now->now_ms;
    snprintf(text, size, "the disk of %s is full: events are kept in memory, and output that does not fit a log is "
             "lost. The job continues. Free some space", dir);
}

static void end(struct disk_notice *d, const struct disk_state *now, const char *dir, char *text, size_t size)
{
    const int64_t lost = now->lost - d->lost;
    snprintf(text, size, "the disk of %s has space again, after %.0f s", dir,
             (double)(now->now_ms - d->since_ms) / 1000);
    if (lost > 0)
        text_append(text, size, "; %lld bytes of output were lost", (long long)lost);
    *d = (struct disk_notice){ .lost = now->lost };
}

bool disk_notice_look(struct disk_notice *d, const struct disk_state *now, const char *dir, char *text, size_t size)
{
    const bool refuses = now->held > 0 || now->logs > 0;
    if (!d->full && (refuses || now->lost > d->lost)) {
        begin(d, now, dir, text, size);
        return true;
    }
    if (!d->full || refuses)
        return false;
    end(d, now, dir, text, size);
    return true;
}
