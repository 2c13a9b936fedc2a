/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_plan.c - jobctl-train plan: memory, data and steps of a run, before it starts
 *
 * Memory is planned for the device found here, or for GPUs of the sizes that
 * --gpu-memory names.  Pictures of
 * dct+hash are read, which detects every unusable picture.
 * With --must-fit the exit code is 1 if it fits on none of the devices.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checkpoint/snapshot_interval.h"
#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/json_make.h"
#include "engine/contract/lora_config.h"
#include "engine/base/size_text.h"
#include "engine/contract/train_spec.h"
#include "engine/data/batch_report.h"
#include "engine/collection/collection.h"
#include "engine/data/dataset.h"
#include "engine/encode/encode_plan.h"
#include "engine/hub/hub_name.h"
#include "engine/model/backend.h"
#include "engine/model/device_memory.h"
#include "engine/optim/fit_advice.h"
#include "engine/weights/pretrained.h"
#include "kernels/kernels.h"

enum { CARDS = 8, LARGE = 300000000 /* parameters */ };
#define FP32 ":fp32"

/* A device and the configuration that fits into it. */
struct card {
    char       name[160];
    bool       device;
    bool       bf16;
    int64_t    room;
    struct fit fit;
    struct fit_advice advice[FIT_ADVICE]; /* if it does not fit */
    int        advices;
    int64_t    least;
};

struct plan {
    const json_t        *job;
    const char          *gpu_memory; /* --gpu-memory, or NULL */
    struct train_spec    spec;
    struct dataset_shape shape;
    char digest[64]; /* from the data */
    struct batch_report  batches;
    char                 reading[800]; /* how pictures and captions are read: lines; "": they are not */
    int                  ranks;
    double               flops; /* of one step: forward and backward */
    struct card          card[CARDS];
    int                  cards;
    struct encode_plan   encode; /* no cache: nothing is encoded */
    struct pretrained   *pretrained;
    char                 weights[PRETRAINED_TEXT]; /* that the run begins with; "": none */
    char                 left_out[PRETRAINED_TEXT];
    struct err           missing; /* weights of a hub that are not in the cache */
};

/* "80,15:fp32": memory of GPUs in GiB; ":fp32" marks those without bf16. */
static int parse_cards(struct plan *p, const char *text, struct err *err)
{
    for (const char *at = text; *at; at += *at == ',') {
        char *end;
        const double gib = strtod(at, &end);
        const bool fp32 = strncmp(end, FP32, strlen(FP32)) == 0;
        const bool number = end != at && gib > 0 && gib < 1e6;
        end += fp32 ? strlen(FP32) : 0;
        if (!number || (*end && *end != ',') || p->cards == CARDS)
            return err_set(err, ERR_USAGE, "--gpu-memory is \"%.40s\"; expected up to %d sizes in "
                           "GiB, such as 80,141, or 15:fp32 for a GPU without bf16", text, CARDS);
        struct card *c = &p->card[p->cards++];
        *c = (struct card){.device = true, .bf16 = !fp32 && strcmp(p->spec.precision, "fp32") != 0,
                           .room = (int64_t)(gib * 0x1p30)};
        snprintf(c->name, sizeof(c->name), "a GPU with %g GiB%s", gib, fp32 ? " and no bf16" : "");
        at = end;
    }
    return 0;
}

/* The device that a run here would use. */
static int find_card(struct plan *p, struct err *err)
{
    const json_t *resources = json_object_get(p->job, "resources");
    const json_t *gpus = json_object_get(resources, "gpus");
    const bool cpu = json_is_integer(gpus) && json_integer_value(gpus) == 0;
    if (backend_open(cpu ? "cpu" : "auto", p->spec.precision, err) < 0)
        return -1;
    struct card *c = &p->card[p->cards++];
    *c = (struct card){.device = !backend_ops()->host, .bf16 = backend_is_bf16(),
                       .room = device_memory().free};
    snprintf(c->name, sizeof(c->name), "%s", backend_device());
    return 0;
}

