/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_export.c - jobctl-train export: the weights of a checkpoint as other programs load them */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"
#include "engine/contract/lora_config.h"
#include "engine/base/scratch.h"
#include "engine/base/text_append.h"
#include "engine/contract/train_spec.h"
#include "engine/model/backend.h"
#include "engine/model/layout.h"
#include "engine/model/lora.h"
#include "engine/model/model.h"
#include "engine/weights/adapter.h"
#include "engine/weights/export.h"
#include "engine/weights/pretrained.h"

enum { COMPRESSION = 32 /* of the VAE: pixels of a latent's edge */ };

struct request {
    const char *checkpoint, *dir, *out, *format, *with;
    bool        ema, lora, merged;
};

/* State of one call. */
struct exporting {
    const struct request *r;
    char                  path[CHECKPOINT_PATH];
    json_t               *notes, *card;
    struct train_spec     spec;
    struct model_config   cfg;     /* of what is exported */
    struct pretrained    *source;  /* the checkpoint, or the frozen weights below its adapters */
    struct layout        *layout;
    float                *weights;
    struct checkpoint_state state;
};

static bool has_adapters(const struct exporting *x)
{
    return x->spec.model.lora.rank > 0;
}

/* Before anything is read. */
static int check(const struct request *r, struct err *err)
{
    struct stat st;
    if (!r->out)
        return err_set(err, ERR_USAGE, "name the directory to make with --out DIR");
    if (export_format(r->format) == EXPORT_FORMATS)
        return err_set(err, ERR_USAGE, "--format %.40s: expected diffusers, authors or safetensors", r->format);
    if (r->lora && r->merged)
        return err_set(err, ERR_USAGE, "use either --lora or --merged, not both");
    if (r->with && !r->merged)
        return err_set(err, ERR_USAGE, "--with needs --merged: several adapters are added to the weights");
    if (lstat(r->out, &st) == 0)
        return err_set(err, ERR_USAGE, "%s exists already; name a directory that does not exist", r->out);
    return 0;
}

static int load_spec(struct exporting *x, struct err *err)
{
    x->notes = checkpoint_notes(x->path, err);
    if (!x->notes || train_spec_parse(&x->spec, json_object_get(x->notes, "job"), err) < 0)
        return -1;
    if (x->r->ema && !(x->spec.optim.ema > 0))
        return err_set(err, ERR_USAGE, "--ema: this run kept no moving average (train.ema)");
    if ((x->r->lora || x->r->with) && !has_adapters(x) && !x->r->merged)
        return err_set(err, ERR_USAGE, "--lora: this run has trained all weights, not adapters");
    x->cfg = x->spec.model;
    if (x->r->merged)
        x->cfg.lora.rank = 0;
    return 0;
}

/* Opens the weights that tell the sizes which only the data knows. */
static int open_source(struct exporting *x, struct err *err)
{
    if (pretrained_open(&x->source, has_adapters(x) ? x->spec.weights : x->path, err) < 0)
        return has_adapters(x) ? err_prefix(err, "train.model.weights: ") : -1;
    pretrained_complete(x->source, &x->spec.model);
    x->cfg.latent_channels = x->spec.model.latent_channels;
    x->cfg.caption_channels = x->spec.model.caption_channels;
    x->cfg.caption_len = x->spec.model.caption_len;
    return pretrained_match(x->source, &x->spec.model, !has_adapters(x) || x->spec.weights_strict, err);
}

static int load_plain(struct exporting *x, struct err *err)
{
    return checkpoint_load(&x->state, x->path, x->layout, x->weights, NULL, x->r->ema, err);
}

/* A model of the smallest batch, which has adapters and can merge them. */
static int make_model(struct model **m, const struct model_config *cfg, struct err *err)
{
    const struct model_limits z = {.batch = 1, .height = cfg->patch, .width = cfg->patch, .text = 1};
    return model_create(m, cfg, &z, false, err);
}

