/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - the loop; see train.h */
#include "engine/train/train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/contract/flight.h"
#include "engine/base/scratch.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/data/sample_log.h"
#include "engine/dist/step_sync.h"
#include "engine/optim/fixed_point_sum.h"
#include "engine/optim/schedule.h"
#include "engine/optim/step.h"
#include "engine/train/loss_log.h"
#include "engine/train/picture_decoder.h"
#include "engine/train/reducer.h"
#include "engine/train/rejoin.h"
#include "engine/train/sample_grid.h"
#include "engine/train/sample_prompts.h"
#include "engine/train/train_draw.h"
#include "engine/train/train_events.h"
#include "engine/train/train_input.h"
#include "engine/train/train_memory.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_room.h"
#include "engine/train/train_save.h"
#include "engine/train/train_snapshot.h"
#include "engine/train/train_start.h"
#include "engine/train/train_state.h"
#include "engine/train/train_validate.h"
#include "engine/weights/pretrained.h"

struct train;

static bool tick(void *arg, double share)
{
    struct train *t = arg;
    flight_work(t->flight, (uint64_t)(1000 * share), 1000);
    return true;
}

static float *draw(struct train *t, const struct sample_prompts *s, bool first, struct err *err)
{
    const struct train_draw how = {.steps = t->spec.sample_steps, .guidance = t->spec.sample_cfg,
                                   .method = SAMPLER_EULER, .seed = t->spec.seed, .first = first};
    return train_draw(t, s, &how, tick, t, err);
}

/* A grid of all prompts. */
static int write_grid(struct train *t, const struct sample_prompts *s, const struct sample_grid_pictures *all,
                      const char *path, struct err *err)
{
    struct picture_decoder decoder;
    if (picture_decoder_open(&decoder, t->data, &t->spec, err) < 0)
        return -1;
    const int rc = sample_grid_write(&decoder, s, all, path, err);
    picture_decoder_close(&decoder);
    return rc;
}

static int show(struct train *t, const struct sample_prompts *s, const float *before, const float *after,
                const char *name, struct err *err)
{
    char dir[CHECKPOINT_PATH + 16], path[CHECKPOINT_PATH + 64];
    const struct sample_grid_pictures all = {s->original, before, after};
    snprintf(dir, sizeof(dir), "%s/samples", t->dir);
    snprintf(path, sizeof(path), "%s/%s.png", dir, name);
    int rc = scratch_mkdirs(dir, err);
    if (rc == 0)
        rc = write_grid(t, s, &all, path, err);
    if (rc == 0) {
        progress_sample(t->progress, t->at, path);
        train_events_picture(t, before && !after ? "samples/before" : "samples/after", path);
        printf("pictures: %s\n", path);
    }
    return rc;
}

static int warn(struct train *t, const struct err *err)
{
    if (err->code == ERR_NONE)
        return 0;
    progress_warning(t->progress, "no pictures: %s", err->text);
    fprintf(stderr, "no pictures: %s\n", err->text);
    return 0;
}

static int train_pictures_before(struct train *t)
{
    struct sample_prompts s = {0};
    struct err err = {0};
    if (!t->spec.sample_before || !t->fresh)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_VALIDATE);
    if (sample_prompts_of_data(&s, t->data, t->spec.sample_count, &err) == 0 &&
        (t->before = draw(t, &s, true, &err)))
        show(t, &s, t->before, NULL, "before", &err);
    sample_prompts_free(&s);
    return warn(t, &err);
}

static int train_pictures_after(struct train *t)
{
    struct sample_prompts s = {0};
    struct sample_grid_score score;
    struct err err = {0};
    char name[32];
    float *after = NULL;
    if (!t->spec.sample_after)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_VALIDATE);
    snprintf(name, sizeof(name), "step-%08lld", (long long)t->at);
    if (sample_prompts_of_data(&s, t->data, t->spec.sample_count, &err) < 0)
        goto out;
    if (t->spec.sample_before && !t->before) /* a run that was resumed */
        t->before = draw(t, &s, true, &err);
    if (err.code == ERR_NONE && (after = draw(t, &s, false, &err)) &&
        show(t, &s, t->before, after, name, &err) == 0 && !train_spec_encodes(&t->spec) &&
        sample_grid_score(&score, t->data, &s, after, &err) == 0)
        printf("pictures: %d of %d are nearest to their own original, %.1f dB on average\n",
               score.nearest_own, score.samples, score.psnr);
