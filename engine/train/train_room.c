/* SPDX-License-Identifier: Apache-2.0 */
/* train_room.c - see train_room.h */
#include "engine/train/train_room.h"

#include <stdio.h>

#include "engine/contract/flight.h"
#include "engine/optim/step.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_save.h"
#include "engine/train/train_state.h"

enum { LOOK_MS = 500, AGAIN_S = 5 }; /* the disk may say that it has room, and a quota that it has not */

/* What one rank wants next; the least of all ranks is done. */
enum next { STOP, GIVE_UP, WAIT, TRY };

/* The wait, as rank 0 sees it. */
struct room {
    double  since_s, tried_s;
    int64_t need, left; /* bytes; left: free on the disk, or -1: not known */
};

static bool is_short(const struct room *r)
{
    return r->left >= 0 && r->left < r->need;
}

static int measure(struct train *t, struct room *r)
{
    struct state s;
    if (params_state(t->params, &s, &t->err) < 0)
        return -1;
    r->need = checkpoint_need(&s);
    r->left = checkpoint_free(t->dir);
    state_free(&s);
    return 0;
}

static enum next look(struct train *t, struct room *r)
{
    const bool was_short = is_short(r);
    const double now = train_clock();
    r->left = checkpoint_free(t->dir);
    if (!is_short(r) && (was_short || now - r->tried_s >= AGAIN_S))
        return TRY;
    return now - r->since_s >= t->spec.disk_wait_s ? GIVE_UP : WAIT;
}

static enum next decide(struct train *t, struct room *r)
{
    progress_wait(t->progress, LOOK_MS);
    const enum progress_command asked = progress_poll(t->progress);
    if (asked == CMD_STOP)
        return STOP;
    if (!train_is_first(t))
        return TRY;
    const enum next next = look(t, r);
    return asked == CMD_CHECKPOINT ? TRY : next;
}

static double mib(int64_t bytes)
{
    return (double)bytes / 0x1p20;
}

static void tell(struct train *t, const struct room *r)
{
    char text[600], left[40] = "is full";
    if (is_short(r))
        snprintf(left, sizeof(left), "has %.1f MiB free", mib(r->left));
    snprintf(text, sizeof(text), "no room for the checkpoint of step %lld: it needs %.1f MiB, and the disk of %.200s "
             "%s. Training is paused, and continues by itself when there is room. jobctl prune --keep 0 --checkpoints "
             "--dry-run lists finished jobs and their bytes", (long long)t->at, mib(r->need), t->dir, left);
    progress_no_room(t->progress, &(struct progress_room){.step = t->at, .need = r->need, .left = r->left,
                                                          .wait_s = t->spec.disk_wait_s, .path = t->dir,
                                                          .text = text});
    fprintf(stderr, "%s\n", text);
}

static void tell_over(struct train *t, const struct room *r)
{
    char text[120];
    snprintf(text, sizeof(text), "there is room again: training continues after %.0f s", train_clock() - r->since_s);
    progress_no_room(t->progress, &(struct progress_room){.over = true, .step = t->at, .path = t->dir, .text = text});
    printf("%s\n", text);
}

static int stopped(struct train *t)
{
    t->code = EXIT_ABORTED;
    return err_set(&t->err, ERR_CONFLICT, "stopped on request at step %lld of %lld without a checkpoint: %.300s",
                   (long long)t->at, (long long)t->spec.steps, train_save_full(t)->text);
}

static int give_up(struct train *t)
{
    t->code = EXIT_DISK_FULL;
    return err_set_errno(&t->err, train_save_full(t)->errnum, "no room for the checkpoint of step %lld within %g s "
                         "(retry.disk_wait): cannot write into %.200s", (long long)t->at, t->spec.disk_wait_s, t->dir);
}

/* All ranks together; 1: the checkpoint is whole. */
static int try(struct train *t, struct room *r)
{
    r->tried_s = train_clock();
    train_save_retry(t);
    if (train_save(t) < 0 || train_save_wait(t) < 0)
        return -1;
    return !train_save_lacks_room(t);
}

static int round_of(struct train *t, struct room *r)
{
    int next = decide(t, r);
    if (train_ranks_least(t, &next) < 0)
        return -1;
    flight_work(t->flight, (uint64_t)(train_clock() - r->since_s), (uint64_t)t->spec.disk_wait_s);
    switch ((enum next)next) {
    case STOP:
        return stopped(t);
    case GIVE_UP:
        return give_up(t);
    case WAIT:
        return 0;
    case TRY:
        break;
    }
    return try(t, r);
}

int train_room_wait(struct train *t)
{
    struct room r = {.since_s = train_clock(), .tried_s = train_clock()};
    int rc = 0;
    if (measure(t, &r) < 0)
        return -1;
    if (train_is_first(t))
        tell(t, &r);
    flight_enter(t->flight, (uint64_t)t->at, PHASE_CHECKPOINT);
    while (rc == 0)
        rc = round_of(t, &r);
    if (rc > 0 && train_is_first(t))
        tell_over(t, &r);
    return rc < 0 ? -1 : 0;
}

int train_room_check(struct train *t)
{
    struct room r = {0};
    if (measure(t, &r) < 0)
        return -1;
    int fits = !is_short(&r);
    if (train_ranks_least(t, &fits) < 0)
        return -1;
    if (fits)
        return 0;
    t->code = EXIT_DISK_FULL;
    return err_set(&t->err, ERR_SYSTEM, "there is still no room for a checkpoint: it needs %.1f MiB, and %.200s has "
                   "%.1f MiB free", mib(r.need), t->dir, mib(r.left));
}
