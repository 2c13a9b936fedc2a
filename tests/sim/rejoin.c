/* SPDX-License-Identifier: Apache-2.0 */
/* rejoin.c - see world.h: ranks that lose each other, wait in their processes, and give up */
#include <stdint.h>

#include "engine/contract/exit_code.h"
#include "tests/sim/world.h"

enum { PATIENCE_MS = 5000 };    /* engine/train/rejoin.h */

/* A rank is gone, or the way between them was: those that live notice, each at its time. */
void parting_begins(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    if (!w->truth[job].rejoin)
        return;
    for (int r = 0; r < a->np; r++)
        if (a->rank[r] && !fault(w, 20, HARM_RANK_DEAF))  /* else it is stuck */
            plan(w, between(w, 0, 200), RANK_PARTS, job, attempt, (uint64_t)a->generation)->a = r;
}

bool parting_happens(struct world *w, const struct happening *h)
{
    struct agent *a = &w->agents[h->job][h->attempt];
    if ((uint64_t)a->generation != h->life || !a->rank[h->a] || a->detached[h->a])
        return false;
    a->detached[h->a] = true;
    /* Unless the next generation has it by then. */
    struct happening *end = plan(w, PATIENCE_MS, RANK_ENDS, h->job, h->attempt, h->life);
    end->a = h->a;
    end->b = GIVES_UP;
    return true;
}

/* The next generation is started with those that live: they must wait for it. */
void parting_ends(struct world *w, int job, int attempt, bool keep)
{
    struct agent *a = &w->agents[job][attempt];
    for (int r = 0; r < a->np; r++) {
        if (a->rank[r] && !keep)
            broke(w, "job %d.%d: ranks are started while rank %d of generation %d lives", job,
                  attempt, r, a->generation);
        if (a->rank[r] && keep && !a->detached[r])
            broke(w, "job %d.%d: rank %d is to go on in another generation, and has not detached from "
                  "this one", job, attempt, r);
        w->cover.kept += a->rank[r] && keep;
        a->detached[r] = false;
    }
}
