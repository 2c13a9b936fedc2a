/* SPDX-License-Identifier: Apache-2.0 */
/* train_start.c - see train_start.h */
#include "engine/train/train_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/checkpoint/lineage.h"
#include "engine/base/digest.h"
#include "engine/contract/flight.h"
#include "engine/base/scratch.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/data/sample_log.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "engine/train/loss_log.h"
#include "engine/train/reducer.h"
#include "engine/train/train_base.h"
#include "engine/train/train_events.h"
#include "engine/train/train_input.h"
#include "engine/train/train_memory.h"
#include "engine/train/train_dir.h"
#include "engine/train/train_encode.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_room.h"
#include "engine/train/train_save.h"
#include "engine/train/train_snapshot.h"
#include "engine/train/train_state.h"
#include "engine/weights/pretrained.h"
#include "kernels/kernels.h"
#include "kernels/processor.h"

/* Each rank chooses its algorithms for matrix products once per run: a resumed run has the same bits and saves
 * the time to choose. */
static void remember_products(const struct train *t)
{
    char path[CHECKPOINT_PATH + 32];
    snprintf(path, sizeof(path), "%s/products.%d-of-%d", t->dir, t->env->rank, t->env->world_size);
    backend_remember(path);
}

/* Returns false to stop encoding when the run is asked to stop. */
static bool on_encoded(void *arg, int64_t done, int64_t total)
{
    struct train *t = arg;
    double now = train_clock();
    flight_work(t->flight, (uint64_t)done, (uint64_t)total);
    if (now - t->said_s >= 5 && done < total) {
        if (t->said_s > 0)
            printf("data: %lld of %lld pictures encoded\n", (long long)done, (long long)total);
        t->said_s = now;
    }
    if (done == total || !progress_stop_asked(t->progress))
        return true;
    t->code = EXIT_ABORTED;
    return false;
}

static void tell_data(const struct train *t)
{
    struct dataset_shape s = dataset_shape(t->data);
    printf("data: %lld samples, ", (long long)s.samples);
    if (s.buckets > 1)
        printf("%d buckets, latents of up to %d x %d x %d", s.buckets, s.channels, s.height, s.width);
    else
        printf("latents %d x %d x %d", s.channels, s.height, s.width);
    printf(", captions of %d words; ", s.words);
    if (t->spec.encoders == ENCODERS_FEATURES)
        printf("precomputed features\n");
    else if (t->spec.encoders == ENCODERS_SYNTHETIC)
        printf("random numbers\n");
    else if (train_spec_encodes(&t->spec))
        printf("encoded for %s\n", t->spec.encoders == ENCODERS_SANA ? "Sana" : "Lumina-Next");
    else
        printf("block DCT + hashed captions\n");
}

static int open_samples(struct train *t)
{
    return train_spec_encodes(&t->spec) ? train_encode(t)
                                        : dataset_open(&t->data, &t->spec, on_encoded, t, &t->err);
}

/* The model is made for the samples of data. */
static int compare_prior(struct train *t)
{
    const struct dataset_shape a = dataset_shape(t->data), b = dataset_shape(t->prior.data);
    if (a.channels != b.channels || a.words != b.words || a.caption_channels != b.caption_channels ||
        (int64_t)b.height * b.width > (int64_t)a.height * a.width)
        return err_set(&t->err, ERR_USAGE, "train.prior.path: latents of %d x %d x %d and captions of %d x %d do not "
                       "match those of train.data.path (%d x %d x %d, %d x %d); set train.data.resolution, which "
                       "applies to both", b.channels, b.height, b.width, b.words, b.caption_channels, a.channels,
                       a.height, a.width, a.words, a.caption_channels);
    return 0;
}

