/* SPDX-License-Identifier: Apache-2.0 */
/* encode_keys.c - the keys of a data set's entries; see encode.h */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"
#include "engine/contract/train_spec.h"
#include "engine/data/cache_shard.h"
#include "engine/encode/encode_internal.h"
#include "engine/model/backend.h"

struct err;
struct encode_memo;

struct encode_known {
    struct cache_key identity, key;
    int64_t          height, width;
};

struct encode_memo {
    struct encode_known *known; /* by identity */
    int64_t              n;
};

static int by_identity(const void *a, const void *b)
{
    const struct encode_known *x = a, *y = b;
    return memcmp(x->identity.byte, y->identity.byte, DIGEST_BYTES);
}

static const struct st_tensor *tensor(const struct st_file *f, const char *name, enum st_dtype dtype, int64_t each)
{
    const struct st_tensor *t = st_find(f, name);
    return t && t->dtype == dtype && t->ndim == 2 && t->dim[1] == each ? t : NULL;
}

static void read_all(struct encode_memo *m, const struct st_file *f)
{
    const struct st_tensor *identity = tensor(f, "identity", ST_U8, DIGEST_BYTES);
    const struct st_tensor *key = tensor(f, "key", ST_U8, DIGEST_BYTES), *size = tensor(f, "size", ST_I64, 2);
    if (!identity || !key || !size || key->dim[0] != identity->dim[0] || size->dim[0] != identity->dim[0])
        return;
    const int64_t n = identity->dim[0];
    if (!(m->known = calloc((size_t)n + 1, sizeof(*m->known))))
        return;
    for (m->n = 0; m->n < n; m->n++) {
        struct encode_known *k = &m->known[m->n];
        memcpy(k->identity.byte, (const char *)identity->data + m->n * DIGEST_BYTES, DIGEST_BYTES);
        memcpy(k->key.byte, (const char *)key->data + m->n * DIGEST_BYTES, DIGEST_BYTES);
        memcpy(&k->height, (const char *)size->data + m->n * 16, sizeof(k->height));
        memcpy(&k->width, (const char *)size->data + m->n * 16 + 8, sizeof(k->width));
    }
    qsort(m->known, (size_t)n, sizeof(*m->known), by_identity);
}

static struct encode_memo *encode_memo_open(const char *path)
{
    struct encode_memo *m = calloc(1, sizeof(*m));
    struct st_file *f = NULL;
    if (m && access(path, F_OK) == 0 && st_open(&f, path, NULL) == 0)
        read_all(m, f);
    st_close(f);
    return m;
}

/* also of NULL */
static void encode_memo_close(struct encode_memo *m)
{
    if (m)
        free(m->known);
    free(m);
}

/* One that cannot be read is empty. NULL: no memory. */
static const struct encode_known *encode_memo_find(const struct encode_memo *m, const struct cache_key *identity)
{
    const struct encode_known wanted = {.identity = *identity};
    return m->n ? bsearch(&wanted, m->known, (size_t)m->n, sizeof(wanted), by_identity) : NULL;
}

/* The columns of the file. */
struct columns {
    unsigned char *identity, *key;
    int64_t       *size;
};

static int fill(struct columns *c, const struct encode_known *known, int64_t n, struct err *err)
{
    c->identity = malloc((size_t)n * DIGEST_BYTES);
    c->key = malloc((size_t)n * DIGEST_BYTES);
    c->size = malloc((size_t)n * 2 * sizeof(*c->size));
    if (!c->identity || !c->key || !c->size)
        return err_set(err, ERR_MEMORY, "out of memory for a list of %lld pictures", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        memcpy(c->identity + i * DIGEST_BYTES, known[i].identity.byte, DIGEST_BYTES);
        memcpy(c->key + i * DIGEST_BYTES, known[i].key.byte, DIGEST_BYTES);
        c->size[2 * i] = known[i].height;
        c->size[2 * i + 1] = known[i].width;
    }
    return 0;
}

static int publish(struct st_writer *w, const struct columns *c, int64_t n, const char *path, struct err *err)
{
    const int64_t keys[] = {n, DIGEST_BYTES}, sizes[] = {n, 2};
    char tmp[SCRATCH_PATH];
    int64_t bytes;
    if (st_writer_add(w, "identity", ST_U8, 2, keys, c->identity, err) < 0 ||
        st_writer_add(w, "key", ST_U8, 2, keys, c->key, err) < 0 ||
        st_writer_add(w, "size", ST_I64, 2, sizes, c->size, err) < 0 || scratch_name(tmp, path, err) < 0)
        return -1;
    const int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    int rc = st_writer_write(w, fd, &bytes, err);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = err_set_errno(err, errno, "cannot write %s", path);
    close(fd);
    if (rc < 0)
        unlink(tmp);
    return rc;
}

