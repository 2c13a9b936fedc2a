/* SPDX-License-Identifier: Apache-2.0 */
/* train_save.c - see train_save.h
 *
 * Only this file's thread touches the checkpoint, and it touches nothing else:
 * not the flight page, the ranks, the device, or the progress lines.
 */
#include "engine/train/train_save.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/flight.h"
#include "engine/data/dataset.h"
#include "engine/data/sample_log.h"
#include "engine/optim/step.h"
#include "engine/train/reducer.h"
#include "engine/train/train_dir.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_snapshot.h"
#include "engine/train/train_state.h"

enum work { BEGIN, FILL, COMMIT };
enum stage { NO_ROOM = -1, BEGINNING, BEGUN, FILLED }; /* that a rank has completed */

enum { PENDING = 16 };

/* A checkpoint that is marked good after more steps without failure. */
struct pending {
    int64_t step;
    char    path[CHECKPOINT_PATH];
};

struct train_saving {
    /* The current checkpoint; owned by the thread while it runs. */
    struct checkpoint_writing w;
    struct checkpoint_state   state;
    struct checkpoint_info    info;
    struct state              from;     /* what this rank saves; unchanged meanwhile */
    json_t                   *exact, *left_out;
    const struct layout      *layout;
    const char               *root;
    struct sample_log        *samples;
    int                       keep;
    double                    whole_s;  /* time of the commit */
    struct err                unpruned; /* a failure to remove older ones */
    struct err                unlogged; /* a failure to sync the sample log */
    /* The thread. */
    pthread_t                 thread;
    bool                      running, alone;
    atomic_bool               over;     /* its work is done */
    enum work                 work;
    struct err                err;
    int                       rc;
    /* The run. */
    bool                      shared;   /* a checkpoint of several ranks is being written */
    enum stage                stage;
    double                    asked_s, stall_s;
    double                    waits_s;  /* since when the run waits for it, or 0 */
    bool                      told_room, told_wait;
    bool                      lacks_room; /* the last one failed so, on all ranks */
    struct err                full;       /* as one rank saw it */
    int64_t                   saved;      /* step of the one before, or -1 */
    struct pending            pending[PENDING];
};

void train_warn_log(struct train *t, const struct err *err)
{
    if (err->code == ERR_NONE || t->told_log)
        return;
    t->told_log = true;
    progress_warning(t->progress, "%s; training continues, and the log has a gap until it can be written", err->text);
}

/* --- the thread -------------------------------------------------------------------------- */

static int do_work(struct train_saving *x)
{
    switch (x->work) {
    case BEGIN:
        return checkpoint_begin(&x->w, &x->from, &x->err);
    case FILL: /* the sample log first: it must not lag behind the checkpoint */
        sample_log_sync(x->samples, &x->unlogged);
        return checkpoint_fill(&x->w, &x->from, &x->err);
    case COMMIT:
        break;
    }
    if (checkpoint_commit(&x->info, &x->w, &x->state, x->layout, &x->err) < 0)
        return -1;
    x->whole_s = train_clock();
    x->unpruned = (struct err){0};
    checkpoint_prune(x->root, x->keep, &x->unpruned); /* not fatal: too many checkpoints are better than none */
    return 0;
}

static void *run(void *arg)
{
    struct train_saving *x = arg;
    while ((x->rc = do_work(x)) == 0 && x->alone && x->work < COMMIT)
        x->work++;
    atomic_store(&x->over, true);
    return NULL;
}

/* The thread blocks signals: the main thread handles them. If no thread can be created, the caller does the work. */
static void start(struct train_saving *x, enum work work)
{
    sigset_t all, before;
    x->work = work;
    atomic_store(&x->over, false);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    x->running = pthread_create(&x->thread, NULL, run, x) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!x->running)
        run(x);
}

/* --- the run ----------------------------------------------------------------------------- */

void train_save_prove(struct train *t)
{
    for (int i = 0; i < PENDING && !t->saving->running; i++) {
        struct pending *p = &t->saving->pending[i];
        if (!p->path[0] || t->at < p->step + CHECKPOINT_GOOD_STEPS)
            continue;
        checkpoint_mark_good(p->path, NULL); /* failing is fine: it is removed or stays as it is */
        p->path[0] = '\0';
    }
}

/* The checkpoint is committed. */
static void report(struct train *t)
{
    struct train_saving *x = t->saving;
    const double ms = 1000 * (x->whole_s - x->asked_s);
    const double waited_s = x->waits_s > 0 && x->waits_s < x->whole_s ? x->whole_s - x->waits_s : 0;
    const double stall_ms = 1000 * (x->stall_s + waited_s);
    struct pending *p = &x->pending[0];
    for (int i = 1; i < PENDING && p->path[0]; i++)
        p = &x->pending[i];
    p->step = x->info.step;
    memcpy(p->path, x->info.path, sizeof(p->path));
    progress_checkpoint(t->progress, x->info.step, x->info.path, x->info.bytes, ms, stall_ms, x->info.digest);
    printf("checkpoint: step %lld, %.1f MiB, %.0f ms (training paused %.1f ms), %s\n",
           (long long)x->info.step, (double)x->info.bytes / (1 << 20), ms, stall_ms, x->info.path);
    if (x->unpruned.code != ERR_NONE)
        progress_warning(t->progress, "%s", x->unpruned.text);
}

