/* SPDX-License-Identifier: Apache-2.0 */
/* train_memory.c - see train_memory.h */
#include "engine/train/train_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/env.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/size_text.h"
#include "engine/data/dataset.h"
#include "engine/model/backend.h"
#include "engine/model/device_memory.h"
#include "engine/optim/fit_advice.h"
#include "engine/optim/fit_shape.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"
#include "kernels/kernels.h"

enum { MICRO_MOST = 1 << 20 };

static void note_path(const struct train *t, char *path, size_t size)
{
    snprintf(path, size, "%s/memory.json", t->dir);
}

static int size_in(const json_t *note, const char *key)
{
    const json_int_t n = json_integer_value(json_object_get(note, key));
    return n > 0 && n < MICRO_MOST ? (int)n : 0;
}

/* A note that cannot be read is ignored: the run learns its limit again. */
static void read_note(const struct train *t, struct train_lowered *l)
{
    char path[CHECKPOINT_PATH + 16];
    note_path(t, path, sizeof(path));
    *l = (struct train_lowered){0};
    json_t *note = json_load_file(path, 0, NULL);
    const char *device = json_string_value(json_object_get(note, "device"));
    const json_int_t micro = json_integer_value(json_object_get(note, "micro"));
    if (device && strcmp(device, backend_device()) == 0) {
        if (micro > 0 && micro < MICRO_MOST) {
            l->micro = (int)micro;
            l->recompute = json_is_true(json_object_get(note, "recompute"));
        }
        const json_t *most = json_object_get(note, "most");
        l->height = size_in(most, "height");
        l->width = size_in(most, "width");
        l->samples = l->height > 0 && l->width > 0 ? size_in(most, "samples") : 0;
    }
    json_decref(note);
}

static bool write_note(const struct train *t, const struct train_lowered *l)
{
    char path[CHECKPOINT_PATH + 16], part[CHECKPOINT_PATH + 40];
    note_path(t, path, sizeof(path));
    snprintf(part, sizeof(part), "%s.%ld", path, (long)getpid());
    json_t *note = json_make("{s:i, s:s, s:i, s:b}", "schema", 1, "device", backend_device(),
                             "micro", l->micro, "recompute", (int)l->recompute);
    if (l->samples > 0)
        json_object_set_new(note, "most", json_make("{s:i, s:i, s:i}", "height", l->height, "width",
                                                    l->width, "samples", l->samples));
    const bool written = note && json_file_save(note, part, JSON_COMPACT) == 0 &&
                         rename(part, path) == 0;
    if (!written)
        unlink(part);
    json_decref(note);
    return written;
}

static int64_t pixels_most(const struct train_lowered *l)
{
    return (int64_t)l->samples * l->height * l->width;
}

int train_memory_micro(const struct train *t, int height, int width)
{
    return memory_micro(t->spec.batch_micro, pixels_most(&t->lowered), height, width);
}

static void tell(const struct train *t)
{
    const struct fit *f = &t->fit;
    const int parts = (t->spec.batch_global + t->env->world_size * f->micro - 1) /
                      (t->env->world_size * f->micro);
    char size[SIZE_TEXT];
    printf("memory: %s", size_text(f->plan.total, size));
    for (int i = 0; i < USES; i++)
        if (f->plan.bytes[i] > 0 && i != USE_HOST)
            printf("%s %s %s", i == 0 ? ":" : ",", backend_use_name((enum backend_use)i),
                   size_text(f->plan.bytes[i], size));
    if (t->env->world_size > 1)
        printf("\nparallel: %s (%s)", fit_sharing_name(f->sharing), f->sharing_why);
    printf("\nbatch: %d samples in %d micro-batch%s of %d (%s)\n", t->spec.batch_global, parts,
           parts == 1 ? "" : "es", f->micro, f->micro_why);
    if (f->recompute)
        printf("gradient checkpointing: on, %.0f %% more work (%s)\n", 100 * f->plan.again, f->recompute_why);
    if (t->lowered.samples > 0)
        printf("batch: at most %d samples of %dx%d latents per micro-batch, and no more pixels of other sizes "
               "(the run ran out of memory with more samples)\n", t->lowered.samples, t->lowered.height,
               t->lowered.width);
    if (t->lowered.micro > 0)
        progress_warning(t->progress, "reduced to micro-batches of %d%s: the run ran out of memory on %s; "
                         "a step still has %d samples", f->micro,
                         f->recompute ? " with gradient checkpointing" : "", backend_device(),
                         t->spec.batch_global);
    else if (!f->fits)
        progress_warning(t->progress, "train.batch.micro: %d %s", f->micro, f->micro_why);
}

static int64_t pixels_least(const struct train *t)
{
    int64_t least = 0;
    for (int i = 0; i < dataset_shape(t->data).buckets; i++) {
        const struct dataset_bucket b = dataset_bucket(t->data, i);
        const int64_t pixels = (int64_t)b.height * b.width;
        least = least == 0 || pixels < least ? pixels : least;
    }
    return least;
}

/* Ranks of this machine; all, if their number is unknown. */
static int neighbours(const struct train *t)
{
    int n = t->env->world_size;
    return env_int("LOCAL_WORLD_SIZE", n, &n, NULL) < 0 || n < 1 ? t->env->world_size : n;
}

