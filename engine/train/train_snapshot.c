/* SPDX-License-Identifier: Apache-2.0 */
/* train_snapshot.c - see train_snapshot.h */
#include "engine/train/train_snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/data/background.h"
#include "engine/checkpoint/double_buffer.h"
#include "engine/checkpoint/snapshot.h"
#include "engine/checkpoint/snapshot_interval.h"
#include "engine/checkpoint/snapshot_share.h"
#include "engine/base/env.h"
#include "engine/contract/flight.h"
#include "engine/model/backend.h"
#include "engine/model/device_memory.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "engine/train/reducer.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"
#include "kernels/cuda.h"
#include "kernels/kernels.h"

enum { NAP_NS = 50000, END_S = 5, COPY_S = 600, READ_MS = 600000 };
enum { TIMED_STEPS = 3, TIMED_COPIES = 3, TIMED_FLOATS = 16 << 20 }; /* that the interval is derived from */

/* The state of a run beside its tensors; followed by the exponents of a reproducible run. */
struct notes {
    int64_t            optim_count;
    double             loss;
    struct train_skips left_out;
};

struct train_snapshot {
    int                   fd, old[SNAPSHOT_RANKS], n_old;
    struct double_buffer *double_buffer; /* of the CPU */
    struct snapshot_set  *set; /* of the last generation, until this one has its own */
    char                 *notes;         /* SNAPSHOT_NOTES */
    size_t                notes_size;
    bool                  keeps;         /* takes snapshots */
    int64_t               first;         /* the step that this generation began at, or -1 */
    /* Of a GPU: */
    struct state         state;
    struct snapshot     *writer;
    void                *stream, *fetched; /* the mark behind the current copy, or NULL */
    int64_t              coming;           /* its step until it is sealed, or -1 */
    int64_t              last;             /* step of the last snapshot, or -1 */
    bool                 pinned, opened;   /* its memory; that is known */
    struct background    beside;           /* pins the memory, then seals copies */
    int                  every;            /* steps from one to the next; 1 until it is known */
    int                  timed;            /* steps so far, until it is known */
    double               rate;             /* bytes per second to host memory */
    double               step_at, step_s;  /* the end of the last step; the shortest so far */
};

/* JOBCTL_SNAPSHOT_OLD is a list of descriptors; anything but a number ends it. */
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

static bool has_memory(const struct train *t, int64_t bytes)
{
    const struct device_memory room = device_memory_host();
    return room.free == 0 || bytes * train_ranks_local(t) <= room.free / 4;
}

static void report_no_memory(struct train *t, int64_t bytes)
{
    if (train_ranks_first_local(t))
        progress_warning(t->progress,
                         "no snapshots in memory: they need %.1f GiB of the %.1f GiB free, and may use a "
                         "quarter; after a failure the steps since the last checkpoint are repeated",
                         (double)bytes * train_ranks_local(t) / 0x1p30,
                         (double)device_memory_host().free / 0x1p30);
}

/* Beside the start of the run: a few seconds for tens of GB. */
static void pin(void *arg)
{
    struct train_snapshot *s = arg;
    size_t bytes;
    void *at = snapshot_memory(s->writer, &bytes);
    s->pinned = backend_streams()->pin(at, bytes) == 0;
}

static int open_stream(struct train *t, struct train_snapshot *s)
{
    s->stream = backend_streams()->open(false);
    if (!s->stream)
        return backend_check(backend_ops(), &t->err);
    background_start(&s->beside, pin, s);
    return 0;
}

static struct snapshot_run run_of(const struct train *t)
{
    return (struct snapshot_run){layout_digest(model_layout(step_model(t->step))), t->env->rank,
                                 t->env->world_size};
}

/* With two images if memory allows; else, and without an agent, one image in a file of its own. */
static int open_double_buffer(struct train *t, struct train_snapshot *s)
{
    const struct snapshot_run run = run_of(t);
    struct state state;
    if (params_state(t->params, &state, &t->err) < 0)
        return -1;
    const int64_t more = (int64_t)(state_saves(&state) * sizeof(float));
    const bool room = has_memory(t, more);
    state_free(&state);
    if (s->fd >= 0 && !room)
        report_no_memory(t, more);
    s->keeps = s->fd >= 0 && room;
    if (double_buffer_create(&s->double_buffer, s->keeps ? s->fd : -1, &run, t->params, &t->err) < 0)
        return -1;
    double_buffer_keep(s->double_buffer, s->keeps);
    return 0;
}

