/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - XXH3 (128 bits) of bytes, as text: "xxh3:<32 hex digits>"
 *
 * Detects damage, not attacks: a truncated file, a flipped bit, a changed input.
 */
#ifndef ENGINE_BASE_DIGEST_H
#define ENGINE_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum { DIGEST_TEXT = 40 };

struct digest; /* digest of bytes passed in pieces */

int digest_create(struct digest **out, struct err *err);
void digest_destroy(struct digest *d);
void digest_add(struct digest *d, const void *bytes, size_t n);
void digest_add_text(struct digest *d, const char *text); /* with the terminating 0 */
void digest_text(const struct digest *d, char text[DIGEST_TEXT]);

/* Digest of a whole file; *bytes gets the file's size. */
int digest_file(char text[DIGEST_TEXT], int64_t *bytes, const char *path, struct err *err);

/* The same 128 bits as bytes, highest first: of one buffer, and of everything added so far. */
enum { DIGEST_BYTES = 16 };
void digest_raw(unsigned char out[DIGEST_BYTES], const void *bytes, size_t n);
void digest_bytes(const struct digest *d, unsigned char out[DIGEST_BYTES]);

/* 64 bits of a short text. */
uint64_t digest_word(const void *bytes, size_t n, uint64_t seed);

#endif