static void merge(struct exporting *x, struct model *m)
{
    const struct lora *l = model_lora(m);
    for (int i = 0; i < lora_len(l); i++)
        lora_merge(l, lora_at(l, i), model_weights(m),
                   x->weights + layout_at(x->layout, lora_at(l, i)->tensor)->offset);
}

/* The run's adapters, on the weights as they were in training. */
static int merge_own(struct exporting *x, struct err *err)
{
    struct model *m;
    if (make_model(&m, &x->spec.model, err) < 0)
        return -1;
    int rc = train_cmd_read_base(m, x->source, &x->spec, x->notes, err);
    if (rc == 0)
        rc = checkpoint_load(&x->state, x->path, model_layout(m), model_weights(m), NULL, x->r->ema, err);
    if (rc == 0) {
        lora_base_get(model_lora(m), 0, layout_floats(x->layout), x->weights);
        merge(x, m);
    }
    model_destroy(m);
    return rc;
}

/* --- adapters of other files ---------------------------------------------------------------- */

/* "FILE" or "FILE:0.5". */
static double cut_strength(char *file)
{
    char *end, *colon = strrchr(file, ':');
    const double strength = colon ? strtod(colon + 1, &end) : 1;
    if (!colon || end == colon + 1 || *end)
        return 1;
    *colon = '\0';
    return strength;
}

static int merge_file(struct exporting *x, char *file, struct err *err)
{
    struct adapter *a;
    struct model *m = NULL;
    struct model_config cfg = x->cfg;
    const double strength = cut_strength(file);
    if (adapter_open(&a, file, cfg.depth, err) < 0)
        return -1;
    cfg.lora = *adapter_config(a);
    cfg.lora.alpha *= strength;
    for (int i = 0; i < cfg.lora.exceptions; i++)
        cfg.lora.exception[i].alpha *= strength;
    int rc = make_model(&m, &cfg, err);
    if (rc == 0 && (rc = adapter_read(a, model_layout(m), model_weights(m), err)) == 0)
        merge(x, m);
    model_destroy(m);
    adapter_close(a);
    return rc;
}

static int stack(struct exporting *x, struct err *err)
{
    char *save, *list = strdup(x->r->with ? x->r->with : "");
    int rc = list ? 0 : err_set(err, ERR_MEMORY, "no memory for a list of adapters");
    for (char *p = list ? strtok_r(list, ",", &save) : NULL; p && rc == 0; p = strtok_r(NULL, ",", &save))
        rc = merge_file(x, p, err);
    free(list);
    return rc;
}

/* --- what it is ----------------------------------------------------------------------------- */

static json_t *describe_adapters(const struct lora_config *c)
{
    char text[500];
    snprintf(text, sizeof(text), "rank %d, alpha %g, on", c->rank, c->alpha);
    for (int m = 0; m < LORA_MODULES; m++)
        if (c->targets & 1u << m)
            text_append(text, sizeof(text), " %s", lora_config_name((enum lora_module)m));
    return json_text(text);
}

static void describe(struct exporting *x)
{
    char text[PRETRAINED_TEXT];
    json_t *o = x->card = json_object();
    pretrained_text(text, x->source);
    json_object_set_new(o, has_adapters(x) ? "trained from" : "model", json_text(text));
    if (has_adapters(x)) {
        json_object_set_new(o, "adapters", describe_adapters(&x->spec.model.lora));
        json_object_set_new(o, "digest of those weights", json_text(field_text(x->notes, "base_digest")));
        json_object_set_new(o, "merged", json_boolean(x->r->merged));
    }
    if (x->r->with)
        json_object_set_new(o, "merged with", json_text(x->r->with));
    json_object_set_new(o, "steps", json_integer(x->state.step));
    json_object_set_new(o, "samples per step", json_integer(x->spec.batch_global));
    json_object_set_new(o, "loss of the last step", json_real(x->state.loss));
    json_object_set_new(o, "moving average", x->r->ema ? json_real(x->spec.optim.ema) : json_text("no"));
    json_object_set_new(o, "digest of the data", json_text(x->state.data_digest));
    json_object_set_new(o, "digest of the job's train block", json_text(x->state.spec_digest));
    json_object_set_new(o, "made by", json_text("jobctl " JOBCTL_VERSION));
}

