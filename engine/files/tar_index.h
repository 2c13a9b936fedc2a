/* SPDX-License-Identifier: Apache-2.0 */
/* tar_index.h - the members of a tar file: name and place of each, and access by place
 *
 * ustar, GNU's long names and large sizes, pax's path and size.  No value in the file is trusted: checksums of headers,
 * sizes against the file, lengths of names.  A file that ends without its two empty blocks was cut off.  Compressed
 * archives have no places and are refused.  Numbers: a block has 512 bytes.
 */
#ifndef ENGINE_FILES_TAR_INDEX_H
#define ENGINE_FILES_TAR_INDEX_H

#include <stdint.h>
#include <sys/types.h>

struct err;

enum { TAR_BLOCK = 512, TAR_NAME = 4096 };

/* Bytes of a tar file: pread(2), or memory in tests. Returns as pread(2). */
typedef ssize_t (*tar_read_fn)(void *arg, void *to, size_t n, int64_t at);

struct tar_index {
    tar_read_fn read;
    void       *arg;
    int64_t     size; /* of the file */
    int64_t     at;   /* where the next member begins */
};

/* A regular file in it. */
struct tar_member {
    char    name[TAR_NAME];
    int64_t header; /* a multiple of TAR_BLOCK: tar_index_at() finds it again there */
    int64_t data, size;
};

/* 1 and the next regular file, 0 at the end, -1 with ERR_DATA; the sentence does not name the tar file. */
int tar_index_next(struct tar_index *t, struct tar_member *out, struct err *err);
/* The member whose headers begin at `header`. */
int tar_index_at(struct tar_index *t, struct tar_member *out, int64_t header, struct err *err);

#endif