/* With the spec of data but for the folder, the prompt, and the prompts to draw, which are not drawn twice. */
static int open_prior(struct train *t)
{
    struct train_spec own = t->spec;
    struct dataset *data = t->data;
    if (!own.prior.path[0])
        return 0;
    memcpy(t->spec.data_path, own.prior.path, sizeof(own.prior.path));
    memcpy(t->spec.data_prompt, own.prior.prompt, sizeof(own.prior.prompt));
    t->spec.validate.prompts = NULL;
    t->data = NULL;
    const int rc = open_samples(t);
    t->prior = (struct train_source){.data = t->data, .weight = own.prior.weight};
    t->spec = own;
    t->data = data;
    return rc < 0 ? -1 : compare_prior(t);
}

/* Of all data, so that ranks with other pictures are found. */
static int digest_data(struct train *t)
{
    struct digest *d;
    snprintf(t->data_digest, sizeof(t->data_digest), "%s", dataset_digest(t->data));
    if (!t->prior.data)
        return 0;
    if (digest_create(&d, &t->err) < 0)
        return -1;
    digest_add_text(d, t->data_digest);
    digest_add_text(d, dataset_digest(t->prior.data));
    digest_text(d, t->data_digest);
    digest_destroy(d);
    return 0;
}

static int open_data(struct train *t)
{
    if (open_samples(t) < 0 || open_prior(t) < 0 || digest_data(t) < 0)
        return -1;
    struct dataset_shape s = dataset_shape(t->data);
    t->codec = dataset_codec(t->data);
    t->spec.model.latent_channels = s.channels;
    t->spec.model.caption_channels = s.caption_channels;
    t->spec.model.caption_len = s.words;
    for (int i = 0; i < s.buckets; i++) {
        struct dataset_bucket b = dataset_bucket(t->data, i);
        if (b.height % t->spec.model.patch || b.width % t->spec.model.patch)
            return err_set(&t->err, ERR_USAGE, "train.model.patch: %d does not divide latents of %d x %d",
                           t->spec.model.patch, b.height, b.width);
    }
    if (train_is_first(t))
        tell_data(t);
    if (train_is_first(t) && t->prior.data)
        printf("prior: %lld samples of %s, weight %g\n", (long long)dataset_shape(t->prior.data).samples,
               t->spec.prior.path, t->prior.weight);
    if (train_memory_choose(t) < 0)
        return -1;
    return train_input_open(t);
}

static void on_backward(void *arg)
{
    struct train *t = arg;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_BACKWARD);
    if (t->last_micro && t->err.code == ERR_NONE)
        train_snapshot_settle(t); /* a failure stays in t->err */
}

static int create_step(struct train *t)
{
    static const struct exchange *const exchanges[] = {
        [SHARING_DDP] = &exchange_ddp, [SHARING_ZERO1] = &exchange_zero1, [SHARING_FSDP] = &exchange_fsdp};
    const struct model_limits max = t->fit.plan.limits;
    const struct params_share share = {t->fit.sharing, t->env->rank, t->env->world_size};
    if (model_config_check(&t->spec.model, &t->err) < 0 ||
        step_create(&t->step, &t->spec.model, &max, &t->spec.optim, t->spec.flow_shift, &share, &t->err) < 0)
        return -1;
    t->params = step_params(t->step);
    t->reducer = t->spec.reproducible ? &reducer_fixed_point : &reducer_plain;
    t->numbers = &t->reducer->numbers;
    t->exchange = exchanges[t->fit.sharing];
    if (t->exchange->open(t) < 0 || reducer_fixed_open(t) < 0)
        return -1;
    if (train_base_read(t) < 0)
        return -1;
    if (step_null(t->step) && !train_base_is_used(t) && dataset_null(t->data, step_null(t->step), &t->err) < 0)
        return -1;
    step_on_backward(t->step, on_backward, t);
    if (t->env->world_size > 1)
        model_on_ready(step_model(t->step), t->reducer->ready, t);
    if (train_is_first(t))
        printf("model: %lld parameters, depth %d, %d channels\n",
               (long long)layout_params(model_layout(step_model(t->step))), t->spec.model.depth, t->spec.model.hidden);
    return 0;
}

