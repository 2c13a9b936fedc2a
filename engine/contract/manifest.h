/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - list of a checkpoint's files with sizes and digests, written last
 *
 *   {"manifest":{"schema":1,"step":40,"files":[{"name":"model.safetensors","bytes":N,
 *    "digest":"xxh3:..."},...]},"digest":"xxh3:..."}
 *
 * A directory without a manifest is not a checkpoint.  The outer digest is of the inner object as
 * compact JSON with sorted keys; it names the checkpoint.  A truncated, changed or missing
 * file is detected before any of the checkpoint is used.
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
    int64_t              bytes;                   /* sum over all listed files */
    char                 digest[MANIFEST_DIGEST]; /* of the manifest */
};

/* Measure the named files in `dir` and write manifest.json beside them, synced.
 * `names` ends with NULL. */
int manifest_write(struct manifest *out, const char *dir, int64_t step, const char *const *names, struct err *err);

/* Reads manifest.json: ERR_NOT_FOUND if there is none, ERR_DATA if it is malformed. */
int manifest_read(struct manifest *out, const char *dir, struct err *err);

/* Reads it and every file it lists; ERR_DATA names the first file that differs, and how. */
int manifest_verify(struct manifest *out, const char *dir, struct err *err);

#endif
