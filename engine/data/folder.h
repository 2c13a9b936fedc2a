/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a directory of pictures with captions
 *
 * Either captions.jsonl, a line {"file": "cat.png", "text": "a cat"} per sample, in that
 * order; or every picture file of the directory in order of name, its caption in
 * NAME.txt beside it.  A picture without a caption, or a listed caption without its picture,
 * is an error that names it: samples that are skipped silently are noticed too late.
 */
#ifndef ENGINE_DATA_FOLDER_H
#define ENGINE_DATA_FOLDER_H

#include <stdint.h>

struct err;

struct folder_item {
    char   *file;     /* relative to the directory */
    char   *caption;  /* one line, blanks trimmed */
    int64_t size;     /* of the picture, to detect changes */
    int64_t mtime_ns;
};

struct folder {
    char               *path;
    int                 len;
    struct folder_item *items;
};

/* Reads names and captions, not pictures. A failure leaves *out empty. */
int folder_read(struct folder *out, const char *path, struct err *err);

/* The same, but an invalid sample is reported to `bad` and skipped. */
typedef void (*folder_bad_fn)(void *arg, const char *where, const char *what);
int folder_read_all(struct folder *out, const char *path, folder_bad_fn bad, void *arg,
                    struct err *err);
void folder_free(struct folder *f);

#endif