/* One tensor at a time: read, or drawn. */
static int first_weights(const struct train *t, const struct model *m, const struct state *into, struct err *err)
{
    const int null = layout_find(model_layout(m), "y_embedder.y_embedding");
    for (int i = 0; i < into->weights; i++) {
        const struct state_part *p = &into->part[i];
        if (t->pretrained && pretrained_read(t->pretrained, p->tensor, p->from, p->to, p->data))
            continue;
        model_init_range(m, i, p->from, p->to, t->spec.seed, p->data);
        if (i == null && dataset_null(t->data, p->data, err) < 0)
            return -1;
    }
    return 0;
}

static void tell_pretrained(const struct train *t)
{
    char text[PRETRAINED_TEXT];
    pretrained_text(text, t->pretrained);
    printf("weights: %s\n", text);
    if (pretrained_left_out(text, t->pretrained))
        progress_warning(t->progress, "train.model.weights: %s", text);
}

/* Opens the weights, if the spec names any and they are not open yet, and compares them with the model; twice, because
 * before the data is read some sizes are unknown. */
static int check_pretrained(struct train *t, struct err *err)
{
    if (t->pretrained)
        return pretrained_match_spec(t->pretrained, &t->spec, err);
    return pretrained_of_spec(&t->pretrained, &t->spec, err);
}

static void close_pretrained(struct train *t)
{
    pretrained_close(t->pretrained);
    t->pretrained = NULL;
}

int train_first_weights(struct train *t, const struct model *m, const struct state *into, struct err *err)
{
    int rc = train_base_is_used(t) ? 0 : check_pretrained(t, err);
    if (rc == 0)
        rc = first_weights(t, m, into, err);
    if (rc == 0 && t->pretrained && train_is_first(t) && !t->fresh && t->at == 0)
        tell_pretrained(t);
    close_pretrained(t);
    return rc;
}

/* A job that has a checkpoint resumes it, and needs no other weights any more, unless they are frozen. */
static bool needs_weights(const struct train *t)
{
    const bool path = strcmp(t->spec.resume, "latest") != 0 && strcmp(t->spec.resume, "none") != 0;
    return train_base_is_used(t) || (!t->env->again && !path && checkpoint_newest_step(t->dir) < 0);
}

static int start_fresh(struct train *t)
{
    struct state s;
    if (params_state(t->params, &s, &t->err) < 0)
        return -1;
    const int rc = train_first_weights(t, step_model(t->step), &s, &t->err);
    state_free(&s);
    if (rc < 0)
        return -1;
    optim_ema_reset(params_optim(t->params), params_view(t->params));
    t->fresh = true;
    return params_push(t->params, &t->err);
}

static void on_bad(void *arg, const char *path, const char *reason)
{
    struct train *t = arg;
    progress_quarantined(t->progress, path, reason);
    fprintf(stderr, "checkpoint quarantined: %s: %s\n", path, reason);
}

/* Steps that the run has skipped so far. */
static int read_left_out(struct train *t, const char *dir)
{
    json_t *notes = checkpoint_notes(dir, &t->err);
    const json_t *list = json_object_get(notes, "left_out");
    if (!notes)
        return -1;
    t->left_out.n = 0;
    for (size_t i = 0; i < json_array_size(list) && i < TRAIN_SKIPS; i++)
        t->left_out.step[t->left_out.n++] = json_integer_value(json_array_get(list, i));
    json_decref(notes);
    return 0;
}

/* Warns if the resumed checkpoint has another seed, data or spec. */
static void warn_of_change(struct train *t, uint64_t seed, const char *spec, const char *data)
{
    long long at = (long long)t->at;
    if (seed != t->spec.seed)
        progress_warning(t->progress, "train.seed differs from the checkpoint's: batches from "
                                      "step %lld on differ from those of the original run", at);
    else if (strcmp(data, dataset_digest(t->data)) != 0)
        progress_warning(t->progress, "the training data has changed since step %lld", at);
    else if (strcmp(spec, t->spec_digest) != 0)
        progress_warning(t->progress, "the train block has changed since step %lld", at);
}

