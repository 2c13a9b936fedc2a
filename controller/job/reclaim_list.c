/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim_list.c - see reclaim_list.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/job/reclaim_list.h"

#include <stdio.h>
#include <stdlib.h>

#include "controller/job/job_view.h"
#include "engine/contract/text_append.h"

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
