/* SPDX-License-Identifier: Apache-2.0 */
/* verify_data.c - kind "data": output of the Sana authors' readers for each sample of some folders and shards
 *
 * Each object of the JSON with "cases" is one reader: SanaImgDataset, SanaWebDataset, SanaWebDatasetMS_ASPECT_RATIO_N,
 * and with features instead of pictures vae_feat_MS and vae_and_text_feat_MS.  A case has the sample's key, captions,
 * probabilities and draw after random.seed(1000 + index), bucket, and some numbers of the picture; or "error": then
 * the sample must be refused here as well, where the authors' reader takes another one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/collection/collection.h"
#include "engine/image/image.h"
#include "tests/verify/python_random.h"
#include "tests/verify/verify_internal.h"

enum { REPEATS = 2000, SEED = 1000, NAME = 160 }; /* SanaImgDataset repeats its list */

/* One reader of the case. */
struct reader {
    struct verify_result           *result;
    const struct verify_case_files *files;
    const char                     *name;
    const json_t                   *section;
    struct collection_options       options;
    struct collection              *all;
    bool                            list; /* SanaImgDataset */
    struct err                     *err;
};

/* One sample of it. */
struct sample {
    struct reader           *r;
    const json_t            *want;
    int64_t                  index;
    struct collection_sample is;
    float                   *floats; /* [channels, height, width] */
    int                      channels, height, width;
    bool                     lossy; /* JPEG decoders differ by one level */
};

static void count(const struct sample *s, const char *what, bool differs)
{
    char name[NAME];
    snprintf(name, sizeof(name), "%s %lld %s", s->r->name, (long long)s->index, what);
    verify_count(s->r->result, s->r->files, name, differs);
}

/* --- captions ----------------------------------------------------------------------------- */

/* A score as Python's str() writes it: as few digits as tell it, without an exponent from 1e-4 to 1e16. */
static void score_text(char text[40], double x)
{
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(text, 40, "%.*e", digits - 1, x);
        if (strtod(text, NULL) == x)
            break;
    }
    const char *e = strchr(text, 'e');
    const int exponent = e ? atoi(e + 1) : 0, decimals = digits - 1 - exponent;
    if (exponent >= -4 && exponent < 16)
        snprintf(text, 40, "%.*f", decimals > 1 ? decimals : 1, x);
}

static const char *kind_of(const struct sample *s, int score)
{
    return s->is.caption[s->is.score[score].caption].kind;
}

/* Labels and probabilities of the candidates. */
static void check_draw(const struct sample *s, const json_t *draw)
{
    const json_t *labels = json_object_get(draw, "labels"), *weights = json_object_get(draw, "probabilities");
    double *p = calloc((size_t)s->is.scores + 1, sizeof(*p));
    size_t n = 0;
    bool differs = !p;
    if (p)
        caption_choice_weights(p, &s->r->options.rule, s->is.score, s->is.scores);
    for (int i = 0; p && i < s->is.scores; i++) {
        const char *label = json_string_value(json_array_get(labels, n));
        if (s->is.score[i].score < s->r->options.rule.score_min)
            continue;
        differs |= !label || strcmp(label, kind_of(s, i)) != 0 ||
                   fabs(json_number_value(json_array_get(weights, n)) - p[i]) > 1e-12;
        n++;
    }
    count(s, "draw", differs || (draw && n != json_array_size(labels)));
    free(p);
}

static void check_caption(const struct sample *s)
{
    double score;
    char text[40];
    const double u = python_random_first((uint32_t)(SEED + s->index));
    const struct collection_caption *c = &s->is.caption[collection_choose_at(s->r->all, &s->is, u, &score)];
    score_text(text, score);
    check_draw(s, json_object_get(s->want, "draw"));
    count(s, "caption_type", strcmp(field_text(s->want, "caption_type"), c->kind) != 0);
    count(s, "clip_score", strcmp(field_text(s->want, "clip_score"), text) != 0);
    if (json_is_string(json_object_get(s->want, "caption")))
        count(s, "caption", strcmp(field_text(s->want, "caption"), c->text) != 0);
}

