/* SPDX-License-Identifier: Apache-2.0 */
/* sample_audit.c - see sample_audit.h */
#include "engine/data/sample_audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/data/sample_log.h"

enum { TOLD = 20, EPOCHS_MOST = 1 << 20, STEPS_MOST = 1 << 28, WORLDS = 64 };

struct step_count {
    int samples, bucket;
};

struct books {
    const struct dataset *data;
    struct dataset_shape  shape;
    int                   batch;
    sample_audit_bad_fn   bad;
    void                 *arg;
    struct sample_audit   sum;
    uint8_t             **seen;   /* per epoch a bit per sample, or NULL */
    int64_t              *counts; /* [epochs][buckets]: samples seen */
    int64_t               epochs; /* capacity of both */
    struct step_count    *steps;  /* of step i at i - 1 */
    int64_t               nsteps;
    int                   worlds[WORLDS];
};

static void __attribute__((format(printf, 3, 4))) complain(struct books *b, const char *where, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    if (b->sum.wrong++ >= TOLD)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    b->bad(b->arg, where, what);
}

static int more_epochs(struct books *b, int64_t epoch, struct err *err)
{
    int64_t room = b->epochs ? b->epochs : 16;
    size_t buckets = (size_t)b->shape.buckets;
    while (room <= epoch)
        room *= 2;
    if (room == b->epochs)
        return 0;
    uint8_t **seen = realloc(b->seen, sizeof(*seen) * (size_t)room);
    if (seen) {
        memset(seen + b->epochs, 0, sizeof(*seen) * (size_t)(room - b->epochs));
        b->seen = seen;
    }
    int64_t *counts = realloc(b->counts, sizeof(*counts) * (size_t)room * buckets);
    if (counts) {
        memset(counts + (size_t)b->epochs * buckets, 0, sizeof(*counts) * (size_t)(room - b->epochs) * buckets);
        b->counts = counts;
    }
    if (!seen || !counts)
        return err_set(err, ERR_MEMORY, "out of memory to check %lld epochs", (long long)room);
    b->epochs = room;
    return 0;
}

static int more_steps(struct books *b, int64_t step, struct err *err)
{
    int64_t room = b->nsteps ? b->nsteps : 1024;
    while (room < step)
        room *= 2;
    if (room == b->nsteps)
        return 0;
    struct step_count *steps = realloc(b->steps, sizeof(*steps) * (size_t)room);
    if (!steps)
        return err_set(err, ERR_MEMORY, "out of memory to check %lld steps", (long long)room);
    memset(steps + b->nsteps, 0, sizeof(*steps) * (size_t)(room - b->nsteps));
    b->steps = steps;
    b->nsteps = room;
    return 0;
}

static int bucket_at(const struct books *b, int64_t sample)
{
    int k = 0;
    while (k + 1 < b->shape.buckets && dataset_bucket(b->data, k + 1).first <= sample)
        k++;
    return k;
}

static void count_sample(struct books *b, const struct batch_slot *s, int64_t step, int bucket, const char *where)
{
    uint8_t *seen = b->seen[s->epoch], bit = (uint8_t)(1 << (s->sample & 7));
    if (seen[s->sample >> 3] & bit)
        complain(b, where, "sample %lld occurs twice in epoch %u", (long long)s->sample, s->epoch);
    else
        b->counts[(int64_t)s->epoch * b->shape.buckets + bucket]++;
    seen[s->sample >> 3] |= bit;
    if (b->steps[step - 1].bucket != bucket)
        complain(b, where, "sample %lld belongs to a different bucket from the rest of the step", (long long)s->sample);
}