static int load(struct train *t, const char *dir)
{
    struct checkpoint_state s;
    struct model *m = step_model(t->step);
    struct state into;
    if (params_state(t->params, &into, &t->err) < 0)
        return -1;
    int rc = checkpoint_load_parts(&s, dir, model_layout(m), &into, false, &t->err);
    state_free(&into);
    optim_set_count(params_optim(t->params), s.optim_count);
    if (rc < 0) {
        t->code = t->err.code == ERR_USAGE ? EXIT_CONFIG : EXIT_CHECKPOINT;
        return -1;
    }
    if (train_base_check(t, dir, s.base_digest) < 0 || params_push(t->params, &t->err) < 0 ||
        read_left_out(t, dir) < 0 || reducer_fixed_resume(t, dir) < 0)
        return -1;
    t->at = s.step;
    t->loss = s.loss;
    if (!train_is_first(t))
        return 0;
    warn_of_change(t, s.seed, s.spec_digest, s.data_digest);
    printf("resumed: step %lld from %s\n", (long long)t->at, dir);
    return 0;
}

/* Refuses a directory with newer checkpoints, which this run would overwrite or resume by mistake. */
static int refuse_leftovers(struct train *t, int64_t from)
{
    int64_t newest = checkpoint_newest_step(t->dir);
    if (newest <= from)
        return 0;
    return err_set(&t->err, ERR_USAGE,
                   "resume: %s starts at step %lld, but %s holds a checkpoint of step %lld; name "
                   "another checkpoint.dir, or use resume: latest",
                   t->spec.resume, (long long)(from < 0 ? 0 : from), t->dir, (long long)newest);
}

/* What a run resumes from. */
struct origin {
    char    path[CHECKPOINT_PATH]; /* of a checkpoint; "" = none */
    int64_t memory;                /* step of a snapshot of the last generation, or -1 */
    int64_t saved;                 /* step of the newest checkpoint of this job, or -1 */
};

/* A snapshot is used unless a checkpoint is newer. */
static bool find_memory(struct train *t, int64_t step, struct origin *o)
{
    o->saved = checkpoint_newest_step(t->dir);
    if (step < 0 || step < o->saved) {
        o->saved = -1;
        return false;
    }
    scratch_sweep(t->dir);
    o->memory = step;
    return true;
}

/* resume: none and resume: PATH apply to the first start of a job; a restart resumes its own newest
 * checkpoint. */
static int find_origin(struct train *t, int64_t memory, struct origin *o)
{
    bool latest = strcmp(t->spec.resume, "latest") == 0;
    bool none = strcmp(t->spec.resume, "none") == 0;
    struct checkpoint_info info;
    *o = (struct origin){.saved = -1, .memory = -1};
    if (find_memory(t, memory, o))
        return 0;
    if (latest || t->env->again) {
        if (lineage_check_root(t->job, t->dir, &t->err) < 0) /* before anything there is touched */
            return -1;
        int found = checkpoint_latest(&info, t->dir, on_bad, t, &t->err);
        if (found < 0) {
            t->code = t->err.code == ERR_CONFLICT ? EXIT_DIR_IN_USE : EXIT_CHECKPOINT;
            return -1;
        }
        if (found && lineage_check(t->job, info.path, &t->err) < 0)
            return -1;
        if (found) {
            o->saved = info.step;
            memcpy(o->path, info.path, sizeof(o->path));
            return 0;
        }
    }
    if (latest || none)
        return none && !t->env->again ? refuse_leftovers(t, -1) : 0;
    snprintf(o->path, sizeof(o->path), "%s", t->spec.resume);
    return 0;
}

