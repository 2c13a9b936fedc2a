/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_plan.c - jobctl-train plan: what a run will take, before it takes it
 *
 * The model is created to be measured.  Pictures are packed, which finds every
 * one that a run would stumble over; without --cache the pack is thrown away:
 * a plan leaves nothing behind.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/command.h"
#include "engine/dataset.h"
#include "engine/err.h"
#include "engine/exit_code.h"
#include "engine/layout.h"
#include "engine/scratch.h"
#include "engine/step.h"
#include "engine/train_spec.h"

struct plan {
    struct dataset_shape shape;
    int64_t              params;
    int64_t              model_bytes, optim_bytes, checkpoint_bytes;
    double               flops; /* of one step: forward and backward */
};

static int plan_make(struct plan *p, struct train_spec *s, const char *cache, struct err *err)
{
    struct dataset *d = NULL;
    struct step *step = NULL;
    int rc = -1;
    if (dataset_open(&d, s, cache, NULL, NULL, err) < 0)
        goto out;
    p->shape = dataset_shape(d);
    s->model.latent_channels = p->shape.channels;
    s->model.caption_channels = p->shape.caption_channels;
    s->model.caption_len = p->shape.words;
    struct model_limits max = {s->batch_micro, p->shape.height, p->shape.width, p->shape.words,
                               false};
    if (model_config_check(&s->model, err) < 0 ||
        step_create(&step, &s->model, &max, &s->optim, s->flow_shift, err) < 0)
        goto out;
    const struct layout *l = model_layout(step_model(step));
    p->params = layout_params(l);
    p->model_bytes = model_bytes(step_model(step));
    for (int i = 0; i < optim_state_len(step_optim(step)); i++)
        p->optim_bytes += optim_state_at(step_optim(step), i)->count * 4;
    p->checkpoint_bytes = p->optim_bytes;
    for (int i = 0; i < layout_len(l); i++)
        p->checkpoint_bytes += (int64_t)layout_at(l, i)->count * 4;
    p->flops = 3 * model_forward_flops(&s->model, s->batch_global, p->shape.height, p->shape.width,
                                       p->shape.words);
    rc = 0;
out:
    step_destroy(step);
    dataset_close(d);
    return rc;
}

static void print_json(const struct plan *p, const struct train_spec *s)
{
    json_t *o = json_pack(
        "{s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:f, s:I, s:f}", "schema", 1,
        "samples", (json_int_t)p->shape.samples, "batches_per_epoch",
        (json_int_t)(p->shape.samples / s->batch_global), "leftover_per_epoch",
        (json_int_t)(p->shape.samples % s->batch_global), "batch", s->batch_global, "micro_batch",
        s->batch_micro, "micro_batches_per_step",
        (s->batch_global + s->batch_micro - 1) / s->batch_micro, "steps", (json_int_t)s->steps,
        "params", (json_int_t)p->params, "model_bytes", (json_int_t)p->model_bytes, "optim_bytes",
        (json_int_t)p->optim_bytes, "flops_per_step", p->flops, "checkpoint_bytes",
        (json_int_t)p->checkpoint_bytes, "epochs",
        (double)s->steps * s->batch_global / (double)p->shape.samples);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    printf("%s\n", text ? text : "{}");
    free(text);
    json_decref(o);
}

static void print_words(const struct plan *p, const struct train_spec *s)
{
    int64_t left = p->shape.samples % s->batch_global;
    printf("data        %lld samples; latents %d x %d x %d, captions %d x %d\n",
           (long long)p->shape.samples, p->shape.channels, p->shape.height, p->shape.width,
           p->shape.words, p->shape.caption_channels);
    printf("batch       %d samples a step, %d at a time; an epoch is %.2f steps\n", s->batch_global,
           s->batch_micro, (double)p->shape.samples / s->batch_global);
    if (left > 0)
        printf("leftovers   %lld samples do not fill the last batch of an epoch: they are carried "
               "into the next one\n",
               (long long)left);
    printf("run         %lld steps, %.1f epochs\n", (long long)s->steps,
           (double)s->steps * s->batch_global / (double)p->shape.samples);
    printf("model       %lld parameters; %.2f GFLOP a step\n", (long long)p->params,
           p->flops / 1e9);
    printf("memory      %.1f MiB model, %.1f MiB optimizer\n", (double)p->model_bytes / (1 << 20),
           (double)p->optim_bytes / (1 << 20));
    printf("checkpoint  %.1f MiB each, %d kept\n", (double)p->checkpoint_bytes / (1 << 20),
           s->checkpoint_keep);
}

/* plan_make() with a cache of its own. */
static int plan_without_trace(struct plan *p, struct train_spec *s, struct err *err)
{
    char dir[SCRATCH_PATH];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/jobctl-plan.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return err_set(err, ERR_SYSTEM, "cannot make a directory like %s: %s", dir,
                       strerror(errno));
    int rc = plan_make(p, s, dir, err);
    scratch_remove(dir, rc == 0 ? err : NULL);
    return rc;
}

int command_plan(int argc, char **argv)
{
    const char *file = NULL, *cache = NULL;
    bool as_json = false;
    const struct command_option options[] = {
        {.name = "--spec", .value = &file, .required = true},
        {.name = "--cache", .value = &cache},
        {.name = "--json", .flag = &as_json},
        {.name = NULL},
    };
    struct err err = {0};
    struct train_spec spec;
    struct plan plan = {0};
    int rc = command_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    json_t *job = command_load_spec(file, &err);
    if (job && train_spec_parse(&spec, job, &err) == 0 &&
        (cache ? plan_make(&plan, &spec, cache, &err)
               : plan_without_trace(&plan, &spec, &err)) == 0) {
        if (as_json)
            print_json(&plan, &spec);
        else
            print_words(&plan, &spec);
    }
    json_decref(job);
    return err.code ? command_fail("plan", &err) : EXIT_DONE;
}