static struct fit_ask ask_for(const struct train *t, const struct train_spec *spec, int height, int width, int text)
{
    return (struct fit_ask){
        .spec = spec, .height = height, .width = width, .text = text, .ranks = t->env->world_size,
        .neighbours = neighbours(t), .device = !backend_ops()->host, .bf16 = backend_is_bf16(), .room = device_memory(),
        .micro_most = t->lowered.micro, .recompute = t->lowered.recompute, .pixels_most = pixels_most(&t->lowered),
    };
}

/* Refuses what cannot fit: a restart would not help. */
static int check_total(struct train *t, struct fit_ask ask)
{
    ask.room.total = device_memory_most();
    if (fit_refuse(&ask, &t->err) == 0)
        return 0;
    t->code = EXIT_CONFIG;
    return -1;
}

int train_memory_check(struct train *t)
{
    struct train_spec spec = t->spec;
    struct fit_shape s;
    if (!train_is_first(t) || !fit_shape(&s, &spec))
        return 0;
    spec.model.latent_channels = s.channels;
    spec.model.caption_channels = s.caption_channels;
    spec.model.caption_len = s.words;
    return check_total(t, ask_for(t, &spec, s.height, s.width, s.words));
}

/* Rank 0 chooses for all ranks. */
int train_memory_choose(struct train *t)
{
    const struct dataset_shape s = dataset_shape(t->data);
    if (model_config_check(&t->spec.model, &t->err) < 0)
        return -1;
    if (train_is_first(t)) {
        read_note(t, &t->lowered);
        struct fit_ask ask = ask_for(t, &t->spec, s.height, s.width, s.words);
        ask.pixels_least = pixels_least(t);
        if (check_total(t, ask) < 0 || fit_choose_sharing(&t->fit, &ask, &t->err) < 0)
            return -1;
        tell(t);
    }
    if (train_ranks_broadcast(t, &t->fit, sizeof(t->fit)) < 0 ||
        train_ranks_broadcast(t, &t->lowered, sizeof(t->lowered)) < 0)
        return -1;
    t->spec.batch_micro = t->fit.micro;
    return 0;
}

int train_memory_take(struct train *t, int height, int width, int samples)
{
    int h, w, most;
    t->micro.height = height;
    t->micro.width = width;
    t->micro.samples = samples;
    if (t->env->oom && sscanf(t->env->oom, "%dx%d:%d", &h, &w, &most) == 3 && h == height &&
        w == width && samples > most)
        return err_set(&t->err, ERR_DEVICE_MEMORY, "out of memory, injected by a test");
    return 0;
}

static void refuse(struct train *t, const char *why)
{
    t->code = EXIT_CONFIG;
    err_prefix(&t->err, "%s, so a restart cannot help: ", why);
}

/* The next limit, in samples of a size. Arrays are shared by all sizes and shrink only if other sizes may have no
 * more pixels either. If not even one sample fits beside the arrays, they are halved. False: nothing is left to
 * halve. */
static bool lower_pixels(struct train_lowered *next, const struct train *t)
{
    const struct dataset_shape s = dataset_shape(t->data);
    const int64_t held = model_limits_pixels(&t->fit.plan.limits), one = (int64_t)s.height * s.width;
    const bool many = t->micro.samples > 1;
    next->height = many ? t->micro.height : s.height;
    next->width = many ? t->micro.width : s.width;
    next->samples = many ? t->micro.samples / 2 : (int)(held / one / 2);
    return next->samples > 0;
}

static void lower_size(struct train *t)
{
    struct train_lowered *next = &t->lowered;
    if (!write_note(t, next))
        return;
    err_prefix(&t->err, "micro-batches of %d of %dx%d latents do not fit; the next start uses at "
               "most %d of %dx%d, and no more pixels of other sizes: ", t->micro.samples,
               t->micro.height, t->micro.width, next->samples, next->height, next->width);
}

void train_memory_lower(struct train *t)
{
    const struct fit *f = &t->fit;
    const int half = f->micro / 2;
    struct train_lowered *next = &t->lowered;
    if (f->micro == 0) /* the memory ran out before the choice */
        return;
    /* With several sizes of samples, pixels are limited; with one size, samples. */
    const bool of_bucket = t->micro.samples > 0 && dataset_shape(t->data).buckets > 1;
    struct train_lowered size = *next;
    const bool last = of_bucket ? !lower_pixels(&size, t) : f->micro == 1;
    if (t->spec.reproducible) {
        refuse(t, "reproducible: true does not change micro-batches");
    } else if (last && t->spec.recompute == RECOMPUTE_AUTO && !f->recompute) {
        next->micro = f->micro;
        next->recompute = true;
        if (write_note(t, next))
            err_prefix(&t->err, "one sample does not fit; the next start uses gradient checkpointing: ");
    } else if (last) {
        refuse(t, "one sample at a time does not fit");
    } else if (of_bucket) {
        *next = size;
        lower_size(t);
    } else {
        next->micro = f->most > 0 && f->most < half ? f->most : half;
        next->recompute = f->recompute;
        if (write_note(t, next))
            err_prefix(&t->err, "micro-batches of %d do not fit; the next start uses %d: ", f->micro, next->micro);
    }
}