static int sample_of(const struct train_spec *s)
{
    const int pixels = s->encoders == ENCODERS_DCT_HASH && s->dct_block > 0 ? s->dct_block : COMPRESSION;
    return s->resolution >= pixels ? s->resolution / pixels : COMPRESSION;
}

/* --- the directory --------------------------------------------------------------------------- */

static int write_dir(struct exporting *x, const struct export_ask *ask, struct err *err)
{
    char tmp[SCRATCH_PATH], parent[SCRATCH_PATH];
    const char *slash = strrchr(x->r->out, '/');
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - x->r->out) + (slash == x->r->out) : 1,
             slash ? x->r->out : ".");
    scratch_sweep(parent);
    if (scratch_name(tmp, x->r->out, err) < 0)
        return -1;
    if (mkdir(tmp, 0755) < 0)
        return err_set_errno(err, errno, "cannot make a directory in %s", parent);
    int rc = export_write(ask, tmp, err);
    if (rc == 0 && rename(tmp, x->r->out) < 0)
        rc = err_set_errno(err, errno, "cannot name the directory %s", x->r->out);
    if (rc < 0) {
        scratch_remove(tmp, NULL);
        return -1;
    }
    return scratch_sync_dir(parent, err);
}

static int read_weights(struct exporting *x, struct err *err)
{
    if (model_layout_make(&x->layout, &x->cfg, err) < 0)
        return -1;
    if (!(x->weights = layout_alloc(x->layout)))
        return err_set(err, ERR_MEMORY, "no memory for %zu weights", layout_floats(x->layout));
    const bool merged = has_adapters(x) && x->r->merged;
    return (merged ? merge_own(x, err) : load_plain(x, err)) < 0 ? -1 : stack(x, err);
}

static int work(struct exporting *x, struct err *err)
{
    const struct request *r = x->r;
    const char *name;
    struct export_ask ask = {.format = export_format(r->format), .cfg = &x->cfg};
    if (check(r, err) < 0 || backend_open("cpu", "fp32", err) < 0 ||
        train_cmd_find_checkpoint(x->path, r->checkpoint, r->dir, err) < 0 || load_spec(x, err) < 0 ||
        export_check(&ask, err) < 0 || open_source(x, err) < 0 || read_weights(x, err) < 0)
        return -1;
    describe(x);
    name = field_text(json_object_get(x->notes, "job"), "name");
    ask.layout = x->layout;
    ask.weights = x->weights;
    ask.sample = sample_of(&x->spec);
    ask.flow_shift = x->spec.flow_shift;
    ask.title = name[0] ? name : "A diffusion transformer";
    ask.card = x->card;
    return write_dir(x, &ask, err);
}

int train_cmd_export(int argc, char **argv)
{
    struct request r = {.format = "diffusers"};
    const struct train_cmd_option options[] = {
        {.name = "--checkpoint", .value = &r.checkpoint}, {.name = "--dir", .value = &r.dir},
        {.name = "--out", .value = &r.out},               {.name = "--format", .value = &r.format},
        {.name = "--with", .value = &r.with},             {.name = "--ema", .flag = &r.ema},
        {.name = "--lora", .flag = &r.lora},              {.name = "--merged", .flag = &r.merged},
        {.name = NULL},
    };
    struct err err = {0};
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    struct exporting *x = calloc(1, sizeof(*x));
    if (!x)
        return EXIT_HOST_MEMORY;
    x->r = &r;
    rc = work(x, &err);
    if (rc == 0)
        printf("%s: %s of step %lld, from %s\n", r.out, r.format, (long long)x->state.step, x->path);
    json_decref(x->notes);
    json_decref(x->card);
    pretrained_close(x->source);
    layout_destroy(x->layout);
    free(x->weights);
    free(x);
    return rc < 0 ? train_cmd_fail("export", &err) : EXIT_DONE;
}