/* Replaces the file, all or nothing. */
static int encode_memo_write(const char *path, const struct encode_known *known, int64_t n, struct err *err)
{
    struct columns c = {0};
    struct st_writer *w = NULL;
    int rc = fill(&c, known, n, err);
    if (rc == 0)
        rc = st_writer_create(&w, err);
    if (rc == 0)
        rc = publish(w, &c, n, path, err);
    st_writer_destroy(w);
    free(c.identity);
    free(c.key);
    free(c.size);
    return rc;
}

/* --- the collection ------------------------------------------------------------------------ */

static void fill_options(struct encode *e, const struct train_spec *s)
{
    collection_options(&e->options, s);
    e->options.step = e->encoders.factor * s->model.patch;
    e->options.latents = false;
    e->options.text_dir = NULL;
}

int encode_keys_open(struct encode *e, const struct train_spec *s, struct err *err)
{
    fill_options(e, s);
    encode_place_name(e->cache, s);
    e->text_dtype = s->encode.text_fp32 ? ST_F32 : ST_BF16;
    e->bf16 = backend_is_bf16();
    e->shard = s->encode.shard;
    e->prompts = s->validate.prompts;
    e->set = calloc(1, sizeof(*e->set));
    if (!e->set)
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    if (collection_open(&e->set->collection, &e->options, NULL, NULL, err) < 0)
        return -1;
    e->set->channels = e->encoders.vae_config.latent;
    e->set->rows = e->encoders.rows;
    e->set->width = e->encoders.width;
    e->set->gaussian = e->encoders.vae_config.family == VAE_KL;
    e->set->short_null = s->encoders == ENCODERS_LUMINA;
    return 0;
}

static void name_dir(char out[PATH_MAX], const struct encode *e, const char *what, const char *all)
{
    unsigned char sum[DIGEST_BYTES];
    digest_raw(sum, all, strlen(all));
    int n = snprintf(out, PATH_MAX, "%s/%s-", e->cache, what);
    for (int i = 0; i < 8; i++)
        n += snprintf(out + n, (size_t)(PATH_MAX - n), "%02x", sum[i]);
}

void encode_keys_dirs(struct encode *e)
{
    const struct collection_options *o = &e->options;
    const char *by = e->bf16 ? " bf16" : ""; /* fp32 has the names of before encoders ran on a GPU */
    char all[256];
    snprintf(all, sizeof(all), "1 %s %d %d %d %d%s", e->encoders.vae_digest, (int)o->recipe, o->resolution,
             (int)o->multi_scale, o->multi_scale || !o->resolution ? o->step : 0, by);
    name_dir(e->latents, e, "latents", all);
    snprintf(all, sizeof(all), "1 %s %s%s", e->encoders.text_digest, st_dtype_name(e->text_dtype), by);
    name_dir(e->text, e, "text", all);
}

/* --- keys of samples ------------------------------------------------------------------------ */

struct making {
    struct encode       *e;
    bool                 look;
    struct encode_memo  *memo;
    struct encode_known *known; /* of all samples */
    int64_t              room;  /* of captions */
    int64_t              found; /* pictures that the memo knew */
};

static void identity_of(struct cache_key *out, const struct encode *e, const struct collection_sample *s,
                        struct digest *d)
{
    digest_add_text(d, e->options.path);
    digest_add_text(d, s->name);
    digest_add(d, &s->bytes, sizeof(s->bytes));
    digest_add(d, &s->mtime_ns, sizeof(s->mtime_ns));
    digest_bytes(d, out->byte);
}

/* "xxh3:0123..." as bytes. */
static void key_of(struct cache_key *out, const char *text)
{
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        unsigned byte = 0;
        sscanf(text + 5 + 2 * i, "%2x", &byte);
        out->byte[i] = (unsigned char)byte;
    }
}

/* The sizes of the label may differ from those of the picture, so they are part of what a memo knows. */
static int look_at_picture(struct making *m, int64_t i, struct encode_known *k, struct err *err)
{
    const struct collection *c = m->e->set->collection;
    struct aspect size;
    char text[DIGEST_TEXT];
    if (collection_size(c, i, &size, err) < 0)
        return -1;
    k->height = size.height;
    k->width = size.width;
    k->key = k->identity;
    if (m->look)
        return 0;
    if (collection_picture_digest(text, c, i, err) < 0)
        return -1;
    key_of(&k->key, text);
    return 0;
}

