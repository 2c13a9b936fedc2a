/* SPDX-License-Identifier: Apache-2.0 */
/* train_save.c - a checkpoint, by all ranks at once, while steps go on; see train.h
 *
 * What a rank saves does not change while it is written: steps go on in other memory
 * (double_buffer.h); on a GPU the run stands still until the views in this process's memory are a
 * copy of it.  A thread then does all that waits for the disk: rank 0 begins, each rank writes its
 * ranges, rank 0 commits.  Where the ranks are with it rides on the record that they exchange
 * before each step, so that nobody waits for anybody else's disk; alone, one thread does all of it
 * in a row.  Only this file's thread touches the checkpoint, and the thread touches nothing else:
 * not the flight page, the ranks, the device, or the lines for the agent.
 *
 * One is on its way at a time: whoever wants the next one waits for it, and so does the end of a run.
 * What failed on the way fails the run at its next step boundary.
 */
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
#include "engine/train/train_internal.h"

enum work { BEGIN, FILL, COMMIT };
enum stage { BEGINNING, BEGUN, FILLED }; /* what a rank has behind it */

struct train_saving {
    /* Of the checkpoint on its way; the thread's while it runs. */
    struct checkpoint_writing w;
    struct checkpoint_state   state;
    struct checkpoint_info    info;
    struct state              from;     /* what this rank saves, where nobody changes it */
    json_t                   *exact, *left_out;
    const struct layout      *layout;
    const char               *root;
    struct sample_log        *samples;
    int                       keep;
    double                    whole_s;  /* when it was */
    struct err                unpruned; /* older ones that could not be removed */
    /* Of the thread. */
    pthread_t                 thread;
    bool                      running, alone;
    atomic_bool               over;     /* it has nothing more to do */
    enum work                 work;
    struct err                err;
    int                       rc;
    /* Of the run. */
    bool                      shared;   /* one is on its way whose parts are not all written */
    enum stage                stage;
    double                    asked_s, stall_s;
    double                    waits_s;  /* since when the run waits for it; 0: it does not */
    bool                      told_room, told_wait;
};

/* --- the thread -------------------------------------------------------------------------- */

static int do_work(struct train_saving *x)
{
    switch (x->work) {
    case BEGIN:
        return checkpoint_begin(&x->w, &x->from, &x->err);
    case FILL: /* the log's lines up to here before the step that they are of */
        return sample_log_sync(x->samples, &x->err) < 0 ? -1
                                                        : checkpoint_fill(&x->w, &x->from, &x->err);
    case COMMIT:
        break;
    }
    if (checkpoint_commit(&x->info, &x->w, &x->state, x->layout, &x->err) < 0)
        return -1;
    x->whole_s = train_clock();
    x->unpruned = (struct err){0};
    checkpoint_prune(x->root, x->keep, &x->unpruned); /* too many is better than none */
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

/* Signals are for the thread that takes steps. Where no thread can be had, its work is done here. */
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
    for (int i = 0; i < TRAIN_PENDING && !t->saving->running; i++) {
        struct train_pending *p = &t->pending[i];
        if (!p->path[0] || t->at < p->step + CHECKPOINT_GOOD_STEPS)
            continue;
        checkpoint_mark_good(p->path, NULL); /* gone or not writable: it stays as it was */
        p->path[0] = '\0';
    }
}

/* It is whole. */
static void report(struct train *t)
{
    struct train_saving *x = t->saving;
    const double ms = 1000 * (x->whole_s - x->asked_s);
    const double waited_s = x->waits_s > 0 && x->waits_s < x->whole_s ? x->whole_s - x->waits_s : 0;
    const double stall_ms = 1000 * (x->stall_s + waited_s);
    struct train_pending *p = &t->pending[0];
    for (int i = 1; i < TRAIN_PENDING && p->path[0]; i++)
        p = &t->pending[i];
    p->step = x->info.step;
    memcpy(p->path, x->info.path, sizeof(p->path));
    progress_checkpoint(t->progress, x->info.step, x->info.path, x->info.bytes, ms, stall_ms,
                        x->info.digest);
    printf("checkpoint: step %lld, %.1f MiB, %.0f ms (steps stood still for %.1f ms), %s\n",
           (long long)x->info.step, (double)x->info.bytes / (1 << 20), ms, stall_ms, x->info.path);
    if (x->unpruned.code != ERR_NONE)
        progress_warning(t->progress, "%s", x->unpruned.text);
}