static int count_line(void *arg, const struct sample_log_line *line, struct err *err)
{
    struct books *b = arg;
    char where[64];
    size_t bytes = (size_t)b->shape.samples / 8 + 1;
    snprintf(where, sizeof(where), "step %lld, rank %d of %d", (long long)line->step, line->rank, line->world);
    if (line->step > STEPS_MOST)
        return err_set(err, ERR_DATA, "%s: too many steps for this check", where);
    if (more_steps(b, line->step, err) < 0)
        return -1;
    struct step_count *step = &b->steps[line->step - 1];
    for (int i = 0; i < line->n; i++) {
        const struct batch_slot *s = &line->slots[i];
        if (s->sample < 0 || s->sample >= b->shape.samples || s->epoch >= EPOCHS_MOST) {
            complain(b, where, "sample %lld of epoch %u does not exist", (long long)s->sample, s->epoch);
            continue;
        }
        if (more_epochs(b, s->epoch, err) < 0)
            return -1;
        if (!b->seen[s->epoch] && !(b->seen[s->epoch] = calloc(bytes, 1)))
            return err_set(err, ERR_MEMORY, "out of memory to check an epoch");
        int bucket = bucket_at(b, s->sample);
        if (step->samples++ == 0)
            step->bucket = bucket;
        count_sample(b, s, line->step, bucket, where);
        b->sum.samples++;
    }
    for (int i = 0; i < WORLDS && b->worlds[i] != line->world; i++)
        if (b->worlds[i] == 0) {
            b->worlds[i] = line->world;
            b->sum.sizes++;
            break;
        }
    b->sum.last = line->step > b->sum.last ? line->step : b->sum.last;
    if (b->sum.first == 0 || line->step < b->sum.first)
        b->sum.first = line->step;
    return 0;
}

static void check_steps(struct books *b)
{
    char where[32];
    for (int64_t i = b->sum.first; i > 0 && i <= b->sum.last; i++) {
        snprintf(where, sizeof(where), "step %lld", (long long)i);
        if (b->steps[i - 1].samples != b->batch)
            complain(b, where, "%d samples instead of %d", b->steps[i - 1].samples, b->batch);
    }
}

/* The finished epochs of a bucket: all but the last, and without the first if the log begins
 * inside it. Returns how many are complete from the beginning on. */
static int64_t check_epochs(struct books *b, int bucket)
{
    struct dataset_bucket k = dataset_bucket(b->data, bucket);
    int64_t first = -1, last = -1, complete = 0;
    char where[64];
    for (int64_t e = 0; e < b->epochs; e++)
        if (b->counts[e * b->shape.buckets + bucket] > 0) {
            first = first < 0 ? e : first;
            last = e;
        }
    if (b->sum.first == 1)
        first = 0;
    for (int64_t e = first; e >= 0 && e <= last; e++) {
        int64_t n = b->counts[e * b->shape.buckets + bucket];
        complete += n == k.samples;
        if (n == k.samples || e == last || (e == first && b->sum.first != 1))
            continue;
        snprintf(where, sizeof(where), "epoch %lld, bucket %dx%d", (long long)e, k.height, k.width);
        complain(b, where, "%lld of %lld samples", (long long)n, (long long)k.samples);
    }
    return complete;
}

static void check_all(struct books *b)
{
    check_steps(b);
    b->sum.epochs = INT64_MAX;
    for (int k = 0; k < b->shape.buckets; k++) {
        int64_t n = check_epochs(b, k);
        b->sum.epochs = n < b->sum.epochs ? n : b->sum.epochs;
    }
    if (b->sum.wrong > TOLD) {
        char what[64];
        snprintf(what, sizeof(what), "%lld more of this kind", (long long)(b->sum.wrong - TOLD));
        b->bad(b->arg, "...", what);
    }
}

int sample_audit_make(struct sample_audit *out, const char *dir, const struct dataset *d, int batch,
                      sample_audit_bad_fn bad, void *arg, struct err *err)
{
    struct books b = {.data = d, .shape = dataset_shape(d), .batch = batch, .bad = bad,
                      .arg = arg};
    int rc = sample_log_read(dir, count_line, &b, err);
    if (rc == 0) {
        check_all(&b);
        *out = b.sum;
    }
    for (int64_t e = 0; e < b.epochs; e++)
        free(b.seen[e]);
    free(b.seen);
    free(b.counts);
    free(b.steps);
    return rc;
}
