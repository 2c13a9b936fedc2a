/* SPDX-License-Identifier: Apache-2.0 */
/* data_check.c - see data_check.h */
#include "engine/data/data_check.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/contract/digest.h"
#include "engine/contract/err.h"
#include "engine/contract/train_spec.h"
#include "engine/data/caption.h"
#include "engine/data/dataset.h"
#include "engine/data/folder.h"
#include "engine/data/image.h"
#include "engine/data/pack.h"

struct check {
    const struct train_spec *spec;
    struct data_check        sum;
    data_check_fn            tell;
    void                    *arg;
    struct aspect            first; /* size of the first picture */
    const char              *first_name;
};

static void __attribute__((format(printf, 4, 5))) say(struct check *c, bool error,
                                                      const char *where, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    c->sum.errors += error;
    c->sum.notices += !error;
    c->tell(c->arg, error, where, what);
}

/* A sentence that begins with the path of the file does not need the file's name before it. */
static const char *without(const char *text, const char *path)
{
    size_t n = strlen(path);
    return strncmp(text, path, n) == 0 && text[n] == ' ' ? text + n + 1 : text;
}

/* --- pictures ---------------------------------------------------------------------------- */

static void on_bad_entry(void *arg, const char *where, const char *what)
{
    say(arg, true, where, "%s", what);
}

static void check_caption(struct check *c, const struct folder_item *it)
{
    int words = caption_words(it->caption);
    json_t *text = json_string(it->caption);
    if (!text)
        say(c, true, it->file, "the caption is not UTF-8");
    else if (words == 0)
        say(c, false, it->file, "the caption is empty");
    else if (words > c->spec->caption_words)
        say(c, false, it->file, "the caption has %d words; data.caption_words keeps %d", words,
            c->spec->caption_words);
    json_decref(text);
}

static void check_size(struct check *c, const char *name, const struct image *im)
{
    const struct train_spec *s = c->spec;
    struct aspect to = pack_size(im->height, im->width, s);
    int edge = s->dct_block * s->model.patch;
    if (to.height > im->height || to.width > im->width)
        say(c, false, name, "is %d x %d pixels and would be enlarged to cover %d x %d", im->width,
            im->height, to.width, to.height);
    if (to.height % edge || to.width % edge)
        say(c, true, name, "is %d x %d pixels, not a multiple of %d; set train.data.resolution",
            im->width, im->height, edge);
    if (!c->first_name) {
        c->first_name = name;
        c->first = to;
    } else if (!s->multi_scale && (to.height != c->first.height || to.width != c->first.width)) {
        say(c, true, name, "is %d x %d pixels, but %s is %d x %d; set train.data.resolution",
            im->width, im->height, c->first_name, c->first.width, c->first.height);
    }
}

struct print {
    char digest[DIGEST_TEXT];
    int  item;
};

static int by_digest(const void *a, const void *b)
{
    const struct print *x = a, *y = b;
    int order = strcmp(x->digest, y->digest);
    return order ? order : x->item - y->item;
}

static void check_picture(struct check *c, const struct folder *f, int i, struct print *print)
{
    const struct folder_item *it = &f->items[i];
    char path[PACK_PATH];
    struct image im;
    struct err err = {0};
    int64_t bytes = 0;
    print->item = i;
    snprintf(path, sizeof(path), "%s/%s", f->path, it->file);
    if (digest_file(print->digest, &bytes, path, &err) < 0 || image_read(&im, path, &err) < 0) {
        say(c, true, it->file, "%s", without(err.text, path));
    } else {
        check_size(c, it->file, &im);
        image_free(&im);
    }
    c->sum.samples++;
    c->sum.bytes += bytes;
    check_caption(c, it);
}

static int check_pictures(struct check *c, struct err *err)
{
    struct folder f;
    if (folder_read_all(&f, c->spec->data_path, on_bad_entry, c, err) < 0)
        return -1;
    struct print *prints = calloc((size_t)f.len, sizeof(*prints));
    if (!prints) {
        folder_free(&f);
        return err_set(err, ERR_MEMORY, "out of memory for %d pictures", f.len);
    }
    for (int i = 0; i < f.len; i++)
        check_picture(c, &f, i, &prints[i]);
    qsort(prints, (size_t)f.len, sizeof(*prints), by_digest);
    for (int i = 1; i < f.len; i++)
        if (prints[i].digest[0] && strcmp(prints[i].digest, prints[i - 1].digest) == 0)
            say(c, false, f.items[prints[i].item].file, "has the same bytes as %s",
                f.items[prints[i - 1].item].file);
    free(prints);
    folder_free(&f);
    return 0;
}

/* --- features ---------------------------------------------------------------------------- */

static void check_numbers(struct check *c, const char *name, const char *what, const float *x,
                          size_t n)
{
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) {
            first = bad ? first : i;
            bad++;
        }
    if (bad > 0)
        say(c, true, name, "%zu of %zu numbers of its %s are not finite; the first is number %zu",
            bad, n, what, first);
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
            say(c, true, name, "%s", why.text);
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
    if (dataset_open(&d, &alone, "", NULL, NULL, &why) < 0)
        say(c, true, name, "%s", without(why.text, path));
    else
        rc = check_samples(c, d, err);
    dataset_close(d);
    return rc;
}

static int is_shard(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return e->d_name[0] != '.' && dot && strcmp(dot, ".safetensors") == 0;
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
        char path[PACK_PATH];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (rc == 0)
            rc = check_shard(c, path, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    struct err why = {0};
    if (rc == 0 && c->sum.errors == 0 && dataset_open(&d, c->spec, "", NULL, NULL, &why) < 0)
        say(c, true, dir, "%s", why.text); /* each file alone is valid, together they are not */
    dataset_close(d);
    return rc;
}

int data_check_run(struct data_check *out, const struct train_spec *s, data_check_fn tell,
                   void *arg, struct err *err)
{
    struct check c = {.spec = s, .tell = tell, .arg = arg};
    if (s->encoders == ENCODERS_SYNTHETIC)
        return err_set(err, ERR_USAGE, "train.data.encoders: synthetic samples are generated, not "
                                       "read; there is nothing to check");
    int rc = s->encoders == ENCODERS_FEATURES ? check_features(&c, err) : check_pictures(&c, err);
    *out = c.sum;
    return rc;
}