static int count_ranks(const json_t *job)
{
    const json_t *ranks = json_object_get(json_object_get(job, "resources"), "ranks");
    const json_int_t n = json_integer_value(ranks);
    return n > 0 && n < 1 << 16 ? (int)n : 1;
}

/* Before the data is opened, and again with what it has told. */
static int check_weights(struct plan *p, struct err *err)
{
    struct err why = {0};
    if (p->missing.code)
        return 0;
    if ((p->pretrained ? pretrained_match_spec(p->pretrained, &p->spec, &why)
                       : pretrained_of_spec(&p->pretrained, &p->spec, &why)) < 0) {
        const bool missing = why.code == ERR_NOT_FOUND && hub_name_is(p->spec.weights);
        *(missing ? &p->missing : err) = why;
        return missing ? 0 : -1;
    }
    if (p->pretrained) {
        pretrained_text(p->weights, p->pretrained);
        pretrained_left_out(p->left_out, p->pretrained);
    }
    return 0;
}

/* Data that is to be encoded is looked at only. */
static int open_data(struct plan *p, struct dataset **out, struct err *err)
{
    struct encode *e = NULL;
    if (!train_spec_encodes(&p->spec))
        return dataset_open(out, &p->spec, NULL, NULL, err);
    if (encode_open_plan(&e, &p->spec, err) < 0 || encode_plan_make(&p->encode, e, count_ranks(p->job), err) < 0) {
        encode_close(e);
        return -1;
    }
    return encode_take(e, out, err);
}

/* Layout, scaling, crop and flip, and the choice of captions. */
static int note_reading(struct plan *p, struct err *err)
{
    struct collection_options o;
    struct collection *c;
    const struct train_spec *s = &p->spec;
    if (s->encoders == ENCODERS_SYNTHETIC || (s->encoders == ENCODERS_FEATURES && !dataset_has_tars(s->data_path)))
        return 0;
    collection_options(&o, s);
    o.latents = s->encoders == ENCODERS_FEATURES;
    if (collection_open(&c, &o, NULL, NULL, err) < 0)
        return -1;
    FILE *to = fmemopen(p->reading, sizeof(p->reading), "w");
    if (to) {
        collection_print(c, to);
        fclose(to);
    }
    collection_close(c);
    return to ? 0 : err_set(err, ERR_MEMORY, "out of memory for a plan");
}

static int plan_make(struct plan *p, struct err *err)
{
    struct dataset *d = NULL;
    struct train_spec *s = &p->spec;
    int rc = -1;
    if (check_weights(p, err) < 0 || (p->gpu_memory ? parse_cards(p, p->gpu_memory, err) : find_card(p, err)) < 0 ||
        open_data(p, &d, err) < 0)
        goto out;
    p->shape = dataset_shape(d);
    snprintf(p->digest, sizeof(p->digest), "%s", dataset_digest(d));
    if (note_reading(p, err) < 0 || batch_report_make(&p->batches, d, s, err) < 0)
        goto out;
    p->ranks = count_ranks(p->job);
    s->model.latent_channels = p->shape.channels;
    s->model.caption_channels = p->shape.caption_channels;
    s->model.caption_len = p->shape.words;
    if (model_config_check(&s->model, err) < 0 || check_weights(p, err) < 0)
        goto out;
    for (int i = 0; i < p->cards; i++) {
        struct card *c = &p->card[i];
        const struct fit_ask ask = {
            .spec = s, .height = p->shape.height, .width = p->shape.width, .text = p->shape.words,
            .ranks = p->ranks, .device = c->device, .bf16 = c->bf16,
            .room = {c->room, c->room},
        };
        if (fit_choose_sharing(&c->fit, &ask, err) < 0 ||
            (!c->fit.fits && (c->advices = fit_advise(c->advice, &c->least, &ask, err)) < 0))
            goto out;
    }
    p->flops = (s->prior.path[0] ? 6 : 3) *
               model_forward_flops(&s->model, s->batch_global, p->shape.height, p->shape.width, p->shape.words);
    rc = 0;
out:
    dataset_close(d);
    return rc;
}