static int open_writer(struct train *t, struct train_snapshot *s)
{
    const struct snapshot_run run = run_of(t);
    struct err why = {0};
    if (params_kernel_state(t->params, &s->state, &t->err) < 0)
        return -1;
    if (!has_memory(t, snapshot_bytes(&s->state))) {
        report_no_memory(t, snapshot_bytes(&s->state));
        return 0;
    }
    if (snapshot_create(&s->writer, s->fd, &run, &s->state, &why) < 0)
        progress_warning(t->progress, "%s", why.text);
    s->keeps = s->writer != NULL;
    return s->writer ? open_stream(t, s) : 0;
}

int train_snapshot_open(struct train *t)
{
    struct train_snapshot *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(&t->err, ERR_MEMORY, "no memory for a snapshot");
    t->snapshot = s;
    s->first = s->coming = s->last = -1;
    s->every = 1;
    read_env(s);
    if ((backend_ops()->host ? open_double_buffer(t, s) : s->fd >= 0 ? open_writer(t, s) : 0) < 0)
        return -1;
    if (s->fd < 0)
        return 0;
    s->notes = calloc(1, SNAPSHOT_NOTES);
    if (!s->notes)
        return err_set(&t->err, ERR_MEMORY, "no memory for a snapshot");
    return snapshot_set_open(&s->set, s->old, s->n_old, &t->err);
}

/* Seals the copy that has arrived, on all cores that steps leave. */
static void seal(void *arg)
{
    struct train_snapshot *s = arg;
    snapshot_seal(s->writer, s->coming, s->notes, s->notes_size);
}

static void arrived(struct train_snapshot *s)
{
    backend_streams()->drop(s->fetched);
    s->fetched = NULL;
    background_start(&s->beside, seal, s);
}

/* The result of reached(): 1 done, 0 not within most_s, -1 failed. */
static int wait_for(void *mark, double most_s)
{
    const double since = train_clock();
    int r;
    while ((r = backend_streams()->reached(mark)) == 0 && train_clock() - since < most_s)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    return r;
}

/* Waits for the last copy, which writes to the memory, and for the thread. */
static void close_stream(struct train_snapshot *s)
{
    size_t bytes;
    if (!s->stream)
        return;
    if (s->fetched) {
        wait_for(s->fetched, END_S);
        backend_streams()->drop(s->fetched);
    }
    background_wait(&s->beside);
    backend_streams()->close(s->stream);
    if (s->pinned) {
        void *at = snapshot_memory(s->writer, &bytes);
        backend_streams()->unpin(at, bytes);
    }
}

void train_snapshot_close(struct train *t)
{
    struct train_snapshot *s = t->snapshot;
    if (!s)
        return;
    close_stream(s);
    snapshot_set_close(s->set);
    snapshot_destroy(s->writer);
    double_buffer_destroy(s->double_buffer);
    state_free(&s->state);
    free(s->notes);
    free(s);
}

int train_snapshot_step(struct train *t, int64_t *step)
{
    const uint64_t layout = layout_digest(model_layout(step_model(t->step)));
    if (snapshot_share_step(t->dist, t->snapshot->set, layout, train_ranks_first_local(t), READ_MS, step, &t->err) < 0)
        return train_ranks_failed(t);
    return 0;
}

int train_snapshot_load(struct train *t, int64_t step)
{
    struct train_snapshot *s = t->snapshot;
    struct notes n;
    struct state state;
    size_t size, exponents;
    uint64_t came;
    const char *text = s->set ? snapshot_set_notes(s->set, step, &size) : NULL;
    int32_t *exponent = reducer_fixed_exponents(t, &exponents);
    if (!text || size != sizeof(n) + exponents * sizeof(*exponent))
        return err_set(&t->err, ERR_BUG, "the snapshot of step %lld does not belong to this run", (long long)step);
    memcpy(&n, text, sizeof(n));
    if (exponent)
        memcpy(exponent, text + sizeof(n), exponents * sizeof(*exponent));
    if (params_state(t->params, &state, &t->err) < 0)
        return -1;
    int rc = snapshot_share_load(t->dist, s->set, step, &state, READ_MS, &came, &t->err);
    state_free(&state);
    if (rc < 0)
        return train_ranks_failed(t);
    optim_set_count(params_optim(t->params), n.optim_count);
    t->at = step;
    t->loss = n.loss;
    t->left_out = n.left_out;
    if (params_push(t->params, &t->err) < 0)
        return -1;
    if (train_is_first(t))
        printf("resumed: step %lld from memory\n", (long long)step);
    if (train_ranks_first_local(t) && came > 0)
        printf("memory: %.1f MiB came from other nodes\n", (double)came / 0x1p20);
    return 0;
}

