/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - see bench.h */
#include "engine/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/checkpoint/double_buffer.h"
#include "engine/checkpoint/snapshot.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "engine/bench/gpu_peak.h"
#include "kernels/bf16.h"
#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "kernels/rng.h"
#include "kernels/thread_pool.h"

struct bench {
    struct bench_spec     spec;
    struct step          *step;
    struct double_buffer *double_buffer; /* NULL: updates in place */
    double                update_ms;
    struct step_input     in;
    float                *x0, *noise, *y, *mask;
    uint16_t             *y_bf16; /* instead of y; or NULL */
    int                  *t_index;
    double               *ms;
};

static double now_ms(void)
{
    return 1e-6 * (double)clock_ns();
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int64_t resident_bytes(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f) {
        if (fscanf(f, "%ld %ld", &size, &resident) != 2)
            resident = 0;
        fclose(f);
    }
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

static float *random_floats(size_t n, uint64_t id)
{
    float *p = malloc((n ? n : 1) * sizeof(*p));
    const struct rng r = rng_make(1, 0, id, RNG_TEST);
    if (p)
        rng_normal(&r, p, 0, n);
    return p;
}

/* As training does. */
static int round_captions(struct bench *b, struct err *err)
{
    const struct model_limits *z = &b->spec.batch;
    const size_t n = (size_t)z->batch * (size_t)z->text * (size_t)b->spec.model.caption_channels;
    if (!(b->y_bf16 = malloc(n * sizeof(*b->y_bf16))))
        return err_set(err, ERR_MEMORY, "no memory for a batch of %d", z->batch);
    bf16_round(b->y_bf16, b->y, n);
    b->in.y = NULL;
    b->in.y_bf16 = b->y_bf16;
    return 0;
}

static int make_batch(struct bench *b, struct err *err)
{
    const struct model_limits *z = &b->spec.batch;
    const size_t B = (size_t)z->batch, text = B * (size_t)z->text;
    const size_t latent = B * (size_t)b->spec.model.latent_channels * (size_t)z->height * (size_t)z->width;
    b->x0 = random_floats(latent, 1);
    b->noise = random_floats(latent, 2);
    b->y = random_floats(text * (size_t)b->spec.model.caption_channels, 3);
    b->mask = random_floats(text, 4);
    b->t_index = calloc(B, sizeof(*b->t_index));
    b->ms = calloc((size_t)b->spec.steps, sizeof(*b->ms));
    if (!b->x0 || !b->noise || !b->y || !b->mask || !b->t_index || !b->ms)
        return err_set(err, ERR_MEMORY, "no memory for a batch of %d", z->batch);
    for (size_t i = 0; i < text; i++)
        b->mask[i] = 1;
    for (size_t i = 0; i < B; i++)
        b->t_index[i] = (int)((i * 389 + 211) % 1000);
    b->in = (struct step_input){
        .batch = z->batch, .height = z->height, .width = z->width, .text = z->text, .x0 = b->x0,
        .noise = b->noise, .t_index = b->t_index, .y = b->y, .mask = b->mask,
    };
    return step_takes_bf16(backend_ops(), &b->spec.model) ? round_captions(b, err) : 0;
}

/* The end of a step whose state lives in a memory file. */
static int snapshot_step(struct bench *b, struct err *err)
{
    double norm;
    if (params_squares(step_params(b->step), &norm, err) < 0)
        return -1;
    const double start = cpu_ms();
    if (params_update(step_params(b->step), b->spec.lr, sqrt(norm), err) < 0)
        return -1;
    double_buffer_seal(b->double_buffer, optim_count(params_optim(step_params(b->step))), &norm, sizeof(norm));
    b->update_ms = cpu_ms() - start;
    return 0;
}

static int one_step(struct bench *b, double *ms, double *loss, struct err *err)
{
    double norm;
    const double start = now_ms();
    step_begin(b->step);
    for (int i = 0; i < b->spec.micros; i++)
        if (step_micro(b->step, &b->in, 1.0 / b->spec.micros, loss, NULL, err) < 0)
            return -1;
    if ((b->double_buffer ? snapshot_step(b, err)
         : step_end(b->step, b->spec.lr, &norm, err)) < 0 ||
        backend_check(backend_ops(), err) < 0)
        return -1;
    *ms = now_ms() - start;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int measure(struct bench *b, struct bench_result *r, struct err *err)
{
    double ms;
    for (int i = 0; i < b->spec.warmup; i++)
        if (one_step(b, &ms, &r->loss, err) < 0)
            return -1;
    const int64_t resident = resident_bytes();
    for (int i = 0; i < b->spec.steps; i++)
        if (one_step(b, &b->ms[i], &r->loss, err) < 0)
            return -1;
    r->rss_growth = resident_bytes() - resident;
    r->ms_median = median(b->ms, b->spec.steps);
    r->ms_min = b->ms[0];
    r->ms_max = b->ms[b->spec.steps - 1];
    return 0;
}

/* Steps without and with snapshots, by turns. */
static int measure_snapshots(struct bench *b, struct bench_result *r, struct err *err)
{
    const int n = b->spec.steps;
    double *ms = calloc((size_t)n * 4, sizeof(*ms));
    int rc = -1;
    if (!ms)
        return err_set(err, ERR_MEMORY, "no memory for the times of %d steps", n);
    for (int i = -2 * b->spec.warmup; i < 2 * n; i++) {
        const int with = i & 1, at = i / 2;
        double took;
        double_buffer_keep(b->double_buffer, with);
        if (one_step(b, &took, &r->loss, err) < 0)
            goto out;
        if (i >= 0) {
            ms[with * n + at] = took;
            ms[(2 + with) * n + at] = b->update_ms;
        }
    }
    for (int with = 0; with < 2; with++) {
        r->step_ms[with] = median(ms + with * n, n);
        r->update_ms[with] = median(ms + (2 + with) * n, n);
    }
    rc = 0;
out:
    free(ms);
    return rc;
}

/* A step whose kernels are timed one by one. */
static int measure_profile(struct bench *b, struct bench_result *r, struct err *err)
{
    const struct kern_profile *p = backend_profile();
    p->start();
    if (one_step(b, &r->profile_ms, &r->loss, err) < 0)
        return -1;
    r->profile = p->stop(&r->profile_rows);
    return backend_check(backend_ops(), err);
}

/* Before the weights are set: earlier contents are lost. */
static int open_double_buffer(struct bench *b, struct err *err)
{
    const struct snapshot_run run = {layout_digest(model_layout(step_model(b->step))), 0, 1};
    if (!b->spec.snapshots)
        return 0;
    if (!backend_ops()->host)
        return err_set(err, ERR_USAGE, "snapshots are measured on the CPU; on a GPU they are copied during "
                                       "the next step");
    return double_buffer_create(&b->double_buffer, -1, &run, step_params(b->step), err);
}

int bench_run(struct bench_result *out, const struct bench_spec *spec, struct err *err)
{
    struct bench b = {.spec = *spec};
    struct bench_result r = {.steps = spec->steps, .threads = thread_pool_size()};
    int rc = -1;
    if (spec->steps < 1 || spec->warmup < 0 || spec->micros < 1)
        return err_set(err, ERR_USAGE, "a bench needs at least one step");
    if (spec->profile && !backend_profile())
        return err_set(err, ERR_USAGE, "--profile times the kernels of a GPU; the backend is the CPU: add --backend cuda");
    if (step_create(&b.step, &spec->model, &spec->batch, &spec->optim, spec->flow_shift, NULL, err) < 0 ||
        make_batch(&b, err) < 0 || open_double_buffer(&b, err) < 0)
        goto out;
    model_init_weights(step_model(b.step), 1);
    if (model_push(step_model(b.step), err) < 0)
        goto out;
    if (measure(&b, &r, err) < 0 || (b.double_buffer && measure_snapshots(&b, &r, err) < 0) ||
        (spec->profile && measure_profile(&b, &r, err) < 0))
        goto out;
    r.params = layout_params(model_layout(step_model(b.step)));
    const double samples = (double)spec->batch.batch * spec->micros;
    r.samples_per_s = samples / r.ms_median * 1e3;
    r.gflops = 3 * samples * model_forward_flops(&spec->model, 1, spec->batch.height,
                                                 spec->batch.width, spec->batch.text) /
               r.ms_median * 1e-6;
    r.peak_gflops = backend_is_bf16() ? gpu_peak_bf16(backend_device()) * 1e-9 : 0;
    r.mfu = r.peak_gflops > 0 ? r.gflops / r.peak_gflops : 0;
    *out = r;
    rc = 0;
out:
    double_buffer_destroy(b.double_buffer);
    step_destroy(b.step);
    free(b.x0);
    free(b.noise);
    free(b.y);
    free(b.y_bf16);
    free(b.mask);
    free(b.t_index);
    free(b.ms);
    return rc;
}