static int micro_batches(const struct plan *p, const struct fit *f)
{
    const int share = (p->spec.batch_global + p->ranks - 1) / p->ranks;
    return (share + f->micro - 1) / f->micro;
}

/* Per rank: on the CPU a second image of its saved state (double_buffer.h), on a GPU two copies of
 * it. */
static int64_t snapshot_share(const struct plan *p)
{
    const int64_t share = (p->card[0].fit.plan.checkpoint + p->ranks - 1) / p->ranks;
    return p->card[0].device ? 2 * share : share;
}

/* What a run measures, as it is on a machine of today: 40 % of an H200's speed (data sheet: 989 and 67 TFLOPS), no step
 * below 20 ms, and a PCIe bus of generation 4, 16 lanes, at 80 %. */
static struct snapshot_pace snapshot_pace(const struct plan *p)
{
    const double flops = 0.4 * (p->card[0].bf16 ? 989e12 : 67e12);
    return (struct snapshot_pace){.bytes = (double)snapshot_share(p) / 2, .rate = 25e9,
                                  .step_s = fmax(0.02, p->flops / p->ranks / flops)};
}

/* Steps from one snapshot to the next. */
static int snapshot_every(const struct plan *p)
{
    const struct snapshot_pace pace = snapshot_pace(p);
    return p->card[0].device ? snapshot_interval(&pace) : 1;
}

static json_t *json_of_advice(const struct card *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->advices; i++)
        json_array_append_new(list, json_make("{s:s, s:I}", "change", c->advice[i].change, "planned_bytes",
                                              (json_int_t)c->advice[i].total));
    return list;
}

static json_t *json_of_card(const struct plan *p, const struct card *c)
{
    const struct fit *f = &c->fit;
    json_t *bytes = json_object();
    for (int i = 0; i < USES; i++)
        json_object_set_new(bytes, backend_use_name((enum backend_use)i), json_integer(f->plan.bytes[i]));
    return json_make("{s:s, s:s, s:I, s:I, s:I, s:b, s:o, s:s, s:s, s:i, s:s, s:i, s:b, s:s, s:f, s:o}",
                     "device", c->name, "precision", c->bf16 ? "bf16" : "fp32", "free_bytes",
                     (json_int_t)c->room, "budget_bytes", (json_int_t)f->budget, "planned_bytes", (json_int_t)f->plan.total, "fits",
                     (int)f->fits, "bytes", bytes, "parallel",
                     fit_sharing_name(f->sharing), "parallel_why", f->sharing_why, "micro_batch", f->micro, "micro_why",
                     f->micro_why, "micro_batches_per_step", micro_batches(p, f),
                     "grad_checkpointing", (int)f->recompute, "grad_checkpointing_why",
                     f->recompute_why, "grad_checkpointing_work", f->plan.again, "would_fit", json_of_advice(c));
}

static void print_json(const struct plan *p)
{
    const struct train_spec *s = &p->spec;
    const struct fit *f = &p->card[0].fit;
    json_t *cards = json_array();
    for (int i = 0; i < p->cards; i++)
        json_array_append_new(cards, json_of_card(p, &p->card[i]));
    json_t *o = json_make("{s:i}", "schema", 1);
    json_t *batches = batch_report_json(&p->batches);
    json_t *rest = json_make(
        "{s:i, s:i, s:i, s:I, s:I, s:f, s:I, s:I, s:i, s:f, s:o}", "batch", s->batch_global, "micro_batch",
        f->micro, "micro_batches_per_step", micro_batches(p, f), "steps", (json_int_t)s->steps,
        "params", (json_int_t)f->plan.params, "flops_per_step", p->flops, "checkpoint_bytes",
        (json_int_t)f->plan.checkpoint, "snapshot_bytes", (json_int_t)snapshot_share(p), "snapshot_every",
        snapshot_every(p), "epochs",
        (double)s->steps * s->batch_global / (double)p->shape.samples, "memory", cards);
    json_object_update(o, batches);
    json_object_update(o, rest);
    if (p->weights[0])
        json_object_set_new(o, "weights", json_make("{s:s, s:s}", "is", p->weights, "left_out", p->left_out));
    if (p->encode.cache[0])
        json_object_set_new(o, "encode", encode_plan_json(&p->encode));
    if (p->missing.code)
        json_object_set_new(o, "weights_missing", json_text(p->missing.text));
    json_object_set_new(o, "data_digest", json_text(p->digest));
    json_object_set_new(o, "data_read", json_text(p->reading));
    json_object_set_new(o, "checkpoint_every",
                        s->checkpoint_every_steps > 0
                            ? json_make("{s:I}", "steps", (json_int_t)s->checkpoint_every_steps)
                            : json_make("{s:f}", "seconds", s->checkpoint_every_s));
    json_decref(batches);
    json_decref(rest);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    printf("%s\n", text ? text : "{}");
    free(text);
    json_decref(o);
}