out:
    free(after);
    sample_prompts_free(&s);
    return warn(t, &err);
}

/* --- a step ----------------------------------------------------------------------------- */

enum { TRIES = 4 };

/* Samples [from, from + n) of the source's global batch, forward and backward. *loss: weighted. */
static int micro(struct train *t, const struct train_source *of, int from, int n, int index, double *loss)
{
    struct step_input in;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_DATA);
    if (t->at == t->env->stop_at && index == 0)
        raise(SIGSTOP);
    if (train_input_take(t, of, &in, from, n) < 0 ||
        (of->loader == t->loader &&
         sample_log_add(t->samples, loader_slots(of->loader), n, in.height, in.width, &t->err) < 0))
        return -1;
    flight_micro(t->flight, (uint64_t)index, (uint64_t)in.height, (uint64_t)in.width);
    if (train_memory_take(t, in.height, in.width, n) < 0)
        return -1;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_FORWARD);
    if (step_micro(t->step, &in, of->weight * n / t->spec.batch_global, loss, NULL, &t->err) < 0)
        return -1;
    *loss *= of->weight;
    return t->err.code == ERR_NONE ? 0 : -1; /* a callback of the backward pass may have failed */
}

/* The collectives of a pass need all ranks: passes without samples. Without callbacks of units they do nothing. */
static int idle(struct train *t, int passes)
{
    for (int i = 0; i < passes; i++)
        model_pass_idle(step_model(t->step));
    return t->err.code == ERR_NONE ? 0 : -1;
}

/* This rank's micro-batches of a source; *index counts those of the step. Returns the most that any rank has, or -1. */
static int add_source(struct train *t, const struct train_source *of, bool last, int *index)
{
    const struct reducer_slice s = t->reducer->slice(t, of);
    for (int from = s.from; from < s.to; from += s.micro, ++*index) {
        const int n = s.to - from < s.micro ? s.to - from : s.micro;
        double loss;
        t->last_micro = last && from + n == s.to;
        if (micro(t, of, from, n, *index, &loss) < 0)
            return -1;
        t->reducer->add(t, loss, n);
    }
    return s.passes;
}

/* As reducer.finish(). A rank with fewer micro-batches than others makes up for them with idle passes (fsdp). */
static int try_accumulate(struct train *t)
{
    const struct train_source own = train_input_source(t);
    int index = 0;
    t->reducer->begin(t);
    t->exchange->begin(t);
    sample_log_begin(t->samples);
    const int passes = add_source(t, &own, !t->prior.data, &index);
    const int more = passes >= 0 && t->prior.data ? add_source(t, &t->prior, true, &index) : 0;
    if (passes < 0 || more < 0 || train_snapshot_settle(t) < 0 || idle(t, passes + more - index) < 0)
        return -1;
    return t->reducer->finish(t);
}

static int accumulate(struct train *t)
{
    int done = 0;
    for (int i = 0; i < TRIES && done == 0; i++)
        done = try_accumulate(t);
    if (done == 0)
        err_set(&t->err, ERR_BUG, "the exponents of step %lld do not converge", (long long)t->at + 1);
    return done > 0 ? 0 : -1;
}

static bool save_is_due(const struct train *t)
{
    if (t->spec.checkpoint_every_steps > 0)
        return t->at % t->spec.checkpoint_every_steps == 0;
    return train_clock() - t->saved_s >= t->spec.checkpoint_every_s;
}

static int not_finite(struct train *t, const char *what, double value)
{
    t->code = EXIT_NAN;
    t->err = (struct err){0};
    return err_set(&t->err, ERR_DATA, "%s of step %lld is %g; a smaller optimizer.lr or a longer "
                                      "schedule.warmup may help",
                   what, (long long)t->at + 1, value);
}

