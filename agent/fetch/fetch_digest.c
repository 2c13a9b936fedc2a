/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_digest.c - see fetch_digest.h */
#include "agent/fetch/fetch_digest.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"

bool fetch_digest_is(const char *text)
{
    const size_t n = strlen(text);
    return (n == 64 || n == 40) && strspn(text, "0123456789abcdef") == n;
}

int fetch_digest_begin(struct fetch_digest **out, const char *text, int64_t bytes, struct err *err)
{
    char head[40];
    const bool git = strlen(text) == 40;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (!c || EVP_DigestInit_ex(c, git ? EVP_sha1() : EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(c);
        return err_set(err, ERR_MEMORY, "the OpenSSL of this machine has no %s", git ? "SHA-1" : "SHA-256");
    }
    const int n = snprintf(head, sizeof(head), "blob %lld", (long long)bytes) + 1;
    if (git)
        EVP_DigestUpdate(c, head, (size_t)n);
    *out = (struct fetch_digest *)c;
    return 0;
}

void fetch_digest_add(struct fetch_digest *d, const void *bytes, size_t n)
{
    EVP_DigestUpdate((EVP_MD_CTX *)d, bytes, n);
}

void fetch_digest_end(struct fetch_digest *d, char text[FETCH_DIGEST_TEXT])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    text[0] = '\0';
    if (d && EVP_DigestFinal_ex((EVP_MD_CTX *)d, sum, &n) == 1)
        for (unsigned i = 0; i < n && i < 32; i++)
            snprintf(text + 2 * i, 3, "%02x", sum[i]);
    EVP_MD_CTX_free((EVP_MD_CTX *)d);
}