/* The exit code of a checkpoint that failed. */
static enum exit_code code_of(const struct train_saving *x)
{
    const int code = exit_code_of(&x->err);
    if (x->w.disk_full)
        return EXIT_DISK_FULL;
    if (x->err.code == ERR_CONFLICT) /* the fence */
        return EXIT_DIR_IN_USE;
    return code == EXIT_DISK_FULL || code == EXIT_IO || code == EXIT_LIMIT ? (enum exit_code)code : EXIT_CHECKPOINT;
}

/* Waits for the thread and takes its result. */
static int collect(struct train *t)
{
    struct train_saving *x = t->saving;
    if (x->running)
        pthread_join(x->thread, NULL);
    x->running = false;
    atomic_store(&x->over, false);
    train_warn_log(t, &x->unlogged);
    if (x->work >= FILL) /* the thread reads it no more */
        train_snapshot_release(t);
    if (x->rc < 0) {
        if (x->work == FILL && train_is_first(t))
            checkpoint_abandon(&x->w);
        if (code_of(x) == EXIT_DISK_FULL && t->spec.disk_wait_s > 0) {
            x->stage = NO_ROOM;
            x->full = x->err;
            return 0;
        }
        x->shared = false;
        t->err = x->err;
        t->code = code_of(x);
        return -1;
    }
    if (x->work == COMMIT)
        report(t);
    else
        x->stage = x->work == BEGIN ? BEGUN : FILLED;
    return 0;
}

static bool is_busy(const struct train_saving *x)
{
    return x->running || atomic_load(&x->over);
}

int train_save_poll(struct train *t, int *stage)
{
    struct train_saving *x = t->saving;
    if (atomic_load(&x->over) && collect(t) < 0)
        return -1;
    *stage = (int)x->stage;
    return 0;
}

/* A rank found the disk full, so no rank continues with this checkpoint. */
static void drop(struct train *t)
{
    struct train_saving *x = t->saving;
    if (x->running)
        pthread_join(x->thread, NULL);
    x->running = false;
    atomic_store(&x->over, false);
    train_snapshot_release(t);
    if (train_is_first(t))
        checkpoint_abandon(&x->w);
    if (x->full.code == ERR_NONE)
        err_set_errno(&x->full, ENOSPC, "another rank cannot write its part of the checkpoint");
    x->shared = false;
    x->stage = FILLED;
    x->lacks_room = true;
    t->saved = x->saved;
}

/* All ranks get the same `least`, so all advance together. */
void train_save_advance(struct train *t, int least)
{
    struct train_saving *x = t->saving;
    if (least == NO_ROOM)
        drop(t);
    if (!x->shared || is_busy(x))
        return;
    if (least == BEGUN && x->stage == BEGUN)
        start(x, FILL);
    if (least != FILLED)
        return;
    x->shared = false;
    if (train_is_first(t))
        start(x, COMMIT);
}

/* Waits until this rank's part of the current checkpoint is finished. */
static int finish(struct train *t)
{
    struct train_saving *x = t->saving;
    while (x->shared) {
        int least;
        if (is_busy(x) && collect(t) < 0)
            return -1;
        least = (int)x->stage;
        if (train_ranks_least(t, &least) < 0)
            return -1;
        train_save_advance(t, least);
    }
    return is_busy(x) ? collect(t) : 0;
}

int train_save_wait(struct train *t)
{
    flight_enter(t->flight, (uint64_t)t->at, PHASE_CHECKPOINT);
    t->saving->waits_s = train_clock();
    int rc = finish(t), stage = (int)t->saving->stage;
    t->saving->waits_s = 0;
    if (rc < 0 || train_ranks_least(t, &stage) < 0) /* the first rank's commit may have failed */
        return -1;
    if (stage == NO_ROOM)
        drop(t);
    return 0;
}

bool train_save_lacks_room(const struct train *t)
{
    return t->saving->lacks_room;
}

const struct err *train_save_full(const struct train *t)
{
    return &t->saving->full;
}

void train_save_retry(struct train *t)
{
    t->saving->lacks_room = false;
    t->saving->full = (struct err){0};
}

