/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4) of bytes, as used by model hubs and published checksums
 *
 * Pure: no clock, no I/O.
 */
#ifndef TESTS_VERIFY_SHA256_H
#define TESTS_VERIFY_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_TEXT = 65 }; /* 64 hexadecimal digits and the terminating 0 */

struct sha256 {
    uint32_t      state[8];
    uint64_t      bytes;
    unsigned char block[64];
};

void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t n);
/* Finishes the sum; call sha256_begin() before reuse. */
void sha256_text(struct sha256 *s, char text[SHA256_TEXT]);

#endif
