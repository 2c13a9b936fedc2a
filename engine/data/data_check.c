/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.c - see data_check.h */
#include "engine/data/data_check.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/base/text_append.h"
#include "engine/collection/caption.h"
#include "engine/collection/collection.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/image/image.h"

enum { PATH_SIZE = 8192 };

struct check {
    const struct train_spec *spec;
    struct data_check        sum;
    data_check_fn            tell;
    void                    *arg;
    const char              *of;    /* what begins the places of its problems */
    int                      factor, step;
    struct aspect            first; /* size of the first picture */
    char                     first_name[300];
};

static void __attribute__((format(printf, 4, 5))) say(struct check *c, bool error,
                                                      const char *where, const char *fmt, ...)
{
    char what[512], place[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    snprintf(place, sizeof(place), "%s%s", c->of, where);
    c->sum.errors += error;
    c->sum.notices += !error;
    c->tell(c->arg, error, place, what);
}

/* A sentence that begins with the path of the file does not need the file's name before it. */
static const char *without(const char *text, const char *path)
{
    size_t n = strlen(path);
    if (strncmp(text, path, n) != 0)
        return text;
    return text[n] == ' ' ? text + n + 1 : text[n] == ':' && text[n + 1] == ' ' ? text + n + 2 : text;
}

static void tell_wrong(struct check *c, const char *where, const struct err *err)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", c->spec->data_path, where);
    say(c, true, where, "%s", without(without(err->text, path), where));
}

/* --- pictures ---------------------------------------------------------------------------- */

/* A wrong sample stays one, and says so again when it is read; of a shard that cannot be read no sample is left. */
static void on_bad_entry(void *arg, const char *where, const char *what)
{
    struct check *c = arg;
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", c->spec->data_path, where);
    if (text_ends_with(where, ".tar"))
        say(c, true, where, "%s", without(without(what, path), c->spec->data_path));
}

/* A picture by its file, not by the line that lists it. */
static const char *picture_of(const struct collection *all, const struct collection_sample *s)
{
    return collection_layout(all) == COLLECTION_SHARDS ? s->where : s->name;
}

static void check_caption(struct check *c, const struct collection_sample *s, const char *where)
{
    for (int k = 0; k < s->captions; k++) {
        const int words = caption_words(s->caption[k].text);
        if (words == 0)
            say(c, false, where, "the caption%s%s is empty", s->captions > 1 ? " of kind " : "",
                s->captions > 1 ? s->caption[k].kind : "");
        else if (words > c->spec->caption_words && c->spec->encoders == ENCODERS_DCT_HASH)
            say(c, false, where, "the caption has %d words; data.caption_words keeps %d", words,
                c->spec->caption_words);
    }
}

static void check_edges(struct check *c, const char *where, struct aspect to)
{
    if (to.height % c->step || to.width % c->step)
        say(c, true, where, "is %d x %d pixels, not a multiple of %d; set train.data.resolution", to.width, to.height,
            c->step);
}

static void check_size(struct check *c, const char *where, struct aspect is, struct aspect to)
{
    if (to.height > is.height || to.width > is.width)
        say(c, false, where, "is %d x %d pixels and would be enlarged to cover %d x %d", is.width, is.height, to.width,
            to.height);
    check_edges(c, where, to);
    if (!c->first_name[0]) {
        snprintf(c->first_name, sizeof(c->first_name), "%s", where);
        c->first = to;
    } else if (!c->spec->multi_scale && (to.height != c->first.height || to.width != c->first.width)) {
        say(c, true, where, "is %d x %d pixels, but %s is %d x %d; set train.data.resolution", is.width, is.height,
            c->first_name, c->first.width, c->first.height);
    }
}

/* A label that is far from the picture distorts it. */
static void check_label(struct check *c, const struct collection_sample *s, const char *where, struct aspect is)
{
    const double label = s->height / s->width, own = (double)is.height / is.width;
    if (s->height > 0 && s->width > 0 && (label > own * 1.1 || label < own / 1.1))
        say(c, false, where, "is %d x %d pixels, but described as %g x %g", is.width, is.height, s->width, s->height);
}

/* As a run reads it: decoded, scaled and cropped. */
static int check_pixels(struct check *c, const struct collection *all, int64_t i, const struct collection_sample *s,
                        const struct collection_bytes *b, struct err *err)
{
    struct image im;
    struct aspect is;
    if (collection_picture(&im, all, i, err) < 0)
        return -1;
    const struct aspect to = {im.height, im.width};
    image_free(&im);
    if (image_measure(&is.width, &is.height, b->at, b->size, b->name, err) < 0)
        return -1;
    check_size(c, picture_of(all, s), is, to);
    check_label(c, s, picture_of(all, s), is);
    return 0;
}

/* Bytes of pictures that are the same have one number. */
struct print {
    uint64_t digest; /* 0: it was not read */
    int64_t  item;
};

