/* SPDX-License-Identifier: Apache-2.0 */
/* train_memory.c - what of a batch is in memory at once, before the run and after it was too much
 *
 * A run that ran out of the device's memory leaves a note in its checkpoint
 * directory, memory.json; the next start, whoever makes it, takes a smaller
 * micro-batch of the same global batch.  On another kind of device the note
 * means nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backend.h"
#include "engine/dataset.h"
#include "engine/train_parts.h"
#include "kernels/kernels.h"

/* What a run that was too large leaves for the next. */
struct lowered {
    int  micro;     /* at most this; 0 = nothing was too large */
    bool recompute;
};

static void note_path(const struct train *t, char *path, size_t size)
{
    snprintf(path, size, "%s/memory.json", t->dir);
}

/* A note that cannot be read is no note: the run finds out again. */
static struct lowered read_note(const struct train *t)
{
    struct lowered l = {0, false};
    char path[CHECKPOINT_PATH + 16];
    note_path(t, path, sizeof(path));
    json_t *note = json_load_file(path, 0, NULL);
    const char *device = json_string_value(json_object_get(note, "device"));
    const json_int_t micro = json_integer_value(json_object_get(note, "micro"));
    if (device && strcmp(device, backend_device()) == 0 && micro > 0 && micro < 1 << 20)
        l = (struct lowered){(int)micro, json_is_true(json_object_get(note, "recompute"))};
    json_decref(note);
    return l;
}

static bool write_note(const struct train *t, struct lowered l)
{
    char path[CHECKPOINT_PATH + 16], part[CHECKPOINT_PATH + 40];
    note_path(t, path, sizeof(path));
    snprintf(part, sizeof(part), "%s.%ld", path, (long)getpid());
    json_t *note = json_pack("{s:i, s:s, s:i, s:b}", "schema", 1, "device", backend_device(),
                             "micro", l.micro, "recompute", (int)l.recompute);
    const bool written = note && json_dump_file(note, part, JSON_COMPACT) == 0 &&
                         rename(part, path) == 0;
    if (!written)
        unlink(part);
    json_decref(note);
    return written;
}

static void tell(const struct train *t, struct lowered before)
{
    const struct fit *f = &t->fit;
    const int parts = (t->spec.batch_global + t->env->world_size * f->micro - 1) /
                      (t->env->world_size * f->micro);
    char size[MEMORY_TEXT];
    printf("memory: %s", memory_text(f->plan.total, size));
    for (int i = 0; i < USES; i++)
        if (f->plan.bytes[i] > 0 && i != USE_HERE)
            printf("%s %s %s", i == 0 ? ":" : ",", backend_use_name((enum backend_use)i),
                   memory_text(f->plan.bytes[i], size));
    printf("\nbatch: %d samples in %d micro-batch%s of %d (%s)\n", t->spec.batch_global, parts,
           parts == 1 ? "" : "es", f->micro, f->micro_why);
    if (f->recompute)
        printf("blocks: computed again in the backward pass, %.0f %% more work (%s)\n",
               100 * f->plan.again, f->recompute_why);
    if (before.micro > 0)
        progress_warning(t->progress, "micro-batches of %d%s, for the run ran out of %s's memory; "
                         "a step still takes %d samples", f->micro,
                         f->recompute ? " whose blocks are computed again" : "", backend_device(),
                         t->spec.batch_global);
    else if (!f->fits)
        progress_warning(t->progress, "train.batch.micro: %d %s", f->micro, f->micro_why);
}

/* Rank 0 chooses, so that all do the same. */
int train_memory_choose(struct train *t)
{
    const struct dataset_shape s = dataset_shape(t->data);
    struct lowered before = {0, false};
    if (model_config_check(&t->spec.model, &t->err) < 0)
        return -1;
    if (train_is_first(t)) {
        before = read_note(t);
        const struct fit_ask ask = {
            .spec = &t->spec, .height = s.height, .width = s.width, .text = s.words,
            .ranks = t->env->world_size, .sharing = SHARING_DDP, .device = !backend_ops()->host,
            .bf16 = backend_is_bf16(), .room = memory_room(), .micro_most = before.micro,
            .recompute = before.recompute,
        };
        if (fit_choose(&t->fit, &ask, &t->err) < 0)
            return -1;
        tell(t, before);
    }
    if (train_ranks_tell(t, &t->fit, sizeof(t->fit)) < 0)
        return -1;
    t->spec.batch_micro = t->fit.micro;
    return 0;
}

void train_memory_lower(struct train *t)
{
    const struct fit *f = &t->fit;
    const int half = f->micro / 2;
    struct lowered next = {f->most > 0 && f->most < half ? f->most : half, f->recompute};
    if (f->micro == 0) /* it happened before there was a choice */
        return;
    if (f->micro == 1 && t->spec.recompute == RECOMPUTE_AUTO && !f->recompute)
        next = (struct lowered){1, true};
    if (next.micro == 0 || t->spec.reproducible) {
        t->code = EXIT_CONFIG;
        err_prefix(&t->err, next.micro == 0
                   ? "one sample at a time does not fit, so the same again would not help: "
                   : "reproducible: true keeps its micro-batches, so the same again would not "
                     "help: ");
        return;
    }
    if (!write_note(t, next))
        return;
    if (next.micro < f->micro)
        err_prefix(&t->err, "micro-batches of %d were too large, the next start takes %d: ",
                   f->micro, next.micro);
    else
        err_prefix(&t->err, "one sample did not fit, the next start computes blocks again: ");
}