static void print_advice(const struct card *c)
{
    char a[SIZE_TEXT], b[SIZE_TEXT];
    for (int i = 0; i < c->advices; i++)
        printf("            %-22s %s, with %s\n", i == 0 ? "would fit" : "", size_text(c->advice[i].total, a),
               c->advice[i].change);
    if (c->advices == 0 && c->least < INT64_MAX)
        printf("            no setting makes it fit: at least %s is needed, and %s may be used\n",
               size_text(c->least, a), size_text(c->fit.budget, b));
    else if (c->advices == 0)
        printf("            no setting makes it fit; use a smaller model or resolution\n");
}

static void print_card(const struct plan *p, const struct card *c)
{
    const struct fit *f = &c->fit;
    char a[SIZE_TEXT], b[SIZE_TEXT];
    if (c->device)
        printf("precision   %s on %s%s%s\n", c->bf16 ? "bf16" : "fp32", c->name,
               !p->gpu_memory && backend_note()[0] ? "; " : "", p->gpu_memory ? "" : backend_note());
    printf("memory      %s of %s free on %s%s\n", size_text(f->plan.total, a), size_text(c->room, b),
           c->name, f->fits ? "" : ": this does not fit");
    for (int i = 0; i < USES; i++)
        if (f->plan.bytes[i] > 0)
            printf("            %-22s %s\n", backend_use_name((enum backend_use)i), size_text(f->plan.bytes[i], a));
    if (p->ranks > 1)
        printf("            parallel %s: %s\n", fit_sharing_name(f->sharing), f->sharing_why);
    printf("            micro-batch of %d, %d per step: %s\n", f->micro, micro_batches(p, f), f->micro_why);
    if (f->recompute)
        printf("            grad_checkpointing on, %.0f %% more work: %s\n", 100 * f->plan.again, f->recompute_why);
    else
        printf("            grad_checkpointing off: %s\n", f->recompute_why);
    if (!f->fits)
        print_advice(c);
}

/* The most that a crash costs if snapshots in memory are lost with it. */
static const char *checkpoint_interval(const struct train_spec *s, char *out, size_t size)
{
    if (s->checkpoint_every_steps > 0)
        snprintf(out, size, "one every %lld steps", (long long)s->checkpoint_every_steps);
    else if (s->checkpoint_every_s < 120)
        snprintf(out, size, "one every %.4g s", s->checkpoint_every_s);
    else
        snprintf(out, size, "one every %.4g min", s->checkpoint_every_s / 60);
    return out;
}

static void print_snapshots(const struct plan *p)
{
    char size[SIZE_TEXT];
    printf("snapshots   %s%s more per rank%s\n", size_text(snapshot_share(p), size),
           p->card[0].device ? " of this machine's memory" : "",
           p->card[0].device ? "" : ", and twice that while a checkpoint is written");
    if (!p->card[0].device)
        return;
    const struct snapshot_pace pace = snapshot_pace(p);
    const int every = snapshot_every(p);
    char steps[32] = "one after each step";
    if (every > 1)
        snprintf(steps, sizeof(steps), "one in about %d steps", every);
    printf("            %s (the run measures it): a copy takes %.2g s at 25 GB/s, a step %.2g s at 40 %% of an H200's "
           "speed\n", steps, pace.bytes / pace.rate, pace.step_s);
}

