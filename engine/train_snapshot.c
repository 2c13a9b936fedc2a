/* SPDX-License-Identifier: Apache-2.0 */
/* train_snapshot.c - after each step into memory that outlives this rank, and back; see snapshot.h
 *
 * Without an agent (nobody made the memory), on a GPU (whose state would have to cross the
 * bus each step), or where the machine has no room for it, a run goes on from its checkpoints
 * alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backend.h"
#include "engine/dist.h"
#include "engine/env.h"
#include "engine/exact.h"
#include "engine/flight.h"
#include "engine/layout.h"
#include "engine/memory.h"
#include "engine/snapshot.h"
#include "engine/state.h"
#include "engine/step.h"
#include "engine/train_parts.h"
#include "kernels/kernels.h"

/* All that is not a number of a tensor; exponents behind it. */
struct notes {
    int64_t            optim_count;
    double             loss;
    struct train_skips left_out;
};

struct train_snapshot {
    int                  fd, old[SNAPSHOT_RANKS], n_old;
    struct state         state;
    struct snapshot     *writer;
    struct snapshot_set *set;   /* what the last generation left, until this one has its own */
    char                *notes; /* SNAPSHOT_NOTES */
    int64_t              first; /* the step that this generation began at, or -1 */
};

/* JOBCTL_SNAPSHOT_OLD is a list of descriptors; nothing of it is trusted but numbers. */
static void read_env(struct train_snapshot *s)
{
    const char *text = getenv("JOBCTL_SNAPSHOT_OLD");
    s->fd = -1;
    env_int("JOBCTL_SNAPSHOT_FD", 3, &s->fd, NULL);
    for (char *end; text && *text && s->n_old < SNAPSHOT_RANKS; text = *end ? end + 1 : end) {
        long fd = strtol(text, &end, 10);
        if (end == text || fd < 3 || fd > 1 << 20)
            break;
        s->old[s->n_old++] = (int)fd;
    }
}

bool train_has_room(const struct train *t, int64_t bytes)
{
    const struct memory_room room = memory_room();
    return room.free == 0 || bytes * t->env->world_size <= room.free / 4;
}

static void tell_no_room(struct train *t, int64_t bytes)
{
    if (train_is_first(t))
        progress_warning(t->progress,
                         "no snapshots in memory: they would take %.1f GiB of the %.1f GiB that "
                         "are free; a rank that dies costs the steps since the last checkpoint",
                         (double)bytes * t->env->world_size / 0x1p30,
                         (double)memory_room().free / 0x1p30);
}

static int open_writer(struct train *t, struct train_snapshot *s)
{
    const struct snapshot_run run = {layout_digest(model_layout(step_model(t->step))),
                                     t->env->rank, t->env->world_size};
    if (step_state(t->step, &s->state, &t->err) < 0)
        return -1;
    if (!train_has_room(t, snapshot_bytes(&s->state))) {
        tell_no_room(t, snapshot_bytes(&s->state));
        return 0;
    }
    s->notes = calloc(1, SNAPSHOT_NOTES);
    if (!s->notes)
        return err_set(&t->err, ERR_MEMORY, "no memory for a snapshot");
    struct err why = {0};
    if (snapshot_create(&s->writer, s->fd, &run, &s->state, &why) < 0)
        progress_warning(t->progress, "%s", why.text);
    return 0;
}

int train_snapshot_open(struct train *t)
{
    struct train_snapshot *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(&t->err, ERR_MEMORY, "no memory for a snapshot");
    t->snapshot = s;
    s->first = -1;
    read_env(s);
    if (!backend_ops()->host || s->fd < 0)
        return 0;
    if (open_writer(t, s) < 0)
        return -1;
    return snapshot_set_open(&s->set, s->old, s->n_old, &t->err);
}

void train_snapshot_close(struct train *t)
{
    struct train_snapshot *s = t->snapshot;
    if (!s)
        return;
    snapshot_set_close(s->set);
    snapshot_destroy(s->writer);
    state_free(&s->state);
    free(s->notes);
    free(s);
}

int64_t train_snapshot_step(struct train *t)
{
    const struct train_snapshot *s = t->snapshot;
    return s->set ? snapshot_set_step(s->set, layout_digest(model_layout(step_model(t->step)))) : -1;
}

int train_snapshot_load(struct train *t, int64_t step)
{
    struct train_snapshot *s = t->snapshot;
    struct notes n;
    struct state state;
    size_t size, exponents = 0;
    const char *text = s->set ? snapshot_set_notes(s->set, step, &size) : NULL;
    int32_t *exponent = t->exact ? exact_exponents(t->exact, &exponents) : NULL;
    if (!text || size != sizeof(n) + exponents * sizeof(*exponent))
        return err_set(&t->err, ERR_BUG, "the snapshot of step %lld is not of this run",
                       (long long)step);
    memcpy(&n, text, sizeof(n));
    if (exponent)
        memcpy(exponent, text + sizeof(n), exponents * sizeof(*exponent));
    if (step_state(t->step, &state, &t->err) < 0)
        return -1;
    int rc = snapshot_set_load(s->set, step, &state, &t->err);
    state_free(&state);
    optim_set_count(step_optim(t->step), n.optim_count);
    t->at = step;
    t->loss = n.loss;
    t->left_out = n.left_out;
    if (rc == 0 && train_is_first(t))
        printf("resumed: step %lld from memory\n", (long long)step);
    return rc;
}

/* This generation has a whole step of its own: the last one's memory goes back. Rank 0 has seen all
 * finish the step after the first, so nobody reads it any more. */
static void forget_old(struct train *t, struct train_snapshot *s)
{
    snapshot_set_close(s->set);
    s->set = NULL;
    if (!train_is_first(t))
        return;
    for (int i = 0; i < s->n_old; i++)
        if (ftruncate(s->old[i], 0) < 0)
            return; /* it stays with the agent until the next generation */
    s->n_old = 0;
}

void train_snapshot_save(struct train *t)
{
    struct train_snapshot *s = t->snapshot;
    const struct notes n = {.optim_count = optim_count(step_optim(t->step)), .loss = t->loss,
                            .left_out = t->left_out};
    size_t exponents = 0;
    if (!s->writer)
        return;
    if (s->first < 0)
        s->first = t->at;
    if (s->n_old > 0 && t->at > s->first + 1)
        forget_old(t, s);
    memcpy(s->notes, &n, sizeof(n));
    const int32_t *exponent = t->exact ? exact_exponents(t->exact, &exponents) : NULL;
    if (sizeof(n) + exponents * sizeof(*exponent) > SNAPSHOT_NOTES)
        return;
    if (exponent)
        memcpy(s->notes + sizeof(n), exponent, exponents * sizeof(*exponent));
    snapshot_save(s->writer, t->at, s->notes, sizeof(n) + exponents * sizeof(*exponent));
}
