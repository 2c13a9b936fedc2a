/* SPDX-License-Identifier: Apache-2.0 */
/* collection.h - pictures and their captions in common layouts, by number: folders, lists, WebDataset shards
 *
 * The layout is recognized by the files in the directory; if two layouts fit, the error names both.
 *
 *   COLLECTION_FOLDER   pictures, each with NAME.txt (or NAME.json with a "prompt") beside it, in order of name
 *   COLLECTION_LIST     captions.jsonl: {"file": "cat.png", "text": "a cat"} per line
 *   COLLECTION_META     meta_data.json of Sana's SanaImgDataset: img_names; the caption is the first line of NAME.txt
 *   COLLECTION_HUB      metadata.jsonl of Hugging Face's imagefolder: {"file_name": ..., "text": ...} per line
 *   COLLECTION_CSV      metadata.csv of Hugging Face's imagefolder: columns file_name and text
 *   COLLECTION_SHARDS   tar files of KEY.json and KEY.png, .jpg or .npy, listed in wids-meta.json or all *.tar by name
 *
 * Side files add captions and scores, as in Sana's readers: NAME<suffix>.json beside a picture, SHARD<suffix>.json
 * beside a shard: {KEY: {KIND: text or number}}.
 *
 * In memory there are some tens of bytes per sample, and no caption: those are read on access.  Every function that
 * takes a const collection may be called by several threads at once.  A sample that cannot be used is an ERR_DATA that
 * names its file, and its line where it has one; nothing is skipped silently (the authors' readers replace such a
 * sample by another one).
 */
#ifndef ENGINE_COLLECTION_COLLECTION_H
#define ENGINE_COLLECTION_COLLECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/digest.h"
#include "engine/collection/aspect.h"
#include "engine/collection/caption_choice.h"

struct err;
struct image;
struct train_spec;

enum collection_layout {
    COLLECTION_FOLDER, COLLECTION_LIST, COLLECTION_META, COLLECTION_HUB, COLLECTION_SHARDS, COLLECTION_CSV
};

/* How a picture is brought to its bucket's size. Neither way flips it. */
enum collection_recipe {
    COLLECTION_PLAIN, /* jobctl's: transparency over white, area average or linear to cover the size, centre crop; the
                         bucket by the picture's own size */
    COLLECTION_SANA   /* Sana's readers, to the bit: transparency dropped; with multi_scale the bucket by the label's
                         height and width, bicubic (Lanczos from 2048 on), else the shorter side to the resolution,
                         bilinear; centre crop */
};

enum { COLLECTION_SUFFIXES = 8, COLLECTION_SUFFIX = 64, COLLECTION_NAME = 4096 };

struct collection_options {
    const char            *path;        /* a directory, or one .tar file; copied */
    enum collection_recipe recipe;
    int                    resolution;  /* of a square bucket; 0: pictures keep their size */
    bool                   multi_scale; /* the bucket of engine/collection/aspect.h */
    int                    step;        /* edges of buckets are multiples of it: 32 for Sana */
    /* Names of side files, without ".json"; a suffix may be "". */
    int                    caption_suffixes, score_suffixes;
    char                   caption_suffix[COLLECTION_SUFFIXES][COLLECTION_SUFFIX];
    char                   score_suffix[COLLECTION_SUFFIXES][COLLECTION_SUFFIX];
    bool                   suffixes_needed; /* an error if no file has one of them; authors' readers: no */
    struct caption_rule    rule;
    bool                   latents;     /* samples have latents KEY.npy instead of pictures (load_vae_feat) */
    const char            *prompt;      /* caption of pictures in a folder without one; NULL or "": none; copied */
    const char            *text_dir;    /* samples have text rows KEY.npz there (load_text_feat); NULL: no; copied */
};

struct collection;

/* A wrong sample that collection_open() met: `where` is "FILE", "FILE:LINE" or "SHARD.tar/KEY". */
typedef void (*collection_bad_fn)(void *arg, const char *where, const char *what);

/* The options of a training run, all but the features. */
void collection_options(struct collection_options *out, const struct train_spec *s);

/* Reads names, sizes and places, not pictures. ERR_USAGE: see `suffixes_needed`. The first wrong sample is an ERR_DATA;
 * with `bad` all are reported, keep their numbers, and fail again whenever they are used: then only a collection
 * without any readable sample is an error. */
int collection_open(struct collection **out, const struct collection_options *o, collection_bad_fn bad, void *arg,
                    struct err *err);
