/* SPDX-License-Identifier: Apache-2.0 */
/* collection_internal.h - internals of a collection, shared by collection*.c only */
#ifndef ENGINE_COLLECTION_COLLECTION_INTERNAL_H
#define ENGINE_COLLECTION_COLLECTION_INTERNAL_H

#include <jansson.h>
#include <stddef.h>

#include "engine/collection/collection.h"

struct side_files;

/* What differs between layouts. */
struct collection_kind {
    /* Name, key, where, size and time, label and prompt of a sample; captions of its side files come after. */
    int (*describe)(struct collection_sample *out, const struct collection *c, int64_t i, struct err *err);
    int (*load)(struct collection_bytes *out, const struct collection *c, int64_t i, struct err *err);
    /* Path of a side file; NULL with an error. The caller frees it. */
    char *(*side)(const struct collection *c, int64_t i, const struct collection_sample *s, const char *suffix,
                  struct err *err);
};
extern const struct collection_kind collection_folder_kind, collection_meta_kind, collection_list_kind,
    collection_hub_kind, collection_csv_kind, collection_shards_kind;

/* A line of a list. */
struct collection_line {
    int64_t  at;
    uint32_t bytes, number;
};

/* Columns of metadata.csv, from 0; -1: there is none. */
struct collection_columns {
    int n, file, text, height, width;
};

struct collection_shard {
    char   *path;       /* as the authors' readers write it: DIRECTORY/URL */
    int64_t first, len; /* of its samples */
    int64_t bytes, mtime_ns;
};

/* Where the parts of a sample lie: 1 + the number of the block where the headers of a member begin. */
struct collection_member {
    uint32_t shard, json, picture, latent, text;
};
enum { COLLECTION_NO_MEMBER = 0 };

struct collection {
    struct collection_options     o;
    char                         *path, *text_dir;
    char                         *prompt; /* NULL: none */
    enum collection_layout        layout;
    const struct collection_kind *kind;
    int64_t                       len;
    collection_bad_fn             bad; /* while it is opened */
    void                         *bad_arg;
    /* folders */
    char                         *names; /* each ends with a NUL */
    size_t                        names_len, names_room;
    char                          below[160]; /* folders in it with pictures, which are not read; "": none */
    uint64_t                     *name_at;
    /* lists */
    int                           list; /* descriptor, or -1 */
    struct collection_line       *lines;
    struct collection_columns     columns;
    /* shards */
    struct collection_shard      *shards;
    int                           nshards;
    struct collection_member     *members;
    struct side_files            *side;
};

int collection_open_folder(struct collection *c, struct err *err);
int collection_open_meta(struct collection *c, struct err *err);
int collection_open_list(struct collection *c, const char *file, struct err *err);
int collection_open_shards(struct collection *c, struct err *err);

/* A wrong sample: ends the opening, or is reported. It stays a sample, and each access to it fails. */
int collection_bad(const struct collection *c, const char *where, struct err *err);
/* `list` of `n` entries of `size` bytes with room for one more; it doubles. NULL: no memory. */
void *collection_grow(void *list, int64_t n, size_t size, struct err *err);
/* Formats a text; NULL: no memory. */
char *collection_text(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* collection_folder.c: the file NAME of the directory, for all layouts of files */
int collection_file_load(struct collection_bytes *out, const struct collection *c, const char *name, struct err *err);
int collection_file_stat(struct collection_sample *s, const struct collection *c, const char *name, struct err *err);
char *collection_file_side(const struct collection *c, int64_t i, const struct collection_sample *s, const char *suffix,
                           struct err *err);
/* Length of "cat.png" without its extension, by the rule of Python's os.path.splitext(). */
size_t collection_stem(const char *name);

/* A caption replaces an earlier one of its kind. */
int collection_add_caption(struct collection_sample *s, const char *kind, const char *text, struct err *err);
/* Captions and scores of the side files. `own`: the description of the sample itself, or NULL. */
int collection_add_side_files(struct collection_sample *s, const struct collection *c, int64_t i, const json_t *own,
                              struct err *err);
/* Bytes as one line: line ends become blanks; blanks at both ends are removed. In place. */
void collection_trim(char *text);
/* Height and width of a description, where it has both. */
void collection_label(struct collection_sample *s, const json_t *o);

#endif
