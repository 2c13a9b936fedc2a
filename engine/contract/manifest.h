/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - what a checkpoint consists of, written last: without it there is none
 *
 *   {"manifest":{"schema":1,"step":40,"files":[{"name":"model.safetensors","bytes":N,
 *    "digest":"xxh3:..."},...]},"digest":"xxh3:..."}
 *
 * The outer digest is of the inner object as compact JSON with sorted keys; it names
 * the checkpoint.  A file that is cut short, changed or missing is found before
 * anything of it is used.
 */
#ifndef ENGINE_CONTRACT_MANIFEST_H
#define ENGINE_CONTRACT_MANIFEST_H

#include <stdint.h>

struct err;

enum { MANIFEST_FILES = 8, MANIFEST_NAME = 64, MANIFEST_DIGEST = 40 };
#define MANIFEST_FILE "manifest.json"

struct manifest_file {
    char    name[MANIFEST_NAME];
    int64_t bytes;
    char    digest[MANIFEST_DIGEST];
};

struct manifest {
    int64_t              step;
    int                  len;
    struct manifest_file files[MANIFEST_FILES];
    int64_t              bytes;                   /* of all files listed */
    char                 digest[MANIFEST_DIGEST]; /* of the manifest */
};

/* Measure the named files in `dir` and write manifest.json beside them, synced.
 * `names` ends with NULL. */
int manifest_write(struct manifest *out, const char *dir, int64_t step, const char *const *names,
                   struct err *err);

/* Read manifest.json: ERR_NOT_FOUND when there is none, ERR_DATA when it is not right. */
int manifest_read(struct manifest *out, const char *dir, struct err *err);

/* Read it and every file it lists; ERR_DATA says in what the first one differs. */
int manifest_verify(struct manifest *out, const char *dir, struct err *err);

#endif
