/* SPDX-License-Identifier: Apache-2.0 */
/* encoder_pair.c - see encoder_pair.h */
#include "engine/encode/encoder_pair.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"
#include "engine/contract/train_spec.h"
#include "engine/files/mapped_file.h"
#include "engine/hub/hub_cache.h"
#include "engine/vae/vae_source.h"
#include "engine/weights/weights_source.h"

/* --- paths -------------------------------------------------------------------------------- */

/* The one place where what a spec names, a path or a model of a hub, becomes files of this machine. */
static int resolve(char path[ENCODER_PAIR_PATH], const char *key, const char *name, const char *parts, struct err *err)
{
    char whole[PATH_MAX] = "";
    if (name[0] && hub_cache_open(whole, name, parts, err) < 0)
        return err_prefix(err, "train.data.%s: ", key);
    if (snprintf(path, ENCODER_PAIR_PATH, "%s", whole) >= ENCODER_PAIR_PATH)
        return err_set(err, ERR_USAGE, "train.data.%s: the path is too long: %.200s", key, whole);
    return 0;
}

static int resolve_all(struct encoder_pair *e, const struct train_spec *s, struct err *err)
{
    const struct encode_config *c = &s->encode;
    const char *text = c->tokenizer[0] ? "text_encoder" : "text_encoder,tokenizer";
    if (resolve(e->vae, "vae", c->vae[0] ? c->vae : s->weights, "vae", err) < 0 ||
        resolve(e->text, "text_encoder", c->text[0] ? c->text : s->weights, text, err) < 0)
        return -1;
    return resolve(e->tokenizer, "tokenizer", c->tokenizer, "tokenizer", err);
}

static int no_text(const char *path, struct err *err)
{
    *err = (struct err){0};
    return err_set(err, ERR_USAGE, "train.data.instruction: %.300s is empty; for captions without an instruction remove the "
                   "key, or set it to null", path);
}

static int read_instruction(struct encoder_pair *e, const char *path, struct err *err)
{
    struct mapped_file f = {0};
    if (!path[0])
        return 0;
    if (mapped_file_open(&f, path, err) < 0)
        return err && err->code == ERR_DATA ? no_text(path, err) : err_prefix(err, "train.data.instruction: ");
    e->instruction = strndup((const char *)f.bytes, f.size);
    mapped_file_close(&f);
    return e->instruction ? 0 : err_set(err, ERR_MEMORY, "no memory for the instruction");
}

/* --- what they are ------------------------------------------------------------------------ */

static int look_at_vae(struct encoder_pair *e, struct err *err)
{
    struct weights_source *w = NULL;
    if (weights_source_open(&w, e->vae, "vae", err) < 0)
        return err_prefix(err, "train.data.vae: ");
    const int rc = vae_source_config(&e->vae_config, w, err);
    e->vae_bytes = vae_source_bytes(w);
    weights_source_close(w);
    e->factor = rc == 0 ? vae_config_factor(&e->vae_config) : 0;
    return rc < 0 ? err_prefix(err, "train.data.vae: ") : 0;
}

int encoder_pair_open_text(struct text_encoder **out, const struct encoder_pair *e, bool prefix, struct err *err)
{
    const struct text_encoder_options o = {.chi = e->instruction, .rows = e->rows, .diffusers = e->diffusers,
                                           .tokenizer = e->tokenizer[0] ? e->tokenizer : NULL, .no_prefix = !prefix};
    if (text_encoder_open(out, e->text, &o, err) == 0)
        return 0;
    if (err && err->code == ERR_NOT_FOUND) /* which means: not in the cache of a hub yet */
        err->code = ERR_USAGE;
    return err_prefix(err, "train.data.text_encoder: ");
}

static int look_at_text(struct encoder_pair *e, bool lumina, struct err *err)
{
    struct text_encoder *t;
    if (encoder_pair_open_text(&t, e, false, err) < 0)
        return -1;
    const int version = text_encoder_version(t);
    e->rows = text_encoder_rows(t);
    e->width = text_encoder_channels(t);
    e->text_bytes = text_encoder_bytes(t);
    e->token_flops = text_encoder_token_flops(t);
    text_encoder_close(t);
    if (version == (lumina ? 1 : 2))
        return 0;
    return err_set(err, ERR_USAGE, "train.data.text_encoder: %s is Gemma %d; encoders: %s needs %s", e->text, version,
                   lumina ? "lumina" : "sana", lumina ? "Gemma 1, such as gemma-2b" : "Gemma 2, such as gemma-2-2b-it");
}

int encoder_pair_find(struct encoder_pair *out, const struct train_spec *s, struct err *err)
{
    struct encoder_pair e = {.diffusers = s->encode.diffusers, .rows = s->encode.text_rows};
    if (read_instruction(&e, s->encode.instruction, err) < 0 || resolve_all(&e, s, err) < 0 ||
        look_at_vae(&e, err) < 0 || look_at_text(&e, s->encoders == ENCODERS_LUMINA, err) < 0) {
        encoder_pair_free(&e);
        return -1;
    }
    *out = e;
    return 0;
}