/* "lora        rank 4, alpha 4 on attn1.to_q, attn1.to_k, ...; base bf16" */
static void print_lora(const struct lora_config *l)
{
    const char *comma = " ";
    if (l->rank == 0)
        return;
    printf("lora        rank %d, alpha %g on", l->rank, l->alpha);
    for (int m = 0; m < LORA_MODULES; m++)
        if (l->targets >> m & 1) {
            printf("%s%s", comma, lora_config_name((enum lora_module)m));
            comma = ", ";
        }
    putchar('\n');
}

static void print_words(const struct plan *p)
{
    const struct train_spec *s = &p->spec;
    char size[SIZE_TEXT];
    printf("data        %lld samples; latents %d x %d x %d, captions %d x %d\n", (long long)p->shape.samples,
           p->shape.channels, p->shape.height, p->shape.width, p->shape.words, p->shape.caption_channels);
    for (const char *line = p->reading, *end; (end = strchr(line, '\n')); line = end + 1)
        printf("            %.*s\n", (int)(end - line), line);
    if (p->encode.cache[0])
        encode_plan_print(&p->encode, stdout);
    printf("batch       %d samples per step, %d at a time; an epoch is %.2f steps\n", s->batch_global,
           p->card[0].fit.micro, (double)p->shape.samples / s->batch_global);
    if (s->prior.path[0])
        printf("prior       the same number from %s per step, weight %g\n", s->prior.path, s->prior.weight);
    batch_report_print(&p->batches, stdout);
    printf("run         %lld steps, %.1f epochs\n", (long long)s->steps,
           (double)s->steps * s->batch_global / (double)p->shape.samples);
    const bool tera = p->flops >= 1e12;
    printf("model       %lld parameters; %.2f %s per step\n", (long long)p->card[0].fit.plan.params,
           p->flops / (tera ? 1e12 : 1e9), tera ? "TFLOP" : "GFLOP");
    print_lora(&s->model.lora);
    if (s->encoders == ENCODERS_DCT_HASH && p->card[0].fit.plan.params >= LARGE)
        printf("            a model this large with data.encoders: dct+hash? That is a cosine transform and hashed words,\n"
               "            for small examples; to train a released model further, use encoders: sana\n");
    if (p->weights[0])
        printf("weights     %s\n", p->weights);
    if (p->left_out[0])
        printf("            %s\n", p->left_out);
    if (p->missing.code)
        printf("weights     %s: not in this machine's cache, so they are compared with the model when the job "
               "starts\n", p->spec.weights);
    for (int i = 0; i < p->cards; i++)
        print_card(p, &p->card[i]);
    char every[48];
    printf("checkpoint  %s each, %s, %d kept\n", size_text(p->card[0].fit.plan.checkpoint, size),
           checkpoint_interval(s, every, sizeof(every)), s->checkpoint_keep);
    print_snapshots(p);
}

static bool fits_somewhere(const struct plan *p)
{
    for (int i = 0; i < p->cards; i++)
        if (p->card[i].fit.fits)
            return true;
    return false;
}

int train_cmd_plan(int argc, char **argv)
{
    static struct plan plan;
    const char *file = NULL;
    bool as_json = false, must_fit = false;
    const struct train_cmd_option options[] = {
        {.name = "--spec", .value = &file, .required = true},
        {.name = "--gpu-memory", .value = &plan.gpu_memory},
        {.name = "--json", .flag = &as_json},
        {.name = "--must-fit", .flag = &must_fit},
        {.name = NULL},
    };
    struct err err = {0};
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    json_t *job = train_cmd_load_spec(file, &err);
    plan.job = job;
    if (job && train_spec_parse(&plan.spec, job, &err) == 0 && plan_make(&plan, &err) == 0) {
        if (as_json)
            print_json(&plan);
        else
            print_words(&plan);
    }
    batch_report_free(&plan.batches);
    pretrained_close(plan.pretrained);
    json_decref(job);
    if (err.code)
        return train_cmd_fail("plan", &err);
    return must_fit && !fits_somewhere(&plan) ? 1 : EXIT_DONE;
}