/* Milliseconds of each phase per step since the last line to the agent. False: there is none yet, for what came before
 * the first step is no phase of one. */
static bool phases_since(struct train *t, double ms[FLIGHT_PHASES])
{
    struct flight_page page;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    const int64_t steps = t->at - t->told_at;
    const bool known = t->told_at > 0 && steps > 0;
    flight_read(t->flight, &page);
    for (int p = 0; p < FLIGHT_PHASES; p++) {
        const uint64_t ns = flight_spent_ns(&page, (enum flight_phase)p, now_ns);
        ms[p] = known ? (double)(ns - t->told_ns[p]) / 1e6 / (double)steps : 0;
        t->told_ns[p] = ns;
    }
    t->told_at = t->at;
    return known;
}

static void report(struct train *t, double grad_norm, double lr, double took)
{
    double now = train_clock();
    bool edge = t->at == t->spec.steps || t->step_s == 0;
    t->step_s = t->step_s > 0 ? 0.9 * t->step_s + 0.1 * took : took;
    double speed = t->spec.batch_global / t->step_s;
    if (!train_is_first(t))
        return;
    struct err log = {0};
    if (loss_log_add(t->metrics, t->at, t->loss, grad_norm, lr, speed, &log) < 0)
        train_warn_log(t, &log);
    train_events_step(t, grad_norm, lr, speed);
    if (edge || now - t->told_s >= 0.02) {
        double ms[FLIGHT_PHASES];
        const bool known = phases_since(t, ms);
        progress_step(t->progress, t->at, t->spec.steps, t->loss, grad_norm, lr, speed, 1000 * took, known ? ms : NULL);
        t->told_s = now;
    }
    if (edge || now - t->said_s >= 2) {
        printf("step %lld/%lld  loss %.4f  %.0f samples/s  lr %.2e\n", (long long)t->at,
               (long long)t->spec.steps, t->loss, speed, lr);
        t->said_s = now;
    }
}

/* The loss of the coming step was not finite in an earlier attempt. */
static bool is_skipped(const struct train *t)
{
    for (int i = 0; i < t->env->skips.n; i++)
        if (t->env->skips.step[i] == t->at)
            return true;
    return false;
}

static int skip_step(struct train *t)
{
    struct train_skips *s = &t->left_out;
    if (s->n == TRAIN_SKIPS)
        memmove(s->step, s->step + 1, (size_t)--s->n * sizeof(*s->step));
    s->step[s->n++] = t->at;
    if (train_is_first(t))
        progress_warning(t->progress, "step %lld is skipped: its loss or gradient was not finite",
                         (long long)t->at + 1);
    t->at++;
    flight_step_done(t->flight, (uint64_t)t->at, 0);
    return 0;
}

static int one_step(struct train *t)
{
    if (is_skipped(t))
        return skip_step(t);
    double start = train_clock(), grad_norm = 0;
    double lr = schedule_lr(&t->spec.schedule, t->at);
    if (accumulate(t) < 0)
        return -1;
    if (!isfinite(t->loss))
        return not_finite(t, "the loss", t->loss);
    flight_enter(t->flight, (uint64_t)t->at, PHASE_OPTIMIZER);
    if (t->reducer->norm(t, &grad_norm) < 0)
        return -1;
    if (!isfinite(grad_norm))
        return not_finite(t, "the gradient norm", grad_norm);
    if (train_snapshot_guard(t) < 0 ||
        params_update(t->params, lr, grad_norm, &t->err) < 0 || t->exchange->updated(t) < 0)
        return -1;
    t->at++;
    t->micro.samples = 0;
    struct err log = {0};
    if (sample_log_commit(t->samples, t->at, &log) < 0)
        train_warn_log(t, &log);
    if (train_snapshot_save(t) < 0)
        return -1;
    double took = train_clock() - start;
    flight_step_done(t->flight, (uint64_t)t->at, (uint64_t)(took * 1e9));
    train_save_prove(t);
    report(t, grad_norm, lr, took);
    return 0;
}