/* The next checkpoint is due before the last one is finished. */
static int wait_for_last(struct train *t)
{
    struct train_saving *x = t->saving;
    const double since = train_clock();
    if (train_save_wait(t) < 0)
        return -1;
    const double waited = train_clock() - since;
    if (waited < 1 || x->told_wait || !train_is_first(t))
        return 0;
    x->told_wait = true;
    progress_warning(t->progress, "training waited %.1f s for the last checkpoint before it could "
                                  "start the next one; a longer checkpoint.every avoids this", waited);
    return 0;
}

/* --- what is saved ----------------------------------------------------------------------- */

/* Keeps the state unchanged for the thread while steps continue, if memory allows. */
static bool hold(struct train *t)
{
    struct train_saving *x = t->saving;
    int64_t bytes;
    const bool held = train_snapshot_hold(t, &bytes);
    if (!held && !x->told_room)
        progress_warning(t->progress, "training pauses while a checkpoint is written: rank %d needs %.1f MiB "
                                      "more memory than allowed to continue meanwhile",
                         t->env->rank, (double)bytes / 0x1p20);
    x->told_room = x->told_room || !held;
    return held;
}

/* The state of this step beside its tensors. */
static void describe(struct train *t)
{
    struct train_saving *x = t->saving;
    json_decref(x->exact);
    json_decref(x->left_out);
    x->exact = reducer_fixed_notes(t);
    x->left_out = t->left_out.n > 0 ? json_array() : NULL;
    for (int i = 0; i < t->left_out.n; i++)
        json_array_append_new(x->left_out, json_integer(t->left_out.step[i]));
    x->state = (struct checkpoint_state){.step = t->at,
                                         .optim_count = optim_count(params_optim(t->params)),
                                         .seed = t->spec.seed,
                                         .loss = t->loss,
                                         .job = t->job,
                                         .codec = t->codec,
                                         .exact = x->exact,
                                         .left_out = x->left_out};
    memcpy(x->state.spec_digest, t->spec_digest, sizeof(x->state.spec_digest));
    snprintf(x->state.data_digest, sizeof(x->state.data_digest), "%s", dataset_digest(t->data));
    memcpy(x->state.base_digest, t->base_digest, sizeof(x->state.base_digest));
    x->layout = model_layout(step_model(t->step));
    x->root = t->dir;
    x->samples = t->samples;
    x->keep = t->spec.checkpoint_keep;
    x->alone = t->env->world_size == 1;
    x->err = (struct err){0};
    x->rc = 0;
}

/* Lists the state of this step. *held: it stays unchanged on all ranks while steps continue. */
static int prepare(struct train *t, int *held)
{
    struct train_saving *x = t->saving;
    state_free(&x->from);
    if (params_pull(t->params, &t->err) < 0 || train_ranks_same_weights(t) < 0 ||
        params_state(t->params, &x->from, &t->err) < 0)
        return -1;
    describe(t);
    if ((train_is_first(t) && checkpoint_name(&x->w, t->dir, t->at, &t->err) < 0) ||
        train_ranks_broadcast(t, &x->w, sizeof(x->w)) < 0)
        return -1;
    *held = hold(t);
    return train_ranks_least(t, held);
}

int train_save(struct train *t)
{
    struct train_saving *x = t->saving;
    int held;
    if (t->saved == t->at)
        return 0;
    if (wait_for_last(t) < 0)
        return -1;
    if (x->lacks_room)
        return 0;
    x->asked_s = train_clock();
    if (train_dir_follow(t) < 0 || prepare(t, &held) < 0)
        return -1;
    x->shared = !x->alone;
    x->stage = train_is_first(t) ? BEGINNING : BEGUN;
    x->stall_s = train_clock() - x->asked_s;
    if (train_is_first(t))
        start(x, BEGIN);
    x->saved = t->saved;
    t->saved = t->at;
    t->saved_s = train_clock();
    return held ? 0 : train_save_wait(t);
}

int train_save_open(struct train *t)
{
    t->saving = calloc(1, sizeof(*t->saving));
    return t->saving ? 0 : err_set(&t->err, ERR_MEMORY, "no memory for checkpoints");
}

/* Waits for work that this rank can finish alone, but not for other ranks, which may be gone. */
bool train_save_end(struct train *t)
{
    struct train_saving *x = t->saving;
    if (!x)
        return true;
    const bool wanted = x->alone || (is_busy(x) && x->work == COMMIT);
    if (wanted && is_busy(x)) {
        const struct err err = t->err;
        const enum exit_code code = t->code;
        if (collect(t) < 0 && err.code != ERR_NONE) {
            t->err = err;
            t->code = code;
        }
        return true;
    }
    if (x->shared && train_is_first(t))
        checkpoint_abandon(&x->w);
    if (x->running && !atomic_load(&x->over))
        return false;
    if (x->running)
        pthread_join(x->thread, NULL);
    x->running = false;
    return true;
}

void train_save_close(struct train *t)
{
    struct train_saving *x = t->saving;
    if (!x)
        return;
    state_free(&x->from);
    json_decref(x->exact);
    json_decref(x->left_out);
    free(x);
}