static int by_digest(const void *a, const void *b)
{
    const struct print *x = a, *y = b;
    if (x->digest != y->digest)
        return x->digest < y->digest ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

static void check_picture(struct check *c, const struct collection *all, int64_t i, struct print *print)
{
    struct collection_sample s;
    struct collection_bytes b = {0};
    struct err err = {0};
    print->item = i;
    c->sum.samples++;
    if (collection_sample(&s, all, i, &err) < 0) {
        char *where = collection_where(all, i);
        tell_wrong(c, where ? where : "?", &err);
        free(where);
        return;
    }
    if (collection_load(&b, all, i, &err) == 0) {
        print->digest = digest_word(b.at, b.size, 0) | 1;
        c->sum.bytes += (int64_t)b.size;
    }
    if (err.code || check_pixels(c, all, i, &s, &b, &err) < 0)
        tell_wrong(c, picture_of(all, &s), &err);
    check_caption(c, &s, picture_of(all, &s));
    collection_bytes_free(&b);
    collection_sample_free(&s);
}

static void tell_same(struct check *c, const struct collection *all, struct print *prints, int64_t n)
{
    struct collection_sample a, b;
    qsort(prints, (size_t)n, sizeof(*prints), by_digest);
    for (int64_t i = 1; i < n; i++) {
        if (!prints[i].digest || prints[i].digest != prints[i - 1].digest ||
            collection_sample(&a, all, prints[i].item, NULL) < 0)
            continue;
        if (collection_sample(&b, all, prints[i - 1].item, NULL) == 0) {
            say(c, false, picture_of(all, &a), "has the same bytes as %s", b.name);
            collection_sample_free(&b);
        }
        collection_sample_free(&a);
    }
}

static int check_pictures(struct check *c, struct err *err)
{
    struct collection_options o;
    struct collection *all;
    collection_options(&o, c->spec);
    if (c->factor)
        o.step = c->factor * c->spec->model.patch;
    c->step = o.step;
    if (collection_open(&all, &o, on_bad_entry, c, err) < 0)
        return -1;
    const int64_t n = collection_len(all);
    struct print *prints = calloc((size_t)n, sizeof(*prints));
    if (!prints) {
        collection_close(all);
        return err_set(err, ERR_MEMORY, "out of memory for %lld pictures", (long long)n);
    }
    for (int64_t i = 0; i < n; i++)
        check_picture(c, all, i, &prints[i]);
    tell_same(c, all, prints, n);
    free(prints);
    collection_close(all);
    return 0;
}

/* --- features ---------------------------------------------------------------------------- */

static void check_numbers(struct check *c, const char *name, const char *what, const float *x, size_t n)
{
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) {
            first = bad ? first : i;
            bad++;
        }
    if (bad > 0)
        say(c, true, name, "%zu of %zu numbers of its %s are not finite; the first is number %zu", bad, n, what, first);
}

static void check_mask(struct check *c, const char *name, const float *mask, size_t words)
{
    size_t real = 0;
    for (size_t i = 0; i < words; i++)
        real += mask[i] == 1;
    for (size_t i = 0; i < words; i++)
        if (mask[i] != 0 && mask[i] != 1) {
            say(c, true, name, "its mask holds %g; expected 0 or 1", (double)mask[i]);
            return;
        }
    if (real == 0)
        say(c, false, name, "its caption is empty: the mask is all 0");
}

static int check_samples(struct check *c, struct dataset *d, struct err *err)
{
    struct dataset_shape s = dataset_shape(d);
    size_t row = (size_t)s.words * (size_t)s.caption_channels, words = (size_t)s.words;
    size_t most = (size_t)s.channels * (size_t)s.height * (size_t)s.width;
    float *latent = calloc(most + row + words, sizeof(float));
    if (!latent)
        return err_set(err, ERR_MEMORY, "out of memory for a sample");
    float *caption = latent + most, *mask = caption + row;
    for (int64_t i = 0; i < s.samples; i++) {
        struct dataset_bucket b = dataset_bucket_of(d, i);
        size_t n = (size_t)s.channels * (size_t)b.height * (size_t)b.width;
        const char *name = dataset_name(d, i);
        struct err why = {0};
        if (dataset_get(d, i, latent, caption, mask, &why) < 0) {
            say(c, true, name, "%s", without(why.text, name));
            continue;
        }
        check_numbers(c, name, "latent", latent, n);
        check_numbers(c, name, "caption", caption, row);
        check_mask(c, name, mask, words);
        c->sum.samples++;
    }
    free(latent);
    return 0;
}

/* Each file as a data set of its own, so that an error in one does not hide errors in the
 * next. */
static int check_shard(struct check *c, const char *path, const char *name, struct err *err)
{
    struct train_spec alone = *c->spec;
    struct dataset *d = NULL;
    struct err why = {0};
    struct stat st;
    snprintf(alone.data_path, sizeof(alone.data_path), "%s", path);
    if (stat(path, &st) == 0)
        c->sum.bytes += st.st_size;
    int rc = 0;
    if (dataset_open(&d, &alone, NULL, NULL, &why) < 0)
        say(c, true, name, "%s", without(why.text, path));
    else
        rc = check_samples(c, d, err);
    dataset_close(d);
    return rc;
}