/* This generation has a complete snapshot of its own: frees those of the last one. All ranks have finished the
 * step after the first, so none reads them any more. */
static void forget_old(struct train *t, struct train_snapshot *s)
{
    snapshot_set_close(s->set);
    s->set = NULL;
    if (!train_ranks_first_local(t))
        return;
    for (int i = 0; i < s->n_old; i++)
        if (ftruncate(s->old[i], 0) < 0)
            return; /* the agent frees it with the next generation */
    s->n_old = 0;
}

static int fetch(void *arg, float *to, const float *from, size_t n)
{
    const struct train_snapshot *s = arg;
    return backend_streams()->fetch(s->stream, to, from, n * sizeof(*to));
}

/* Starts a copy that overlaps with the next step. A failure of the device shows in the next kernels. */
static void begin_copy(struct train *t, struct train_snapshot *s)
{
    const struct kern_streams *streams = backend_streams();
    void *updated = streams->mark(NULL);
    if (updated && streams->follow(s->stream, updated) == 0 && snapshot_bring(s->writer, fetch, s) == 0 &&
        (s->fetched = streams->mark(s->stream)))
        s->coming = t->at;
    s->last = t->at;
    if (updated)
        streams->drop(updated);
}

/* --- the interval of a GPU's snapshots --------------------------------------------------- */

/* The part with the most numbers. */
static const struct state_part *largest(const struct state *s)
{
    const struct state_part *most = &s->part[0];
    for (int i = 1; i < s->len; i++)
        if (s->part[i].to - s->part[i].from > most->to - most->from)
            most = &s->part[i];
    return most;
}

/* A copy of some of the state to where the first snapshot will be. The best of several counts. */
static void measure_rate(struct train_snapshot *s)
{
    const struct state_part *part = largest(&s->state);
    const size_t all = part->to - part->from, floats = all < TIMED_FLOATS ? all : TIMED_FLOATS;
    const double since = train_clock();
    void *mark = NULL;
    if (fetch(s, snapshot_image(s->writer, 0), part->data, floats) == 0 &&
        (mark = backend_streams()->mark(s->stream)) && wait_for(mark, COPY_S) > 0)
        s->rate = fmax(s->rate, (double)(floats * sizeof(float)) / (train_clock() - since));
    if (mark)
        backend_streams()->drop(mark);
}

static void begin_first(struct train *t, struct train_snapshot *s)
{
    size_t bytes;
    background_wait(&s->beside);
    s->opened = true;
    snapshot_memory(s->writer, &bytes);
    if (!s->pinned)
        progress_warning(t->progress, "each snapshot delays a step: cannot pin %.2f GiB of memory for the GPU",
                         (double)bytes / 0x1p30);
    for (int i = 0; i < TIMED_COPIES; i++)
        measure_rate(s);
}

static void report_interval(struct train *t, int every, const struct snapshot_pace *pace)
{
    char times[80], text[240];
    const double copy_s = pace->bytes / pace->rate;
    snprintf(times, sizeof(times), "a copy of %.1f MiB takes %.1f ms, a step %.1f ms", pace->bytes / 0x1p20,
             1e3 * copy_s, 1e3 * pace->step_s);
    printf("snapshots: one in %d steps; %s\n", every, times);
    snprintf(text, sizeof(text), "one snapshot in %d steps, the most that a failure costs: %s, and copies may take %.0f %% "
             "of the time", every, times, 100 * SNAPSHOT_COST);
    progress_snapshots(t->progress,
                       &(struct progress_snapshots){every, (int64_t)pace->bytes, copy_s, pace->step_s, text});
}

