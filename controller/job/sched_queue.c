/* SPDX-License-Identifier: Apache-2.0 */
/* sched_queue.c - see sched_queue.h */
#include "controller/job/sched_queue.h"

#include <stdlib.h>

/* The jobs that need the same slots. */
struct sched_line {
    int64_t          cpus, gpus;    /* as asked; -1: all of a node */
    struct job_order jobs;          /* by (-priority, id) */
    /* during a pass */
    struct sched_need need;
    size_t           at;
    bool             open;          /* a job at `at` or later may start or reserve slots */
};

static struct sched_line *line_of(struct sched_queue *q, const struct sched_job *j)
{
    for (size_t i = 0; i < q->nlines; i++)
        if (q->lines[i].cpus == j->cpus && q->lines[i].gpus == j->gpus)
            return &q->lines[i];
    return NULL;
}

static struct sched_line *line_add(struct sched_queue *q, const struct sched_job *j)
{
    struct sched_line *lines = realloc(q->lines, (q->nlines + 1) * sizeof(*lines));
    if (!lines)
        return NULL;
    q->lines = lines;
    lines[q->nlines] = (struct sched_line){ .cpus = j->cpus, .gpus = j->gpus };
    return &lines[q->nlines++];
}

static void line_drop(struct sched_queue *q, struct sched_line *line)
{
    job_order_fini(&line->jobs);
    *line = q->lines[--q->nlines];
}

static int64_t order(const struct sched_job *j)
{
    return j->order ? j->order : sched_order(j->id, 0, 0);
}

static int enqueue(struct sched_queue *q, struct sched_job *j)
{
    struct sched_line *line = line_of(q, j);
    if (!line)
        line = line_add(q, j);
    if (!line || job_order_put(&line->jobs, -j->priority, order(j), j) < 0)
        return -1;
    j->shelf = SHELF_LINE;
    return 0;
}

int sched_queue_put(struct sched_queue *q, struct sched_job *j)
{
    j->shelf = SHELF_ASIDE;
    if (j->dep == DEP_FAILED) {
        j->shelf = SHELF_REFUSED;
        return job_order_put(&q->refused, j->id, 0, j);
    }
    if (j->dep == DEP_OPEN || j->held || j->writer)
        return 0;
    if (j->not_before_ms > 0) {     /* the next pass checks whether it is over */
        j->shelf = SHELF_BACKOFF;
        return job_order_put(&q->backoffs, j->not_before_ms, j->id, j);
    }
    return enqueue(q, j);
}

void sched_queue_drop(struct sched_queue *q, struct sched_job *j)
{
    struct sched_line *line = j->shelf == SHELF_LINE ? line_of(q, j) : NULL;
    if (line) {
        job_order_drop(&line->jobs, -j->priority, order(j));
        if (line->jobs.count == 0)
            line_drop(q, line);
    } else if (j->shelf == SHELF_BACKOFF) {
        job_order_drop(&q->backoffs, j->not_before_ms, j->id);
    } else if (j->shelf == SHELF_REFUSED) {
        job_order_drop(&q->refused, j->id, 0);
    }
    j->shelf = SHELF_NONE;
}

/* ---- a pass ---- */

static int emit(struct sched_queue *q, const struct sched_job *j, enum sched_word word)
{
    if (q->nstarts == q->room) {
        const size_t room = 2 * q->room + 16;
        struct sched_job *starts = realloc(q->starts, room * sizeof(*starts));
        if (!starts)
            return -1;
        q->starts = starts;
        q->room = room;
    }
    q->starts[q->nstarts] = *j;
    q->starts[q->nstarts++].word = word;
    q->visited++;
    return 0;
}

static int emit_refused(struct sched_queue *q)
{
    for (size_t i = 0; i < q->refused.count; i++) {
        struct sched_job *j = job_order_at(&q->refused, i)->of;
        j->other = j->dep_id;
        if (emit(q, j, SCHED_AFTER_FAILED) < 0)
            return -1;
    }
    return 0;
}

static int end_backoffs(struct sched_queue *q, int64_t now_ms)
{
    while (q->backoffs.count > 0 && job_order_at(&q->backoffs, 0)->a <= now_ms) {
        struct sched_job *j = job_order_at(&q->backoffs, 0)->of;
        if (enqueue(q, j) < 0)
            return -1;
        job_order_drop(&q->backoffs, j->not_before_ms, j->id);
        q->visited++;
    }
    return 0;
}

static void begin(struct sched_queue *q, const struct sched_node *node)
{
    for (size_t i = 0; i < q->nlines; i++) {
        struct sched_line *l = &q->lines[i];
        l->at = 0;
        l->need = sched_need(l->cpus, l->gpus, node);
        l->open = l->cpus <= node->cpus;
    }
}

/* The line whose next job comes first; NULL: no job is left that could start or reserve slots. */
static struct sched_line *next_line(struct sched_queue *q, const struct sched_node *kept)
{
    const struct job_order_entry *best = NULL;
    struct sched_line *found = NULL;
    for (size_t i = 0; i < q->nlines; i++) {
        struct sched_line *l = &q->lines[i];
        const bool more = (l->need.cpus > 0 && kept->cpus_free > 0) || (l->need.gpus > 0 && kept->gpus_free > 0) ||
                          (l->need.cpus == 0 && l->need.gpus == 0);
        if (!l->open || !more || l->at == l->jobs.count)
            continue;
        const struct job_order_entry *e = job_order_at(&l->jobs, l->at);
        if (!best || e->a < best->a || (e->a == best->a && e->b < best->b)) {
            best = e;
            found = l;
        }
    }
    return found;
}

static int64_t take(int64_t *free, int64_t wanted)
{
    const int64_t taken = wanted < *free ? wanted : *free;
    *free -= taken;
    return taken;
}

int sched_queue_pass(struct sched_queue *q, struct sched_node *node, int64_t now_ms, int64_t *wake)
{
    struct sched_line *line;
    struct sched_node kept = *node;     /* free, less reservations of jobs ahead */
    q->nstarts = 0;
    if (emit_refused(q) < 0 || end_backoffs(q, now_ms) < 0)
        return -1;
    *wake = q->backoffs.count > 0 ? job_order_at(&q->backoffs, 0)->a : -1;
    begin(q, node);
    while ((line = next_line(q, &kept))) {
        struct sched_job *j = job_order_at(&line->jobs, line->at++)->of;
        const bool fits = line->need.cpus <= kept.cpus_free && line->need.gpus <= kept.gpus_free;
        j->take_cpus = take(&kept.cpus_free, line->need.cpus);
        j->take_gpus = take(&kept.gpus_free, line->need.gpus);
        if (fits && emit(q, j, SCHED_PLACE) < 0)
            return -1;
        q->visited += !fits;
        node->cpus_free -= fits ? line->need.cpus : 0;
        node->gpus_free -= fits ? line->need.gpus : 0;
    }
    return 0;
}

void sched_queue_fini(struct sched_queue *q)
{
    for (size_t i = 0; i < q->nlines; i++)
        job_order_fini(&q->lines[i].jobs);
    free(q->lines);
    free(q->starts);
    job_order_fini(&q->backoffs);
    job_order_fini(&q->refused);
    *q = (struct sched_queue){ 0 };
}
