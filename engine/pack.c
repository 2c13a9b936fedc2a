/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - see pack.h */
#include "engine/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/caption.h"
#include "engine/dct.h"
#include "engine/digest.h"
#include "engine/err.h"
#include "engine/folder.h"
#include "engine/image.h"
#include "engine/safetensors.h"
#include "engine/scratch.h"
#include "engine/train_spec.h"

#define PACK_FORMAT "jobctl-pack-1"

/* What is being built. */
struct pack {
    int64_t n, channels, height, width, words, caption_channels;
    float  *latent, *caption, *mask, *null, *mean, *deviation;
    char   *names; /* JSON lists */
    char   *captions;
    char    inputs[DIGEST_TEXT], contents[DIGEST_TEXT];
};

static void pack_free(struct pack *p)
{
    free(p->latent);
    free(p->caption);
    free(p->mask);
    free(p->null);
    free(p->mean);
    free(p->deviation);
    free(p->names);
    free(p->captions);
}

static int digest_inputs(char text[DIGEST_TEXT], const struct folder *f, const struct train_spec *s,
                         struct err *err)
{
    struct digest *d;
    int64_t settings[] = {s->resolution, s->dct_block, s->caption_words, s->caption_channels,
                          f->len};
    if (digest_create(&d, err) < 0)
        return -1;
    digest_add_text(d, PACK_FORMAT);
    digest_add(d, settings, sizeof(settings));
    for (int i = 0; i < f->len; i++) {
        const struct folder_item *it = &f->items[i];
        digest_add_text(d, it->file);
        digest_add_text(d, it->caption);
        digest_add(d, &it->size, sizeof(it->size));
        digest_add(d, &it->mtime_ns, sizeof(it->mtime_ns));
    }
    digest_text(d, text);
    digest_destroy(d);
    return 0;
}

static const char *const pieces[] = {"latent", "caption", "mask", "null", "mean", "deviation"};
enum { PIECES = sizeof(pieces) / sizeof(pieces[0]) };

/* Is the file there, whole, and made from these inputs?  Any doubt means that it is built anew. */
static bool pack_good(const char *path, const char *inputs)
{
    struct st_file *f = NULL;
    struct digest *d = NULL;
    char text[DIGEST_TEXT];
    bool good = false;
    if (st_open(&f, path, NULL) < 0 || digest_create(&d, NULL) < 0)
        goto out;
    const char *was = st_meta(f, "inputs"), *sum = st_meta(f, "contents");
    if (!was || strcmp(was, inputs) != 0 || !sum)
        goto out;
    for (int i = 0; i < PIECES; i++) {
        const struct st_tensor *t = st_find(f, pieces[i]);
        if (!t)
            goto out;
        digest_add(d, t->data, t->bytes);
    }
    digest_text(d, text);
    good = strcmp(text, sum) == 0;
out:
    digest_destroy(d);
    st_close(f);
    return good;
}

/* One picture as latents; the first one decides the size when the spec leaves it open. */
static int encode_picture(struct pack *p, int i, const struct folder *f, const struct train_spec *s,
                          struct err *err)
{
    char path[PACK_PATH];
    struct image im = {0}, fit = {0};
    int rc = -1;
    if (snprintf(path, sizeof(path), "%s/%s", f->path, f->items[i].file) >= (int)sizeof(path))
        return err_set(err, ERR_DATA, "the path is too long: %.200s", f->items[i].file);
    if (image_read(&im, path, err) < 0)
        goto out;
    if (s->resolution > 0 && (im.width != s->resolution || im.height != s->resolution)) {
        if (image_fit(&fit, &im, s->resolution, err) < 0)
            goto out;
        image_free(&im);
        im = fit;
        fit = (struct image){0};
    }
    int b = s->dct_block, edge = b * s->model.patch;
    if (im.width % edge || im.height % edge) {
        err_set(err, ERR_DATA, "%s is %d x %d pixels, no multiple of %d; set train.data.resolution",
                path, im.width, im.height, edge);
        goto out;
    }
    if (i == 0) {
        p->channels = 3 * b * b;
        p->height = im.height / b;
        p->width = im.width / b;
        p->latent = calloc((size_t)(p->n * p->channels),
                           sizeof(float) * (size_t)(p->height * p->width));
        if (!p->latent) {
            err_set(err, ERR_MEMORY, "out of memory for %lld pictures", (long long)p->n);
            goto out;
        }
    }
    if (im.height / b != p->height || im.width / b != p->width) {
        err_set(err, ERR_DATA,
                "%s is %d x %d pixels, but %s is %lld x %lld; set train.data.resolution", path,
                im.width, im.height, f->items[0].file, (long long)p->width * b,
                (long long)p->height * b);
        goto out;
    }
    rc = dct_encode(p->latent + i * p->channels * p->height * p->width, &im, b, err);
out:
    image_free(&im);
    image_free(&fit);
    return rc;
}

static int standardise(struct pack *p, struct err *err)
{
    int64_t hw = p->height * p->width;
    p->mean = calloc((size_t)p->channels, sizeof(float));
    p->deviation = calloc((size_t)p->channels, sizeof(float));
    if (!p->mean || !p->deviation)
        return err_set(err, ERR_MEMORY, "out of memory for statistics of channels");
    float largest = 0;
    for (int64_t c = 0; c < p->channels; c++) {
        double sum = 0, square = 0;
        for (int64_t i = 0; i < p->n; i++)
            for (int64_t k = 0; k < hw; k++) {
                double x = p->latent[(i * p->channels + c) * hw + k];
                sum += x;
                square += x * x;
            }
        double mean = sum / (double)(p->n * hw);
        double var = square / (double)(p->n * hw) - mean * mean;
        p->mean[c] = (float)mean;
        p->deviation[c] = (float)sqrt(var > 0 ? var : 0);
        largest = fmaxf(largest, p->deviation[c]);
    }
    for (int64_t c = 0; c < p->channels; c++) {
        p->deviation[c] = fmaxf(p->deviation[c], largest > 0 ? 0.15f * largest : 1);
        for (int64_t i = 0; i < p->n; i++)
            for (int64_t k = 0; k < hw; k++) {
                float *x = &p->latent[(i * p->channels + c) * hw + k];
                *x = (*x - p->mean[c]) / p->deviation[c];
            }
    }
    return 0;
}