void collection_close(struct collection *c);

int64_t collection_len(const struct collection *c);
enum collection_layout collection_layout(const struct collection *c);
/* Layout, number of samples, and how pictures are resized, cropped and flipped: lines for `plan`. */
void collection_print(const struct collection *c, FILE *to);
/* Digest of everything that the samples depend on, except the pictures' bytes: names, sizes, times and options. */
int collection_digest(const struct collection *c, char text[DIGEST_TEXT], struct err *err);

struct collection_caption {
    char *kind; /* "prompt", or the key in a side file */
    char *text;
};

/* Everything of a sample except its picture. */
struct collection_sample {
    char                       *name;   /* "cat.png" relative to the directory, or "00000.tar/KEY" */
    char                       *key;    /* of side files and features: "cat", or KEY */
    char                       *where;  /* for sentences: as `name`, or "captions.jsonl:12" */
    double                      height, width; /* the label: the size in its description; 0, 0 without one */
    int                         captions, scores;
    struct collection_caption  *caption; /* each kind once; captions >= 1 */
    struct caption_score       *score;   /* in the authors' order */
    int                         prompt;  /* index of the caption to take without scores */
    int64_t                     number; /* in its shard or list, from 0 */
    int64_t                     bytes, mtime_ns; /* of the picture or latent, to detect changes */
};

int collection_sample(struct collection_sample *out, const struct collection *c, int64_t i, struct err *err);
void collection_sample_free(struct collection_sample *s);
/* `where` of sample i, also of one that cannot be used: for the caller to free. NULL: no memory. */
char *collection_where(const struct collection *c, int64_t i);

/* Index of the caption that `epoch` trains on; *score, which may be NULL, gets its score, or 0. */
int collection_choose(const struct collection *c, const struct collection_sample *s, int64_t i, uint64_t seed,
                      uint32_t epoch, double *score);
/* The same for a number u in [0, 1) of the caller's. */
int collection_choose_at(const struct collection *c, const struct collection_sample *s, double u, double *score);
/* True if some epoch can choose this caption. Others need no text rows. */
bool collection_usable(const struct collection *c, const struct collection_sample *s, int caption);
/* Index of the best-scored caption, or of the prompt: for a caller that keeps only one. */
int collection_best(const struct collection_sample *s);

/* The bytes of a sample's picture or latent, as they are stored; `name` is for sentences. */
struct collection_bytes {
    void   *at;
    size_t  size;
    char   *name;
    int64_t mtime_ns;
};
int collection_load(struct collection_bytes *out, const struct collection *c, int64_t i, struct err *err);
void collection_bytes_free(struct collection_bytes *b);

/* The size to which the picture of sample i is brought. Without a label it follows from the picture's size, read from
 * its header. */
int collection_size(const struct collection *c, int64_t i, struct aspect *to, struct err *err);
/* The whole picture before its middle is cut out: its size, and the first row and column that are kept; below 0: that
 * many are missing and filled with black. */
struct collection_placement {
    struct aspect scaled;
    int           top, left;
};
int collection_place(struct collection_placement *out, const struct collection *c, int64_t i, struct err *err);
/* The picture of sample i at that size: decoded, resized and cropped. The caller frees it. */
int collection_picture(struct image *out, const struct collection *c, int64_t i, struct err *err);

/* Keys of a cache. Of a picture: its bytes, its bucket's size, and how it is brought to that size; equal for equal
 * pictures of different names. Of a caption: digest_word() or a digest of its text. */
int collection_picture_digest(char text[DIGEST_TEXT], const struct collection *c, int64_t i, struct err *err);

/* The numbers that load_vae_feat reads: the latent [channels, height / 32, width / 32] of the sample's bucket, already
 * scaled. The caller frees *floats. ERR_DATA: its shape is not the bucket's. */
struct collection_latent {
    int    channels, height, width;
    float *floats;
};
int collection_latent(struct collection_latent *out, const struct collection *c, int64_t i, struct err *err);

/* The numbers that load_text_feat reads: rows [most, channels], the last row repeated with mask 0 up to `most`; more
 * rows than `most` are an ERR_DATA. Without attention_mask in the file the mask is all 1, as in the authors' reader.
 * The caller frees both arrays. */
struct collection_rows {
    int    rows, channels; /* rows: in the file */
    float *floats, *mask;
};
int collection_rows(struct collection_rows *out, const struct collection *c, int64_t i, int most, struct err *err);

#endif