static void check_latent(struct check *c, const struct collection *all, int64_t i, const char *where)
{
    struct collection_latent l;
    struct err err = {0};
    if (collection_latent(&l, all, i, &err) < 0) {
        tell_wrong(c, where, &err);
        return;
    }
    c->sum.bytes += (int64_t)l.channels * l.height * l.width * (int64_t)sizeof(float);
    free(l.floats);
}

static void check_text(struct check *c, const struct collection *all, int64_t i, const char *where)
{
    struct collection_rows t;
    struct err err = {0};
    const int most = c->spec->caption_words;
    if (collection_rows(&t, all, i, most, &err) < 0) {
        tell_wrong(c, where, &err);
        return;
    }
    free(t.floats);
    free(t.mask);
}

static void check_array(struct check *c, const struct collection *all, int64_t i)
{
    struct collection_sample s;
    struct err err = {0};
    char *where = collection_where(all, i);
    c->sum.samples++;
    if (collection_sample(&s, all, i, &err) < 0) {
        tell_wrong(c, where ? where : "?", &err);
    } else {
        check_latent(c, all, i, s.where);
        check_text(c, all, i, s.where);
        collection_sample_free(&s);
    }
    free(where);
}

/* Shapes that differ between samples. */
static int check_together(struct check *c, struct dataset *d, struct err *err)
{
    const struct data_check alone = c->sum;
    const int rc = check_samples(c, d, err);
    c->sum.samples = alone.samples;
    return rc;
}

/* Latents in tar files and text rows: each sample alone, then all together. */
static int check_arrays(struct check *c, struct err *err)
{
    struct collection_options o;
    struct collection *all;
    struct dataset *d = NULL;
    struct err why = {0};
    collection_options(&o, c->spec);
    if (!c->spec->text_features[0])
        return dataset_open(&d, c->spec, NULL, NULL, err); /* refuses the spec */
    o.latents = true;
    o.text_dir = c->spec->text_features;
    if (collection_open(&all, &o, on_bad_entry, c, err) < 0)
        return -1;
    for (int64_t i = 0; i < collection_len(all); i++)
        check_array(c, all, i);
    collection_close(all);
    if (c->sum.errors == 0 && dataset_open(&d, c->spec, NULL, NULL, &why) < 0)
        say(c, true, c->spec->data_path, "%s", without(why.text, c->spec->data_path));
    const int rc = d ? check_together(c, d, err) : 0;
    dataset_close(d);
    return rc;
}

static int is_shard(const struct dirent *e)
{
    return e->d_name[0] != '.' && text_ends_with(e->d_name, ".safetensors");
}

static int check_features(struct check *c, struct err *err)
{
    const char *dir = c->spec->data_path;
    struct dirent **names = NULL;
    struct dataset *d = NULL;
    struct stat st;
    int rc = 0;
    if (stat(dir, &st) < 0)
        return err_set(err, ERR_DATA, "cannot read the data %s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return check_shard(c, dir, strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir, err);
    int n = scandir(dir, &names, is_shard, alphasort);
    for (int i = 0; i < n; i++) {
        char path[PATH_SIZE];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (rc == 0)
            rc = check_shard(c, path, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    struct err why = {0};
    if (rc == 0 && c->sum.errors == 0 && dataset_open(&d, c->spec, NULL, NULL, &why) < 0)
        say(c, true, dir, "%s", why.text); /* each file alone is valid, together they are not */
    dataset_close(d);
    return rc;
}

static int check_source(struct check *c, struct err *err)
{
    return c->spec->encoders != ENCODERS_FEATURES ? check_pictures(c, err)
           : dataset_has_tars(c->spec->data_path) ? check_arrays(c, err)
                                                  : check_features(c, err);
}

/* With the spec of data but for the folder and the prompt, as a run opens it. */
static int check_prior(struct check *c, const struct train_spec *s, struct err *err)
{
    struct train_spec own = *s;
    const int64_t samples = c->sum.samples;
    memcpy(own.data_path, s->prior.path, sizeof(s->prior.path));
    memcpy(own.data_prompt, s->prior.prompt, sizeof(s->prior.prompt));
    c->spec = &own;
    c->of = "prior: ";
    c->first_name[0] = '\0';
    const int rc = check_source(c, err);
    c->sum.prior = c->sum.samples - samples;
    c->sum.samples = samples;
    return rc < 0 ? err_prefix(err, "train.prior.path: ") : 0;
}

int data_check_run(struct data_check *out, const struct train_spec *s, int factor, data_check_fn tell, void *arg,
                   struct err *err)
{
    struct check c = {.spec = s, .tell = tell, .arg = arg, .of = "", .factor = factor};
    if (s->encoders == ENCODERS_SYNTHETIC)
        return err_set(err, ERR_USAGE, "train.data.encoders: synthetic samples are generated, not "
                                       "read; there is nothing to check");
    int rc = check_source(&c, err);
    if (rc == 0 && s->prior.path[0])
        rc = check_prior(&c, s, err);
    *out = c.sum;
    return rc;
}
