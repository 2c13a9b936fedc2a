/* SPDX-License-Identifier: Apache-2.0 */
/* train_save.c - a checkpoint, by all ranks at once; see train.h
 *
 * Rank 0 begins and commits; each rank writes the ranges that it saves (state.h).  When this is
 * done the checkpoint is there for all; when somebody fails it is there for nobody.
 */
#include <stdio.h>
#include <string.h>

#include "engine/dataset.h"
#include "engine/flight.h"
#include "engine/sample_log.h"
#include "engine/step.h"
#include "engine/train_parts.h"

void train_save_prove(struct train *t)
{
    for (int i = 0; i < TRAIN_PENDING; i++) {
        struct train_pending *p = &t->pending[i];
        if (!p->path[0] || t->at < p->step + CHECKPOINT_GOOD_STEPS)
            continue;
        checkpoint_mark_good(p->path, NULL); /* gone or not writable: it stays as it was */
        p->path[0] = '\0';
    }
}

static int failed(struct train *t, const struct checkpoint_writing *w)
{
    t->code = w->disk_full ? EXIT_DISK_FULL : EXIT_CHECKPOINT;
    return -1;
}

static int commit(struct train *t, struct checkpoint_writing *w, double start)
{
    struct checkpoint_info info;
    struct checkpoint_state state = {.step = t->at,
                                     .optim_count = optim_count(step_optim(t->step)),
                                     .seed = t->spec.seed,
                                     .loss = t->loss,
                                     .job = t->job,
                                     .codec = t->codec};
    memcpy(state.spec_digest, t->spec_digest, sizeof(state.spec_digest));
    snprintf(state.data_digest, sizeof(state.data_digest), "%s", dataset_digest(t->data));
    json_t *exact = train_exact_notes(t);
    state.exact = exact;
    int rc = checkpoint_commit(&info, w, &state, model_layout(step_model(t->step)), &t->err);
    json_decref(exact);
    if (rc < 0)
        return failed(t, w);
    t->saved_s = train_clock();
    struct train_pending *p = &t->pending[0];
    for (int i = 1; i < TRAIN_PENDING && p->path[0]; i++)
        p = &t->pending[i];
    p->step = t->at;
    memcpy(p->path, info.path, sizeof(p->path));
    progress_checkpoint(t->progress, t->at, info.path, info.bytes, 1000 * (t->saved_s - start),
                        info.digest);
    printf("checkpoint: step %lld, %.1f MiB, %.0f ms, %s\n", (long long)t->at,
           (double)info.bytes / (1 << 20), 1000 * (t->saved_s - start), info.path);
    if (checkpoint_prune(t->dir, t->spec.checkpoint_keep, &t->err) < 0) {
        progress_warning(t->progress, "%s", t->err.text); /* too many is better than none */
        t->err = (struct err){0};
    }
    return 0;
}


/* Begun by rank 0, filled by all, committed by rank 0. */
static int write_together(struct train *t, const struct state *s)
{
    struct checkpoint_writing w = {0};
    double start = train_clock();
    if (train_is_first(t) && checkpoint_begin(&w, t->dir, t->at, s, &t->err) < 0)
        return failed(t, &w);
    if (train_ranks_tell(t, &w, sizeof(w)) < 0)
        goto abandon;
    if (checkpoint_fill(&w, s, &t->err) < 0) {
        failed(t, &w);
        goto abandon;
    }
    if (train_ranks_barrier(t) < 0)
        goto abandon;
    return train_is_first(t) ? commit(t, &w, start) : 0;
abandon:
    if (train_is_first(t))
        checkpoint_abandon(&w);
    return -1;
}

int train_save(struct train *t)
{
    struct state s;
    if (t->saved == t->at)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_CHECKPOINT);
    if (sample_log_sync(t->samples, &t->err) < 0 || train_ranks_same_weights(t) < 0 ||
        model_pull(step_model(t->step), &t->err) < 0 ||
        optim_pull(step_optim(t->step), &t->err) < 0 ||
        step_state(t->step, &s, &t->err) < 0)
        return -1;
    int rc = write_together(t, &s);
    state_free(&s);
    if (rc < 0 || train_ranks_barrier(t) < 0)
        return -1;
    t->saved = t->at;
    t->saved_s = train_clock();
    return 0;
}