/* What the thread has done; waits for it. */
static int collect(struct train *t)
{
    struct train_saving *x = t->saving;
    if (x->running)
        pthread_join(x->thread, NULL);
    x->running = false;
    atomic_store(&x->over, false);
    if (x->work >= FILL) /* nobody reads it any more */
        train_snapshot_release(t);
    if (x->rc < 0) {
        if (x->work == FILL && train_is_first(t))
            checkpoint_abandon(&x->w);
        x->shared = false;
        t->err = x->err;
        t->code = x->w.disk_full ? EXIT_DISK_FULL : EXIT_CHECKPOINT;
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

int train_save_look(struct train *t, int *stage)
{
    struct train_saving *x = t->saving;
    if (atomic_load(&x->over) && collect(t) < 0)
        return -1;
    *stage = (int)x->stage;
    return 0;
}

/* All ranks see the same stage, so all go on together. */
void train_save_go_on(struct train *t, int least)
{
    struct train_saving *x = t->saving;
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

/* Until the one on its way is whole, as far as this rank has to do with it. */
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
        train_save_go_on(t, least);
    }
    return is_busy(x) ? collect(t) : 0;
}

int train_save_wait(struct train *t)
{
    flight_enter(t->flight, (uint64_t)t->at, PHASE_CHECKPOINT);
    t->saving->waits_s = train_clock();
    int rc = finish(t);
    t->saving->waits_s = 0;
    return rc < 0 || train_ranks_barrier(t) < 0 ? -1 : 0;
}

/* The next one is due before the last one is whole. */
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
    progress_warning(t->progress, "a checkpoint was due %.1f s before the last one was on disk, and "
                                  "steps waited for it: a longer checkpoint.every would save that "
                                  "time", waited);
    return 0;
}

/* --- what is saved ----------------------------------------------------------------------- */

/* For the thread to read while steps go on. */
static bool hold(struct train *t)
{
    struct train_saving *x = t->saving;
    int64_t bytes;
    const bool held = train_snapshot_hold(t, &bytes);
    if (!held && !x->told_room)
        progress_warning(t->progress, "steps stand still while a checkpoint is written: the memory that rank "
                                      "%d would go on in, %.1f MiB, is more than can be spared",
                         t->env->rank, (double)bytes / 0x1p20);
    x->told_room = x->told_room || !held;
    return held;
}

/* Everything of this step that is not a number of a tensor. */
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
    x->layout = model_layout(step_model(t->step));
    x->root = t->dir;
    x->samples = t->samples;
    x->keep = t->spec.checkpoint_keep;
    x->alone = t->env->world_size == 1;
    x->err = (struct err){0};
    x->rc = 0;
}

/* From the weights of all ranks to a list of them: *held says whether they stay as they are on all ranks. */
static int prepare(struct train *t, int *held)
{
    struct train_saving *x = t->saving;
    state_free(&x->from);
    if (params_pull(t->params, &t->err) < 0 || train_ranks_same_weights(t) < 0 ||
        params_state(t->params, &x->from, &t->err) < 0)
        return -1;
    describe(t);
    if ((train_is_first(t) && checkpoint_name(&x->w, t->dir, t->at, &t->err) < 0) ||
        train_ranks_tell(t, &x->w, sizeof(x->w)) < 0)
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
    x->asked_s = train_clock();
    if (prepare(t, &held) < 0)
        return -1;
    x->shared = !x->alone;
    x->stage = train_is_first(t) ? BEGINNING : BEGUN;
    x->stall_s = train_clock() - x->asked_s;
    if (train_is_first(t))
        start(x, BEGIN);
    if (!held && train_save_wait(t) < 0)
        return -1;
    t->saved = t->at;
    t->saved_s = train_clock();
    return 0;
}

int train_save_open(struct train *t)
{
    t->saving = calloc(1, sizeof(*t->saving));
    return t->saving ? 0 : err_set(&t->err, ERR_MEMORY, "no memory for checkpoints");
}

/* Nobody takes steps any more. What rank 0 does alone is worth the wait; what it does together with
 * ranks that may be gone is not. */
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