/* The longest interval of any rank, so that all make the same snapshots. */
static int choose_interval(struct train *t, struct train_snapshot *s)
{
    const struct snapshot_pace pace = {(double)state_saves(&s->state) * sizeof(float), s->rate, s->step_s};
    int least = -(t->env->snapshot_every ? t->env->snapshot_every : snapshot_interval(&pace));
    if (train_ranks_least(t, &least) < 0)
        return -1;
    s->every = -least;
    if (train_is_first(t) && s->every > 1)
        report_interval(t, s->every, &pace);
    return 0;
}

/* After each step. */
static int time_step(struct train *t, struct train_snapshot *s)
{
    const double now = train_clock(), took = now - s->step_at;
    if (s->timed > TIMED_STEPS)
        return 0;
    if (s->timed > 0)
        s->step_s = s->timed == 1 || took < s->step_s ? took : s->step_s;
    s->step_at = now;
    return s->timed++ == TIMED_STEPS ? choose_interval(t, s) : 0;
}

static bool is_due(const struct train_snapshot *s, int64_t at)
{
    return s->last < 0 || at - s->last >= s->every;
}

static bool has_arrived(const struct train_snapshot *s)
{
    return s->fetched && backend_streams()->reached(s->fetched) > 0;
}

int train_snapshot_settle(struct train *t)
{
    struct train_snapshot *s = t->snapshot;
    if (s->coming < 0 || !is_due(s, t->at + 1))
        return 0;
    const int r = s->fetched ? wait_for(s->fetched, COPY_S) : 1;
    if (r == 0)
        return err_set(&t->err, ERR_CUDA, "the GPU did not finish a copy to host memory in %d s", COPY_S);
    if (r < 0)
        return backend_check(backend_ops(), &t->err);
    if (s->fetched)
        arrived(s);
    background_wait(&s->beside);
    s->coming = -1;
    return 0;
}

int train_snapshot_guard(struct train *t)
{
    struct train_snapshot *s = t->snapshot;
    if (s->fetched && backend_streams()->follow(NULL, s->fetched) < 0)
        return backend_check(backend_ops(), &t->err);
    return 0;
}

/* --- after a step ------------------------------------------------------------------------ */

static bool take_notes(struct train *t, struct train_snapshot *s)
{
    const struct notes n = {.optim_count = optim_count(params_optim(t->params)), .loss = t->loss,
                            .left_out = t->left_out};
    size_t exponents;
    const int32_t *exponent = reducer_fixed_exponents(t, &exponents);
    if (sizeof(n) + exponents * sizeof(*exponent) > SNAPSHOT_NOTES)
        return false;
    memcpy(s->notes, &n, sizeof(n));
    if (exponent)
        memcpy(s->notes + sizeof(n), exponent, exponents * sizeof(*exponent));
    s->notes_size = sizeof(n) + exponents * sizeof(*exponent);
    return true;
}

static int save_from_gpu(struct train *t, struct train_snapshot *s)
{
    if (!s->opened)
        begin_first(t, s);
    if (time_step(t, s) < 0)
        return -1;
    if (has_arrived(s))
        arrived(s);
    if (is_due(s, t->at) && take_notes(t, s))
        begin_copy(t, s);
    return 0;
}

int train_snapshot_save(struct train *t)
{
    struct train_snapshot *s = t->snapshot;
    if (!s->keeps)
        return 0;
    if (s->first < 0)
        s->first = t->at;
    if (s->n_old > 0 && t->at > s->first + 1)
        forget_old(t, s);
    if (!s->double_buffer)
        return save_from_gpu(t, s);
    if (take_notes(t, s))
        double_buffer_seal(s->double_buffer, t->at, s->notes, s->notes_size);
    return 0;
}

bool train_snapshot_hold(struct train *t, int64_t *bytes)
{
    struct double_buffer *double_buffer = t->snapshot->double_buffer;
    *bytes = double_buffer ? double_buffer_image_bytes(double_buffer) : 0;
    if (!double_buffer) /* on a GPU, steps change device memory only */
        return true;
    if (!has_memory(t, *bytes))
        return false;
    double_buffer_hold(double_buffer);
    return true;
}

void train_snapshot_release(struct train *t)
{
    if (t->snapshot->double_buffer)
        double_buffer_release(t->snapshot->double_buffer);
}
