/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_digest.h - the digest by which a hub names a file: sha256 of a large one, git's sha1 of a small one */
#ifndef AGENT_FETCH_FETCH_DIGEST_H
#define AGENT_FETCH_FETCH_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct fetch_digest;

enum { FETCH_DIGEST_TEXT = 65 };

/* 64 or 40 hexadecimal digits, which also name the file in the cache. */
bool fetch_digest_is(const char *text);

/* Starts a digest of the same kind as `text`; git's depends on the size, and covers "blob SIZE" and a NUL before the
 * bytes. */
int fetch_digest_begin(struct fetch_digest **out, const char *text, int64_t bytes, struct err *err);
void fetch_digest_add(struct fetch_digest *d, const void *bytes, size_t n);
/* Finishes and frees it; accepts NULL. */
void fetch_digest_end(struct fetch_digest *d, char text[FETCH_DIGEST_TEXT]);

#endif
