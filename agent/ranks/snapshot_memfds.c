/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_memfds.c - see snapshot_memfds.h */
#include "agent/ranks/snapshot_memfds.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/checkpoint/snapshot.h"
#include "engine/base/err.h"

static void drop(struct snapshot_memfds_files *f)
{
    for (int i = 0; i < f->n; i++)
        close(f->fd[i]);
    free(f->fd);
    *f = (struct snapshot_memfds_files){0};
}

int snapshot_memfds_begin(struct snapshot_memfds *k, int generation, int from, int n, int world, struct err *err)
{
    if (from > 0 && k->now.generation == from) {
        drop(&k->last);
        k->last = k->now;
        k->now = (struct snapshot_memfds_files){0};
    } else if (k->last.generation != from) {
        drop(&k->last);
    }
    drop(&k->now);
    if (n > SNAPSHOT_RANKS)
        return err_set(err, ERR_USAGE, "%d ranks are too many for snapshots in memory", n);
    k->now = (struct snapshot_memfds_files){.generation = generation, .world = world};
    k->now.fd = calloc((size_t)n, sizeof(*k->now.fd));
    if (!k->now.fd)
        return err_set(err, ERR_MEMORY, "no memory for a list of snapshots");
    for (; k->now.n < n; k->now.n++)
        if ((k->now.fd[k->now.n] = snapshot_make(err)) < 0) {
            drop(&k->now);
            return -1;
        }
    return 0;
}

void snapshot_memfds_fini(struct snapshot_memfds *k)
{
    drop(&k->now);
    drop(&k->last);
}

int snapshot_memfds_claims(const struct snapshot_memfds *k, struct snapshot_memfds_claim out[SNAPSHOT_MEMFDS_SETS])
{
    const struct snapshot_memfds_files *const sets[] = {&k->now, &k->last};
    int n = 0;
    for (int i = 0; i < SNAPSHOT_MEMFDS_SETS; i++) {
        const int64_t step = snapshot_claims(sets[i]->fd, sets[i]->n, sets[i]->world);
        if (step >= 0)
            out[n++] = (struct snapshot_memfds_claim){sets[i]->generation, step};
    }
    return n;
}

/* Ranks of a generation are at most one step apart, and each also keeps the step before its
 * newest. */
int snapshot_memfds_common(struct snapshot_memfds_claim *a, int n_a, const struct snapshot_memfds_claim *b, int n_b)
{
    int n = 0;
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++)
            if (a[i].generation == b[j].generation) {
                const int64_t step = a[i].step < b[j].step ? a[i].step : b[j].step;
                a[n++] = (struct snapshot_memfds_claim){a[i].generation, step};
                break;
            }
    return n;
}

struct snapshot_memfds_claim snapshot_memfds_newest(const struct snapshot_memfds_claim *claims, int n)
{
    struct snapshot_memfds_claim newest = {0, -1};
    for (int i = 0; i < n; i++)
        if (claims[i].generation > newest.generation)
            newest = claims[i];
    return newest;
}
