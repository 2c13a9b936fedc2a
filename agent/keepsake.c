/* SPDX-License-Identifier: Apache-2.0 */
/* keepsake.c - see keepsake.h */
#include "agent/keepsake.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/err.h"
#include "engine/snapshot.h"

static void drop(struct keepsake_files *f)
{
    for (int i = 0; i < f->n; i++)
        close(f->fd[i]);
    free(f->fd);
    *f = (struct keepsake_files){0};
}

int keepsake_begin(struct keepsake *k, int n, struct err *err)
{
    if (snapshot_claims(k->now.fd, k->now.n) >= 0) {
        drop(&k->last);
        k->last = k->now;
        k->now = (struct keepsake_files){0};
    }
    drop(&k->now);
    if (n > SNAPSHOT_RANKS)
        return err_set(err, ERR_USAGE, "%d ranks are too many for snapshots in memory", n);
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

int64_t keepsake_step(const struct keepsake *k)
{
    return snapshot_claims(k->last.fd, k->last.n);
}
