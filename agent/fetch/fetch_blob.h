/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_blob.h - downloads one file from a hub into the cache: resumed at its last byte, checked by its digest, once
 * per host
 *
 * blobs/DIGEST.incomplete grows until it is complete; then its digest is checked, it is renamed to blobs/DIGEST, and it
 * gets its name in snapshots/COMMIT. The process that holds .locks/.../DIGEST.lock (flock(2), as huggingface_hub)
 * writes; others wait and then find the file.
 */
#ifndef AGENT_FETCH_FETCH_BLOB_H
#define AGENT_FETCH_FETCH_BLOB_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct fetch_http;
struct fetch_progress;
struct hub_name;

struct fetch_blob {
    const struct hub_name *name;
    const char *commit, *path, *digest;
    int64_t     bytes;
};

/* Does snapshots/COMMIT/PATH lead to a file of this size? */
bool fetch_blob_is_there(const struct fetch_blob *b);
/* How many of its bytes are in the cache, under its digest or incomplete. */
int64_t fetch_blob_has(const struct fetch_blob *b);

/* Errors: those of fetch_http_get(); ERR_DATA: the received file has another digest; ERR_SYSTEM: a disk error. */
int fetch_blob_get(struct fetch_http *h, const struct fetch_blob *b, struct fetch_progress *p, struct err *err);

/* Writes refs/REV of a branch or tag. */
int fetch_blob_set_ref(const struct hub_name *n, const char *commit, struct err *err);

#endif
