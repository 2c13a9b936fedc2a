/* SPDX-License-Identifier: Apache-2.0 */
/* file_digest.h - XXH3 digest of a file's contents */
#ifndef ENGINE_BASE_FILE_DIGEST_H
#define ENGINE_BASE_FILE_DIGEST_H

struct err;

enum { FILE_DIGEST = 33 };

/* XXH3 (128 bits) of the file's bytes, as 32 hexadecimal digits. */
int file_digest(char out[FILE_DIGEST], const char *path, struct err *err);

#endif