static double first_of_row(const struct collection_rows *t, int row)
{
    return (double)t->floats[(size_t)row * (size_t)t->channels];
}

/* Rows of text features instead of a caption. */
static int check_rows(const struct sample *s, const json_t *caption)
{
    struct collection_rows t = {0};
    const json_t *feature = json_object_get(caption, "text_feature"), *mask = json_object_get(caption, "mask");
    const json_t *firsts = json_object_get(feature, "rows_first_values");
    const int most = (int)json_array_size(mask);
    int differ = 0;
    if (collection_rows(&t, s->r->all, s->index, most, s->r->err) < 0)
        return -1;
    count(s, "channels", json_integer_value(json_array_get(json_object_get(feature, "shape"), 2)) != t.channels);
    for (int i = 0; i < most; i++) {
        differ += json_number_value(json_array_get(mask, (size_t)i)) != (double)t.mask[i];
        differ += fabs(json_number_value(json_array_get(firsts, (size_t)i)) - first_of_row(&t, i)) > 1e-6;
    }
    count(s, "rows", differ);
    free(t.floats);
    free(t.mask);
    return 0;
}

/* --- pictures ----------------------------------------------------------------------------- */

static int load_picture(struct sample *s)
{
    struct image im;
    if (collection_picture(&im, s->r->all, s->index, s->r->err) < 0)
        return -1;
    const size_t hw = (size_t)im.width * (size_t)im.height;
    s->channels = 3;
    s->height = im.height;
    s->width = im.width;
    s->floats = malloc(sizeof(*s->floats) * 3 * hw);
    for (size_t i = 0; s->floats && i < 3 * hw; i++)
        s->floats[i % 3 * hw + i / 3] = ((float)im.rgb[i] / 255.0f - 0.5f) / 0.5f;
    image_free(&im);
    return s->floats ? 0 : err_set(s->r->err, ERR_MEMORY, "out of memory for a picture");
}

static int load_latent(struct sample *s)
{
    struct collection_latent l = {0};
    if (collection_latent(&l, s->r->all, s->index, s->r->err) < 0)
        return -1;
    s->channels = l.channels;
    s->height = l.height;
    s->width = l.width;
    s->floats = l.floats;
    return 0;
}

static double spread(const float *x, size_t n, double mean)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return sqrt(sum / ((double)n - 1));
}

static double mean_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

static int int_at(const json_t *list, size_t i)
{
    return (int)json_integer_value(json_array_get(list, i));
}

/* Differences of one level count as none for a JPEG. */
static double apart(const struct sample *s, double ours, double want)
{
    const double d = fabs(ours - want);
    return s->lossy && d <= 1 / 127.5 + 1e-6 ? 0 : d;
}

static double largest_of_samples(const struct sample *s, const json_t *rows)
{
    size_t k;
    json_t *row;
    double most = json_array_size(rows) ? 0 : NAN;
    json_array_foreach((json_t *)(uintptr_t)rows, k, row) {
        const int c = int_at(row, 0), y = int_at(row, 1), x = int_at(row, 2);
        if (c >= s->channels || y >= s->height || x >= s->width || c < 0 || y < 0 || x < 0)
            return NAN;
        const size_t at = ((size_t)c * (size_t)s->height + (size_t)y) * (size_t)s->width + (size_t)x;
        most = fmax(most, apart(s, (double)s->floats[at], json_number_value(json_array_get(row, 3))));
    }
    return most;
}

/* Mean, deviation and some numbers, each within 1e-6. */
static void check_floats(const struct sample *s, const json_t *image)
{
    const size_t n = (size_t)s->channels * (size_t)s->height * (size_t)s->width;
    const json_t *shape = json_object_get(image, "shape");
    const double mean = mean_of(s->floats, n), slack = s->lossy ? 1 / 127.5 : 1e-6;
    count(s, "shape", int_at(shape, 0) != s->channels || int_at(shape, 1) != s->height || int_at(shape, 2) != s->width);
    count(s, "mean", !(fabs(mean - field_number(image, "mean")) <= slack));
    count(s, "std", !(fabs(spread(s->floats, n, mean) - field_number(image, "std")) <= slack));
    count(s, "samples", !(largest_of_samples(s, json_object_get(image, "samples_c_y_x_value")) <= 1e-6));
}