/* Gemma-2 2B's 26 layers, or the 17 of Gemma 2B that are needed. */
static void assume(struct encoder_pair *e, bool lumina)
{
    e->vae_config = lumina ? vae_source_sdxl : vae_source_dcae;
    e->factor = vae_config_factor(&e->vae_config);
    e->rows = e->rows > 0 ? e->rows : lumina ? 256 : 300;
    e->width = lumina ? 2048 : 2304;
    e->token_flops = lumina ? 3.74e9 : 4.05e9;
}

int encoder_pair_find_or_assume(struct encoder_pair *out, const struct train_spec *s, struct err *err)
{
    struct err why = {0};
    if (encoder_pair_find(out, s, &why) == 0)
        return 0;
    if (why.code != ERR_NOT_FOUND) {
        if (err)
            *err = why;
        return -1;
    }
    *out = (struct encoder_pair){.diffusers = s->encode.diffusers, .rows = s->encode.text_rows};
    snprintf(out->absent, sizeof(out->absent), "%s", why.text);
    assume(out, s->encoders == ENCODERS_LUMINA);
    return 0;
}

void encoder_pair_free(struct encoder_pair *e)
{
    free(e->instruction);
    e->instruction = NULL;
}

/* --- digests, remembered by the files' sizes and times ------------------------------------- */

static void add_stat(struct digest *d, const char *name, const struct stat *st)
{
    const int64_t what[] = {st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (int64_t)st->st_ino};
    digest_add_text(d, name);
    digest_add(d, what, sizeof(what));
}

/* The files of a folder, or the file itself. */
static int add_files(struct digest *d, const char *path, struct err *err)
{
    struct dirent **names = NULL;
    struct stat st;
    char file[PATH_MAX];
    if (stat(path, &st) < 0)
        return err_set_errno(err, errno, "cannot read %s", path);
    add_stat(d, path, &st);
    const int n = S_ISDIR(st.st_mode) ? scandir(path, &names, NULL, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
        if (stat(file, &st) == 0 && S_ISREG(st.st_mode))
            add_stat(d, names[i]->d_name, &st);
        free(names[i]);
    }
    free(names);
    return n < 0 ? err_set_errno(err, errno, "cannot read %s", path) : 0;
}

/* The folder of a part of a pipeline too. */
static int add_part(struct digest *d, const char *path, const char *part, struct err *err)
{
    char sub[PATH_MAX];
    struct stat st;
    if (add_files(d, path, err) < 0)
        return -1;
    if (snprintf(sub, sizeof(sub), "%s/%s", path, part) >= (int)sizeof(sub) || stat(sub, &st) < 0)
        return 0;
    return add_files(d, sub, err);
}

enum half { VAE, TEXT };

static int identity_of(char text[DIGEST_TEXT], const struct encoder_pair *e, enum half half, struct err *err)
{
    struct digest *d;
    char options[64];
    if (digest_create(&d, err) < 0)
        return -1;
    snprintf(options, sizeof(options), half == VAE ? "1 vae" : "1 text %d %d", e->rows, (int)e->diffusers);
    digest_add_text(d, options);
    digest_add_text(d, half == TEXT && e->instruction ? e->instruction : "");
    int rc = half == VAE ? add_part(d, e->vae, "vae", err) : add_part(d, e->text, "text_encoder", err);
    if (rc == 0 && half == TEXT)
        rc = add_part(d, e->tokenizer[0] ? e->tokenizer : e->text, "tokenizer", err);
    digest_text(d, text);
    digest_destroy(d);
    return rc;
}

static bool recall(char text[DIGEST_TEXT], const char *path)
{
    json_t *o = safe_open_json(path, 0, NULL);
    const char *was = field_text(o, "digest");
    const bool found = strlen(was) == DIGEST_TEXT - 3;
    if (found)
        snprintf(text, DIGEST_TEXT, "%s", was);
    json_decref(o);
    return found;
}

/* What cannot be kept is computed again. */
static void keep(const char *text, const char *path)
{
    char tmp[SCRATCH_PATH];
    json_t *o = json_make("{s:s}", "digest", text);
    if (scratch_name(tmp, path, NULL) == 0 && (json_file_save(o, tmp, JSON_COMPACT) < 0 || rename(tmp, path) < 0))
        unlink(tmp);
    json_decref(o);
}

static int compute(struct encoder_pair *e, enum half half, struct err *err)
{
    struct text_encoder *t;
    if (half == VAE)
        return vae_source_digest(e->vae_digest, e->vae, err);
    if (encoder_pair_open_text(&t, e, false, err) < 0)
        return -1;
    const int rc = text_encoder_digest(t, e->text_digest, err);
    text_encoder_close(t);
    return rc;
}

static int digest_half(struct encoder_pair *e, enum half half, const char *memo, bool look, struct err *err)
{
    char identity[DIGEST_TEXT], path[PATH_MAX];
    char *text = half == VAE ? e->vae_digest : e->text_digest;
    if (identity_of(identity, e, half, err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/encoder-%.16s.json", memo, identity + 5);
    if (recall(text, path) || look)
        return 0;
    if (compute(e, half, err) < 0)
        return -1;
    keep(text, path);
    return 0;
}

int encoder_pair_digest(struct encoder_pair *e, const char *memo, bool look, struct err *err)
{
    return digest_half(e, VAE, memo, look, err) < 0 ? -1 : digest_half(e, TEXT, memo, look, err);
}