static int encode_captions(struct pack *p, const struct folder *f, struct err *err)
{
    json_t *names = json_array(), *texts = json_array();
    size_t row = (size_t)(p->words * p->caption_channels);
    int rc = -1;
    p->caption = calloc((size_t)p->n, sizeof(float) * row);
    p->null = calloc(row, sizeof(float));
    p->mask = calloc((size_t)p->n, sizeof(float) * (size_t)p->words);
    if (!p->caption || !p->null || !p->mask)
        goto out;
    caption_null(p->null, (int)p->words, (int)p->caption_channels);
    for (int i = 0; i < f->len; i++) {
        const struct folder_item *it = &f->items[i];
        caption_encode(p->caption + (size_t)i * row, p->mask + i * p->words, it->caption,
                       (int)p->words, (int)p->caption_channels);
        if (json_array_append_new(names, json_string_nocheck(it->file)) < 0 ||
            json_array_append_new(texts, json_string(it->caption)) < 0) {
            err_set(err, ERR_DATA, "the caption of %s is not UTF-8", it->file);
            goto out;
        }
    }
    p->names = json_dumps(names, JSON_COMPACT);
    p->captions = json_dumps(texts, JSON_COMPACT);
    rc = p->names && p->captions ? 0 : -1;
out:
    json_decref(names);
    json_decref(texts);
    return rc == 0 ? 0 : err_set(err, ERR_MEMORY, "out of memory for captions");
}

static int pack_write(struct pack *p, const char *path, struct err *err)
{
    struct st_writer *w = NULL;
    struct digest *d = NULL;
    char tmp[SCRATCH_PATH];
    int64_t bytes;
    int fd = -1, rc = -1;
    const struct {
        const float *data;
        int          ndim;
        int64_t      dim[4];
    } at[PIECES] = {{p->latent, 4, {p->n, p->channels, p->height, p->width}},
                    {p->caption, 3, {p->n, p->words, p->caption_channels}},
                    {p->mask, 2, {p->n, p->words}},
                    {p->null, 2, {p->words, p->caption_channels}},
                    {p->mean, 1, {p->channels}},
                    {p->deviation, 1, {p->channels}}};
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    if (st_writer_create(&w, err) < 0 || digest_create(&d, err) < 0)
        goto out;
    for (int i = 0; i < PIECES; i++) {
        size_t n = sizeof(float);
        for (int k = 0; k < at[i].ndim; k++)
            n *= (size_t)at[i].dim[k];
        digest_add(d, at[i].data, n);
        if (st_writer_add(w, pieces[i], ST_F32, at[i].ndim, at[i].dim, at[i].data, err) < 0)
            goto out;
    }
    digest_text(d, p->contents);
    if (st_writer_meta(w, "format", PACK_FORMAT, err) < 0 ||
        st_writer_meta(w, "inputs", p->inputs, err) < 0 ||
        st_writer_meta(w, "contents", p->contents, err) < 0 ||
        st_writer_meta(w, "names", p->names, err) < 0 ||
        st_writer_meta(w, "captions", p->captions, err) < 0)
        goto out;
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
        goto out;
    }
    if (st_writer_write(w, fd, &bytes, err) < 0)
        goto out;
    if (fsync(fd) < 0 || rename(tmp, path) < 0) {
        err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
        goto out;
    }
    rc = 0;
out:
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        unlink(tmp);
    st_writer_destroy(w);
    digest_destroy(d);
    return rc;
}

static int pack_build(struct pack *p, const char *path, const struct folder *f,
                      const struct train_spec *s, pack_tick_fn tick, void *arg, struct err *err)
{
    p->n = f->len;
    p->words = s->caption_words;
    p->caption_channels = s->caption_channels;
    for (int i = 0; i < f->len; i++) {
        if (encode_picture(p, i, f, s, err) < 0)
            return -1;
        if (tick)
            tick(arg, i + 1, f->len);
    }
    if (standardise(p, err) < 0 || encode_captions(p, f, err) < 0)
        return -1;
    return pack_write(p, path, err);
}

int pack_ensure(char *path, int *built, const struct train_spec *s, const char *dir,
                pack_tick_fn tick, void *arg, struct err *err)
{
    struct folder f = {0};
    struct pack p = {0};
    int rc = -1;
    if (folder_read(&f, s->data_path, err) < 0 || digest_inputs(p.inputs, &f, s, err) < 0 ||
        scratch_mkdirs(dir, err) < 0)
        goto out;
    if (snprintf(path, PACK_PATH, "%s/pack-%.16s.safetensors", dir, p.inputs + 5) >= PACK_PATH) {
        err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
        goto out;
    }
    *built = !pack_good(path, p.inputs);
    if (*built) {
        scratch_sweep(dir);
        if (pack_build(&p, path, &f, s, tick, arg, err) < 0)
            goto out;
    }
    rc = 0;
out:
    pack_free(&p);
    folder_free(&f);
    return rc;
}