static int check_bucket(const struct sample *s, const json_t *bucket)
{
    struct collection_placement p = {0};
    struct aspect to;
    const json_t *size = json_object_get(bucket, "size_hw"), *scaled = json_object_get(bucket, "resize_hw");
    const json_t *corner = json_object_get(bucket, "crop_top_left");
    if (collection_size(s->r->all, s->index, &to, s->r->err) < 0)
        return -1;
    count(s, "bucket", int_at(size, 0) != to.height || int_at(size, 1) != to.width ||
                           aspect_label(s->is.height, s->is.width, s->r->options.resolution) !=
                               field_number(bucket, "label"));
    if (s->r->options.latents)
        return 0;
    if (collection_place(&p, s->r->all, s->index, s->r->err) < 0)
        return -1;
    count(s, "crop", int_at(scaled, 0) != p.scaled.height || int_at(scaled, 1) != p.scaled.width ||
                         int_at(corner, 0) != p.top || int_at(corner, 1) != p.left);
    return 0;
}

/* --- samples ------------------------------------------------------------------------------ */

static void check_label(const struct sample *s)
{
    const json_t *hw = json_object_get(s->want, "img_hw");
    const bool multi = s->r->options.multi_scale;
    const double h = multi ? s->is.height : s->r->options.resolution, w = multi ? s->is.width : s->r->options.resolution;
    const double label = multi ? aspect_label(h, w, s->r->options.resolution) : 1;
    count(s, "img_hw", json_number_value(json_array_get(hw, 0)) != h || json_number_value(json_array_get(hw, 1)) != w);
    count(s, "aspect_ratio", field_number(s->want, "aspect_ratio") != label);
}

static void check_place(const struct sample *s)
{
    const char *shard = field_text(s->want, "shard");
    char name[COLLECTION_NAME];
    count(s, "key", strcmp(field_text(s->want, "key"), s->is.key) != 0);
    if (!shard[0])
        return;
    snprintf(name, sizeof(name), "%s/%s", shard, s->is.key);
    count(s, "shard", strcmp(name, s->is.name) != 0 || field_int(s->want, "shardindex", -1) != s->is.number);
}

static int check_sample(struct sample *s)
{
    const json_t *caption = json_object_get(s->want, "caption"), *bucket = json_object_get(s->want, "bucket");
    if (collection_sample(&s->is, s->r->all, s->index, s->r->err) < 0)
        return -1;
    s->lossy = strstr(s->is.where, ".jp") != NULL;
    if ((json_is_object(caption) ? check_rows(s, caption) : 0) < 0 ||
        (s->r->options.latents ? load_latent(s) : load_picture(s)) < 0 || (bucket && check_bucket(s, bucket) < 0))
        return -1;
    check_place(s);
    check_caption(s);
    check_label(s);
    check_floats(s, json_object_get(s->want, "image"));
    return 0;
}

/* A sample that the authors' reader refuses. */
static bool is_refused(struct sample *s)
{
    struct collection_rows t = {0};
    bool refused = collection_sample(&s->is, s->r->all, s->index, s->r->err) < 0 ||
                   (s->r->options.latents ? load_latent(s) : load_picture(s)) < 0;
    const int most = (int)field_int(s->r->section, "max_length", 8);
    if (!refused && s->r->options.text_dir) {
        refused = collection_rows(&t, s->r->all, s->index, most, s->r->err) < 0;
        free(t.floats);
        free(t.mask);
    }
    return refused && s->r->err->code == ERR_DATA;
}

static void check_refusal(struct sample *s)
{
    const bool refused = is_refused(s);
    if (s->r->files->each && refused)
        fprintf(s->r->files->each, "# %s\n", s->r->err->text);
    count(s, "is refused", !refused);
    *s->r->err = (struct err){0};
}