/* A checkpoint of the current step; `whole`: returns when it is. Waits for a full disk. */
static int save(struct train *t, bool whole)
{
    if (train_save(t) < 0 || (whole && train_save_wait(t) < 0))
        return -1;
    return train_save_lacks_room(t) ? train_room_wait(t) : 0;
}

/* With a checkpoint, unless its disk is full. */
static int stop(struct train *t)
{
    if (train_save(t) < 0 || train_save_wait(t) < 0)
        return -1;
    t->code = EXIT_ABORTED;
    if (train_save_lacks_room(t))
        return err_set(&t->err, ERR_CONFLICT, "stopped on request at step %lld of %lld without a checkpoint: %.300s",
                       (long long)t->at, (long long)t->spec.steps, train_save_full(t)->text);
    return err_set(&t->err, ERR_CONFLICT, "stopped on request at step %lld of %lld; the checkpoint is written",
                   (long long)t->at, (long long)t->spec.steps);
}

/* At a step boundary: carries out commands and writes checkpoints that are due. */
static int boundary(struct train *t)
{
    struct step_sync_orders orders = {.asked = progress_poll(t->progress),
                                      .due = t->at > t->saved && t->at > 0 && save_is_due(t)};
    if (train_save_poll(t, &orders.stage) < 0 || train_ranks_agree(t, &orders) < 0)
        return -1;
    train_save_advance(t, orders.stage);
    if (orders.asked == CMD_STOP)
        return stop(t);
    if (train_save_lacks_room(t) && train_room_wait(t) < 0)
        return -1;
    return orders.asked == CMD_CHECKPOINT || orders.due ? save(t, false) : 0;
}

/* All ranks find NaN in the same step, so they can still finish the checkpoint that is being written. */
static int after_failure(struct train *t)
{
    const struct err err = t->err;
    if (t->code == EXIT_NAN && train_save_wait(t) < 0) {
        t->err = err;
        t->code = EXIT_NAN;
    }
    return -1;
}

static int train_steps(struct train *t)
{
    const struct train_traffic before = train_ranks_traffic(t);
    t->saved_s = train_clock();
    t->began = t->at;
    while (t->at < (t->env->until > 0 ? t->env->until : t->spec.steps))
        if (boundary(t) < 0 || train_validate(t) < 0 || one_step(t) < 0)
            return after_failure(t);
    if (train_is_first(t)) {
        train_input_summary(t);
        train_ranks_summary(t, &before);
    }
    return save(t, true) < 0 ? -1 : train_validate(t);
}

/* The cause that agent/core/cause.h knows. */
static const char *cause_of(enum exit_code code)
{
    static const char *const causes[] = {
        [EXIT_CONFIG] = "config_error",
        [EXIT_NO_DEVICE] = "config_error",
        [EXIT_DATA] = "data_error",
        [EXIT_CHECKPOINT] = "checkpoint_error",
        [EXIT_HOST_MEMORY] = "host_oom",
        [EXIT_GPU_MEMORY] = "gpu_oom",
        [EXIT_GPU_FAULT] = "gpu_fault",
        [EXIT_COLLECTIVE] = "nccl_error",
        [EXIT_ABORTED] = "preempted",
        [EXIT_NAN] = "nan_loss",
        [EXIT_DESYNC] = "desync",
        [EXIT_DISK_FULL] = "disk_full",
        [EXIT_IO] = "io_error",
        [EXIT_LIMIT] = "resource_limit",
        [EXIT_DIR_IN_USE] = "dir_in_use",
        [EXIT_CUDA] = "cuda_error",
    };
    const bool known = (size_t)code < sizeof(causes) / sizeof(causes[0]) && causes[code];
    return known ? causes[code] : "unknown";
}

