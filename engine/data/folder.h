/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - pictures with captions in a directory
 *
 * Either captions.jsonl, a line {"file": "cat.png", "text": "a cat"} per sample in its
 * order; or every picture file of the directory in order of name, its caption in
 * NAME.txt beside it.  A picture without a caption, or a caption without a picture that
 * was listed, is an error that names it: what is silently left out is found too late.
 */
#ifndef ENGINE_DATA_FOLDER_H
#define ENGINE_DATA_FOLDER_H

#include <stdint.h>

struct err;

struct folder_item {
    char   *file;     /* relative to the directory */
    char   *caption;  /* one line, blanks trimmed */
    int64_t size;     /* of the picture, to see that it changed */
    int64_t mtime_ns;
};

struct folder {
    char               *path;
    int                 len;
    struct folder_item *items;
};

/* Reads names and captions, not pictures. A failure leaves *out empty. */
int folder_read(struct folder *out, const char *path, struct err *err);

/* The same, but a sample that is wrong is told to `bad` and left out. */
typedef void (*folder_bad_fn)(void *arg, const char *where, const char *what);
int folder_read_all(struct folder *out, const char *path, folder_bad_fn bad, void *arg,
                    struct err *err);
void folder_free(struct folder *f);

#endif
