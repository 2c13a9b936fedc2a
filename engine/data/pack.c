/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - file of a pack: lookup, check, write; see pack.h */
#include "engine/data/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/digest.h"
#include "engine/contract/err.h"
#include "engine/contract/scratch.h"
#include "engine/contract/train_spec.h"
#include "engine/data/collection.h"
#include "engine/data/pack_internal.h"
#include "engine/data/safetensors.h"

#define PACK_FORMAT "jobctl-pack-2"
#define OLD_FORMAT  "jobctl-pack-1"

static void pack_free(struct pack *p)
{
    free(p->group);
    free(p->latent);
    free(p->caption);
    free(p->mask);
    free(p->null);
    free(p->mean);
    free(p->deviation);
    free(p->names);
    free(p->captions);
}

static int digest_sample(struct digest *d, const struct collection *c, int64_t i, struct err *err)
{
    struct collection_sample s;
    if (collection_sample(&s, c, i, err) < 0)
        return -1;
    digest_add_text(d, s.name);
    digest_add_text(d, s.caption[collection_best(&s)].text);
    digest_add(d, &s.bytes, sizeof(s.bytes));
    digest_add(d, &s.mtime_ns, sizeof(s.mtime_ns));
    collection_sample_free(&s);
    return 0;
}

static int digest_inputs(char text[DIGEST_TEXT], const char *format, const struct collection *c,
                         const struct train_spec *s, struct err *err)
{
    struct digest *d;
    int rc = 0;
    int64_t settings[] = {s->resolution, s->dct_block, s->caption_words, s->caption_channels,
                          collection_len(c)};
    /* settings that determine the sizes of buckets */
    int64_t shapes[] = {s->multi_scale, s->multi_scale ? s->model.patch : 0};
    if (digest_create(&d, err) < 0)
        return -1;
    digest_add_text(d, format);
    digest_add(d, settings, sizeof(settings));
    if (s->multi_scale)
        digest_add(d, shapes, sizeof(shapes));
    for (int64_t i = 0; rc == 0 && i < collection_len(c); i++)
        rc = digest_sample(d, c, i, err);
    digest_text(d, text);
    digest_destroy(d);
    return rc;
}

/* Whether the file exists, is complete, and was made from these inputs. In doubt the pack is
 * rebuilt. */
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
    for (int i = 0; i < st_len(f); i++)
        digest_add(d, st_at(f, i)->data, st_at(f, i)->bytes);
    digest_text(d, text);
    good = strcmp(text, sum) == 0;
out:
    digest_destroy(d);
    st_close(f);
    return good;
}

static int add_piece(struct st_writer *w, struct digest *d, const char *name, int group, int ndim,
                     const int64_t *dim, const float *data, struct err *err)
{
    char whole[ST_NAME];
    size_t n = sizeof(float);
    for (int k = 0; k < ndim; k++)
        n *= (size_t)dim[k];
    snprintf(whole, sizeof(whole), "%s.%d", name, group);
    digest_add(d, data, n);
    return st_writer_add(w, group > 0 ? whole : name, ST_F32, ndim, dim, data, err);
}

/* The digest is over the tensors in the order of the file. */
static int add_pieces(struct st_writer *w, struct digest *d, const struct pack *p, struct err *err)
{
    const int64_t all[] = {p->words, p->caption_channels, p->channels};
    for (int k = 0; k < p->groups; k++) {
        const struct pack_group *g = &p->group[k];
        const int64_t latent[] = {g->n, p->channels, g->height, g->width};
        const int64_t caption[] = {g->n, p->words, p->caption_channels};
        if (add_piece(w, d, "latent", k, 4, latent, g->latent, err) < 0 ||
            add_piece(w, d, "caption", k, 3, caption, g->caption, err) < 0 ||
            add_piece(w, d, "mask", k, 2, caption, g->mask, err) < 0)
            return -1;
        if (k == 0 && (add_piece(w, d, "null", 0, 2, all, p->null, err) < 0 ||
                       add_piece(w, d, "mean", 0, 1, all + 2, p->mean, err) < 0 ||
                       add_piece(w, d, "deviation", 0, 1, all + 2, p->deviation, err) < 0))
            return -1;
    }
    return 0;
}

static int pack_write(struct pack *p, const char *path, struct err *err)
{
    struct st_writer *w = NULL;
    struct digest *d = NULL;
    char tmp[SCRATCH_PATH];
    int64_t bytes;
    int fd = -1, rc = -1;
    if (scratch_name(tmp, path, err) < 0)
        return -1;
    if (st_writer_create(&w, err) < 0 || digest_create(&d, err) < 0 ||
        add_pieces(w, d, p, err) < 0)
        goto out;
    digest_text(d, p->contents);
    if (st_writer_meta(w, "format", PACK_FORMAT, err) < 0 ||
        st_writer_meta(w, "inputs", p->inputs, err) < 0 ||
        st_writer_meta(w, "contents", p->contents, err) < 0 ||
        st_writer_meta(w, "names", p->names, err) < 0 ||
        st_writer_meta(w, "captions", p->captions, err) < 0)
        goto out;
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_set_errno(err, errno, "cannot write %s", path);
        goto out;
    }
    if (st_writer_write(w, fd, &bytes, err) < 0)
        goto out;
    if (fsync(fd) < 0 || rename(tmp, path) < 0) {
        err_set_errno(err, errno, "cannot write %s", path);
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

static int name_pack(char *path, const char *dir, const char *inputs, struct err *err)
{
    if (snprintf(path, PACK_PATH, "%s/pack-%.16s.safetensors", dir, inputs + 5) >= PACK_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    return 0;
}

/* Removes the pack of the same inputs in the previous format: no program reads that any more. */
static enum pack_made remove_old(const char *dir, const struct collection *c, const struct train_spec *s)
{
    char inputs[DIGEST_TEXT], path[PACK_PATH];
    if (digest_inputs(inputs, OLD_FORMAT, c, s, NULL) < 0 || name_pack(path, dir, inputs, NULL) < 0)
        return PACK_BUILT;
    return unlink(path) == 0 ? PACK_RENEWED : PACK_BUILT;
}

int pack_ensure(char *path, enum pack_made *made, const struct train_spec *s, const char *dir,
                pack_tick_fn tick, void *arg, struct err *err)
{
    struct collection_options o;
    struct collection *c = NULL;
    struct pack p = {0};
    int rc = -1;
    collection_options(&o, s);
    if (collection_open(&c, &o, NULL, NULL, err) < 0 ||
        digest_inputs(p.inputs, PACK_FORMAT, c, s, err) < 0 || scratch_mkdirs(dir, err) < 0 ||
        name_pack(path, dir, p.inputs, err) < 0)
        goto out;
    *made = PACK_FOUND;
    if (!pack_good(path, p.inputs)) {
        scratch_sweep(dir);
        if (pack_fill(&p, c, s, tick, arg, err) < 0 || pack_write(&p, path, err) < 0)
            goto out;
        *made = remove_old(dir, c, s);
    }
    rc = 0;
out:
    pack_free(&p);
    collection_close(c);
    return rc;
}
