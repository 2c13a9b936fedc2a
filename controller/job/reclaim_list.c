/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim_list.c - see reclaim_list.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/job/reclaim_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/job/job_view.h"
#include "engine/base/text_append.h"

/* Both structs begin with a job and its bytes. */
_Static_assert(offsetof(struct reclaim_dir, bytes) == offsetof(struct reclaim_item, bytes) &&
               offsetof(struct reclaim_dir, job) == offsetof(struct reclaim_item, job), "compare() reads both kinds");

static int compare(const void *a, const void *b)
{
    const struct reclaim_item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

void reclaim_list_text(char *out, size_t size, struct reclaim_item *items, size_t count)
{
    size_t n = 0;
    long long all = 0;
    char bytes[32];
    qsort(items, count, sizeof(*items), compare);
    while (n < count && n < RECLAIM_NAMED && items[n].bytes >= RECLAIM_LEAST)
        all += items[n++].bytes;
    out[0] = '\0';
    if (n == 0)
        return;
    text_append(out, size, "jobctl remove --checkpoints");
    for (size_t i = 0; i < n; i++)
        text_append(out, size, " %lld", (long long)items[i].job);
    job_view_bytes(bytes, sizeof(bytes), all);
    text_append(out, size, " would free %s", bytes);
    for (size_t i = 0; i < n; i++) {
        job_view_bytes(bytes, sizeof(bytes), items[i].bytes);
        text_append(out, size, "%sjob %lld: %s", i ? ", " : " (", (long long)items[i].job, bytes);
    }
    text_append(out, size, ")");
}

void reclaim_list_dirs(char *out, size_t size, struct reclaim_dir *dirs, size_t count)
{
    static const char first[] = "delete by hand what you no longer need: ";
    size_t named = 0;
    char bytes[32], one[512];
    qsort(dirs, count, sizeof(*dirs), compare);
    out[0] = '\0';
    for (size_t i = 0; i < count && named < RECLAIM_DIRS && dirs[i].bytes >= RECLAIM_LEAST; i++) {
        job_view_bytes(bytes, sizeof(bytes), dirs[i].bytes);
        const int n = snprintf(one, sizeof(one), "%s%s (job %lld: %s)", named ? ", " : first, dirs[i].path,
                               (long long)dirs[i].job, bytes);
        if (n >= (int)sizeof(one) || strlen(out) + (size_t)n >= size)
            continue;
        text_append(out, size, "%s", one);
        named++;
    }
}