static int check_size(const struct encode *e, const struct collection_sample *s, const struct encode_known *k,
                      struct err *err)
{
    const int edge = e->options.step;
    if (k->height % edge == 0 && k->width % edge == 0)
        return 0;
    return err_set(err, ERR_DATA, "%s is %lld x %lld pixels, not a multiple of %d; set train.data.resolution", s->where,
                   (long long)k->width, (long long)k->height, edge);
}

static int add_captions(struct making *m, const struct collection_sample *s, struct encoded_sample *to, struct err *err)
{
    struct encoded_set *set = m->e->set;
    if (set->texts + s->captions > m->room) {
        m->room = 2 * (set->texts + s->captions);
        struct cache_key *more = realloc(set->text, (size_t)m->room * sizeof(*more));
        if (!more)
            return err_set(err, ERR_MEMORY, "out of memory for the keys of captions");
        set->text = more;
    }
    to->text = set->texts;
    to->texts = s->captions;
    for (int k = 0; k < s->captions; k++) { /* one that no epoch can choose is not encoded */
        const char *text = s->caption[collection_usable(set->collection, s, k) ? k : s->prompt].text;
        digest_raw(set->text[set->texts++].byte, text, strlen(text));
    }
    return 0;
}

static int make_sample(struct making *m, int64_t i, const struct collection_sample *s, struct err *err)
{
    struct encode *e = m->e;
    struct encode_known *k = &m->known[i];
    struct encoded_sample *to = &e->set->sample[i];
    struct digest *d;
    if (digest_create(&d, err) < 0)
        return -1;
    identity_of(&k->identity, e, s, d);
    digest_destroy(d);
    const struct encode_known *was = encode_memo_find(m->memo, &k->identity);
    if (was)
        *k = *was;
    else if (look_at_picture(m, i, k, err) < 0)
        return -1;
    m->found += was != NULL;
    *to = (struct encoded_sample){.picture = k->key, .number = i, .height = (int32_t)(k->height / e->encoders.factor),
                                  .width = (int32_t)(k->width / e->encoders.factor)};
    return check_size(e, s, k, err) < 0 ? -1 : add_captions(m, s, to, err);
}

static int make_all(struct making *m, encode_tick_fn tick, void *arg, struct err *err)
{
    struct encoded_set *set = m->e->set;
    const int64_t n = collection_len(set->collection);
    set->sample = calloc((size_t)n + 1, sizeof(*set->sample));
    m->known = calloc((size_t)n + 1, sizeof(*m->known));
    if (!set->sample || !m->known || !m->memo)
        return err_set(err, ERR_MEMORY, "out of memory for the keys of %lld samples", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        struct collection_sample s;
        if (collection_sample(&s, set->collection, i, err) < 0)
            return -1;
        const int rc = make_sample(m, i, &s, err);
        collection_sample_free(&s);
        if (rc < 0)
            return -1;
        if (tick && !tick(arg, &(struct encode_progress){ENCODE_KEYS, i + 1, n, 0}))
            return err_set(err, ERR_CONFLICT, "stopped on request with %lld of %lld pictures read", (long long)i + 1,
                           (long long)n);
    }
    set->samples = n;
    return 0;
}

/* All samples have one shape, unless multi_scale permits others. */
static int check_shapes(const struct encode *e, struct err *err)
{
    const struct encoded_sample *s = e->set->sample;
    for (int64_t i = 1; !e->options.multi_scale && i < e->set->samples; i++)
        if (s[i].height != s[0].height || s[i].width != s[0].width)
            return err_set(err, ERR_DATA, "picture %lld has another size than the first; set train.data.resolution",
                           (long long)i + 1);
    return 0;
}

/* A memo is of one way to crop. */
static void name_memo(char path[PATH_MAX], const struct encode *e)
{
    const struct collection_options *o = &e->options;
    snprintf(path, PATH_MAX, "%s/pictures-%d-%d-%d-%d.safetensors", e->cache, (int)o->recipe, o->resolution,
             (int)o->multi_scale, o->step);
}

int encode_keys_make(struct encode *e, bool look, encode_tick_fn tick, void *arg, struct err *err)
{
    char path[PATH_MAX];
    name_memo(path, e);
    struct making m = {.e = e, .look = look, .memo = encode_memo_open(path)};
    int rc = make_all(&m, tick, arg, err);
    if (rc == 0)
        rc = check_shapes(e, err);
    if (rc == 0 && !look && m.found < e->set->samples)
        rc = encode_memo_write(path, m.known, e->set->samples, err);
    if (rc == 0)
        encoded_set_sort(e->set);
    encode_memo_close(m.memo);
    free(m.known);
    return rc;
}