static int tell_end(struct train *t, int rc)
{
    if (rc == 0) {
        progress_done(t->progress, t->at, t->loss);
        return EXIT_DONE;
    }
    if (t->err.code == ERR_DEVICE_MEMORY && t->code == EXIT_DONE)
        train_memory_lower(t);
    const int code = t->code != EXIT_DONE ? (int)t->code : exit_code_of(&t->err);
    progress_failed(t->progress, cause_of((enum exit_code)code), code, t->err.text, code == EXIT_NAN ? t->at : -1);
    fprintf(stderr, "jobctl-train: %s\n", t->err.text);
    return code;
}

/* A thread is stuck in the GPU's library, or busy with a checkpoint that cannot be finished. */
static _Noreturn void leave_now(int code)
{
    fflush(NULL);
    _exit(code);
}

/* This rank is healthy and has lost only its connection to the others. */
static bool only_detached(const struct train *t, int rc)
{
    return rc < 0 && t->code == EXIT_COLLECTIVE && t->env->world_size > 1 && !t->env->until &&
           rejoin_offered(t->progress);
}

static void close_rest(struct train *t)
{
    train_save_close(t);
    train_snapshot_close(t);
    exchange_fsdp_close(t);
    fixed_point_sum_destroy(t->fixed_sum);
    loss_log_close(t->metrics);
    train_events_close(t);
    sample_log_close(t->samples);
    step_destroy(t->step);
    loader_destroy(t->loader);
    loader_destroy(t->prior.loader);
    json_decref(t->codec);
    dataset_close(t->data);
    dataset_close(t->prior.data);
    pretrained_close(t->pretrained);
    flight_close(t->flight);
    free(t->before);
}

/* An error of CUDA stays with the process; a peer that dies may cause one, where its memory was read. */
static bool device_failed(struct train *t)
{
    struct err why = {0};
    if (backend_check(backend_ops(), &why) == 0)
        return false;
    t->err = why;
    t->code = EXIT_DONE;
    return true;
}

/* All resources are freed: waits for the agent to name the ranks of the next generation. False: the rank ends
 * as failed. */
static bool joins_again(struct train *t)
{
    struct err why = {0};
    printf("ranks: %s\n", t->err.text);
    progress_detached(t->progress, cause_of(t->code), t->err.text, t->at);
    if (rejoin_wait(t->progress, REJOIN_MS, &why))
        return true;
    fprintf(stderr, "jobctl-train: cannot rejoin the other ranks: %s\n", why.text);
    return false;
}

/* Runs from the spec to the end. *again: this process is to run once more, with the next generation. */
static int run_once(struct train *t, bool *again)
{
    int rc = flight_attach(&t->flight, t->env->flight, &t->err);
    if (rc == 0)
        rc = train_start(t);
    if (rc == 0 && train_is_first(t) && !t->env->until)
        rc = train_pictures_before(t);
    if (rc == 0)
        rc = train_steps(t);
    if (rc == 0 && train_is_first(t) && !t->env->until)
        rc = train_pictures_after(t);
    if (t->flight)
        flight_enter(t->flight, (uint64_t)t->at, PHASE_IDLE);
    const bool idle = train_save_end(t);
    const bool detached = idle && only_detached(t, rc);
    int code = detached ? EXIT_DONE : tell_end(t, rc);
    train_ranks_close(t);
    if (!idle || dist_is_stuck())
        leave_now(detached ? tell_end(t, rc) : code);
    close_rest(t);
    *again = detached && !device_failed(t) && joins_again(t);
    return detached && !*again ? tell_end(t, rc) : code;
}

int train_run(const json_t *job, const struct train_env *env, struct progress *progress)
{
    struct train_env now = *env;
    struct err err = {0};
    bool again = true;
    int code = EXIT_DONE;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (again) {
        struct train *t = calloc(1, sizeof(*t));
        if (!t)
            return EXIT_HOST_MEMORY;
        t->job = job;
        t->env = &now;
        t->progress = progress;
        code = run_once(t, &again);
        free(t);
        if (again && train_env_read(&now, &err) < 0) {
            fprintf(stderr, "jobctl-train train: %s\n", err.text);
            return exit_code_of(&err);
        }
        now.backend = env->backend ? env->backend : now.backend;
    }
    return code;
}