static int check_case(struct reader *r, const json_t *want)
{
    struct sample s = {.r = r, .want = want, .index = field_int(want, "index", -1)};
    int rc = 0;
    if (r->list && collection_len(r->all) > 0)
        s.index %= collection_len(r->all);
    if (json_object_get(want, "error"))
        check_refusal(&s);
    else
        rc = check_sample(&s);
    collection_sample_free(&s.is);
    free(s.floats);
    return rc < 0 ? err_prefix(r->err, "%s, case %lld: ", r->name, (long long)s.index) : 0;
}

/* --- readers ------------------------------------------------------------------------------ */

static void on_bad(void *arg, const char *where, const char *what)
{
    (void)arg, (void)where, (void)what; /* its case says what is expected of it */
}

static int copy_suffixes(char (*to)[COLLECTION_SUFFIX], const json_t *list)
{
    int n = 0;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)(uintptr_t)list, i, row)
        if (json_is_string(row) && n < COLLECTION_SUFFIXES)
            snprintf(to[n++], COLLECTION_SUFFIX, "%s", json_string_value(row));
    return n;
}

/* The sizes of a reader with buckets: N of ASPECT_RATIO_N; without it 512, as the features have. */
static int resolution_of(const struct reader *r)
{
    const char *ratio = strstr(r->name, "ASPECT_RATIO_");
    if (!ratio)
        ratio = strstr(field_text(r->section, "aspect_ratio_type"), "ASPECT_RATIO_");
    return ratio ? atoi(ratio + strlen("ASPECT_RATIO_")) : (int)field_int(r->section, "resolution", 512);
}

static void set_options(struct reader *r, const char *path)
{
    const json_t *config = r->files->config;
    struct collection_options *o = &r->options;
    *o = (struct collection_options){.path = path, .recipe = COLLECTION_SANA, .step = 32};
    o->multi_scale = strstr(r->name, "MS") != NULL;
    o->resolution = resolution_of(r);
    o->latents = strstr(r->name, "vae") != NULL;
    o->text_dir = strstr(r->name, "text_feat") ? path : NULL;
    o->caption_suffixes = copy_suffixes(o->caption_suffix, json_object_get(config, "caption_suffixes"));
    o->score_suffixes = copy_suffixes(o->score_suffix, json_object_get(config, "clip_score_suffixes"));
    o->rule = (struct caption_rule){field_number(config, "clip_thr"), field_number(config, "clip_thr_temperature")};
    r->list = strncmp(r->name, "SanaImgDataset", strlen("SanaImgDataset")) == 0;
}

static int check_reader(struct reader *r)
{
    size_t i;
    json_t *want;
    const int64_t len = collection_len(r->all) * (r->list ? REPEATS : 1);
    char name[NAME];
    snprintf(name, sizeof(name), "%s len", r->name);
    if (json_object_get(r->section, "len"))
        verify_count(r->result, r->files, name, field_int(r->section, "len", -1) != len);
    json_array_foreach(json_object_get(r->section, "cases"), i, want)
        if (check_case(r, want) < 0)
            return -1;
    return 0;
}

static int run_reader(struct reader *r)
{
    char path[COLLECTION_NAME];
    const char *slash = strrchr(r->files->path, '/');
    snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash + 1 - r->files->path) : 0, r->files->path,
             field_text(r->section, "folder"));
    set_options(r, path);
    if (collection_open(&r->all, &r->options, on_bad, NULL, r->err) < 0)
        return -1;
    const int rc = check_reader(r);
    collection_close(r->all);
    return rc;
}

int verify_data(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    const char *name;
    json_t *section;
    int readers = 0;
    json_object_foreach(files->config, name, section) {
        struct reader r = {.result = result, .files = files, .name = name, .section = section, .err = err};
        if (!json_is_array(json_object_get(section, "cases")))
            continue;
        if (run_reader(&r) < 0)
            return -1;
        readers++;
    }
    return readers ? 0 : err_set(err, ERR_DATA, "the case names no reader with \"cases\"");
}
