/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_memfds.c - see snapshot_memfds.h */
#include "agent/ranks/snapshot_memfds.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/checkpoint/snapshot.h"
#include "engine/contract/err.h"

static void drop(struct keepsake_files *f)
{
    for (int i = 0; i < f->n; i++)
        close(f->fd[i]);
    free(f->fd);
    *f = (struct keepsake_files){0};
}

int keepsake_begin(struct keepsake *k, int generation, int from, int n, int world, struct err *err)
{
    if (from > 0 && k->now.generation == from) {
        drop(&k->last);
        k->last = k->now;
        k->now = (struct keepsake_files){0};
    } else if (k->last.generation != from) {
        drop(&k->last);
    }
    drop(&k->now);
    if (n > SNAPSHOT_RANKS)
        return err_set(err, ERR_USAGE, "%d ranks are too many for snapshots in memory", n);
    k->now = (struct keepsake_files){.generation = generation, .world = world};
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

void keepsake_fini(struct keepsake *k)
{
    drop(&k->now);
    drop(&k->last);
}

int keepsake_claims(const struct keepsake *k, struct keepsake_claim out[KEEPSAKE_SETS])
{
    const struct keepsake_files *const sets[] = {&k->now, &k->last};
    int n = 0;
    for (int i = 0; i < KEEPSAKE_SETS; i++) {
        const int64_t step = snapshot_claims(sets[i]->fd, sets[i]->n, sets[i]->world);
        if (step >= 0)
            out[n++] = (struct keepsake_claim){sets[i]->generation, step};
    }
    return n;
}

/* Ranks of a generation are a step apart at most, and each has the step before its newest, too. */
int keepsake_common(struct keepsake_claim *a, int n_a, const struct keepsake_claim *b, int n_b)
{
    int n = 0;
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++)
            if (a[i].generation == b[j].generation) {
                const int64_t step = a[i].step < b[j].step ? a[i].step : b[j].step;
                a[n++] = (struct keepsake_claim){a[i].generation, step};
                break;
            }
    return n;
}

struct keepsake_claim keepsake_newest(const struct keepsake_claim *claims, int n)
{
    struct keepsake_claim newest = {0, -1};
    for (int i = 0; i < n; i++)
        if (claims[i].generation > newest.generation)
            newest = claims[i];
    return newest;
}