/* Rank 0 decides, so that all ranks resume from the same. */
static int resume_or_start(struct train *t)
{
    struct origin o;
    int64_t memory;
    if (train_snapshot_step(t, &memory) < 0 || (train_is_first(t) && find_origin(t, memory, &o) < 0) ||
        train_ranks_broadcast(t, &o, sizeof(o)) < 0)
        return -1;
    t->saved = o.saved;
    if (o.memory >= 0)
        return train_snapshot_load(t, o.memory);
    if (!o.path[0])
        return start_fresh(t);
    if (load(t, o.path) < 0)
        return -1;
    return o.saved < 0 && !t->env->again && train_is_first(t) ? refuse_leftovers(t, t->at) : 0;
}

/* Without the GPU that the agent assigned, the run falls back to the CPU with a warning. */
static void tell_device(struct train *t)
{
    const char *planned = getenv("CUDA_VISIBLE_DEVICES");
    printf("device: %s, %s on %s%s%s\n", backend_device(), backend_ops()->name, processor_model(),
           backend_note()[0] ? "; " : "", backend_note());
    if (!backend_note()[0] || !planned || !*planned)
        return;
    printf("WARNING: GPU %s was assigned: %s\n", planned, backend_note());
    if (backend_ops()->host)
        progress_warning_lasts(t->progress, backend_note());
    else
        progress_warning(t->progress, "%s", backend_note());
}

static void digest_spec(struct train *t)
{
    struct digest *d;
    char *text = json_dumps(json_object_get(t->job, "train"), JSON_COMPACT | JSON_SORT_KEYS);
    if (text && digest_create(&d, NULL) == 0) {
        digest_add_text(d, text);
        digest_text(d, t->spec_digest);
        digest_destroy(d);
    }
    free(text);
}

static void open_logs(struct train *t)
{
    struct err err = {0};
    char path[CHECKPOINT_PATH + 16];
    snprintf(path, sizeof(path), "%s/" SAMPLE_LOG_DIR, t->dir);
    if (t->spec.sample_log)
        t->samples = sample_log_open(path, t->env->rank, t->env->world_size, t->at, &err);
    train_warn_log(t, &err);
    if (!train_is_first(t))
        return;
    snprintf(path, sizeof(path), "%s/metrics.jsonl", t->dir);
    err = (struct err){0};
    t->metrics = loss_log_open(path, t->at, t->spec.steps, &err);
    train_warn_log(t, &err);
    train_events_open(t);
}

/* Nobody waits for a GPU's work on the CPU without having asked for it. */
static int no_device(struct train *t)
{
    const struct err why = t->err;
    if (why.code != ERR_NO_DEVICE)
        return -1;
    t->err = (struct err){0};
    return err_set(&t->err, why.code, "%s; train.backend: auto computes on the CPU instead", why.text);
}

int train_start(struct train *t)
{
    if (train_spec_parse(&t->spec, t->job, &t->err) < 0)
        return -1;
    digest_spec(t);
    reducer_fixed_environment(t);
    if (backend_open(t->env->backend, t->spec.precision, &t->err) < 0)
        return no_device(t);
    if (train_is_first(t))
        tell_device(t);
    if (train_ranks_open(t) < 0 || train_dir_open(t) < 0)
        return -1;
    remember_products(t);
    if ((needs_weights(t) && check_pretrained(t, &t->err) < 0) || train_memory_check(t) < 0 || open_data(t) < 0 ||
        (t->pretrained && check_pretrained(t, &t->err) < 0) || create_step(t) < 0 ||
        train_snapshot_open(t) < 0 || train_save_open(t) < 0 ||
        resume_or_start(t) < 0 || (t->env->new_attempt && t->saved < t->spec.steps && train_room_check(t) < 0))
        return -1;
    flight_set_total(t->flight, (uint64_t)t->spec.steps);
    progress_started(t->progress, t->env->rank, t->env->world_size, t->at, t->spec.steps,
                     layout_params(model_layout(step_model(t->step))), backend_device());
    open_logs(t);
    return 0;
}
