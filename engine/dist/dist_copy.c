/* SPDX-License-Identifier: Apache-2.0 */
/* dist_copy.c - copies for another processor to read: streaming stores, past the caches
 *
 * Freshly written data lies in the writer's own cache, and other processors read it
 * from there one line at a time, which on some machines is several times slower
 * than memory, where they prefetch.  So large copies for other ranks bypass the
 * cache (streaming stores).  Small copies do not: for them the way through memory
 * is longer.
 */
#include <string.h>

#include "engine/dist/dist_internal.h"

#if defined(__x86_64__)
#include <emmintrin.h>

enum { LINE = 64 };

void dist_copy_out(void *to, const void *from, size_t bytes)
{
    char *t = to;
    const char *f = from;
    if (((uintptr_t)t & 15) != 0) {
        memcpy(t, f, bytes);
        return;
    }
    for (; bytes >= LINE; bytes -= LINE, t += LINE, f += LINE)
        for (int i = 0; i < LINE; i += 16)
            _mm_stream_si128((__m128i *)(void *)(t + i), _mm_loadu_si128((const __m128i *)(const void *)(f + i)));
    memcpy(t, f, bytes);
    _mm_sfence();
}
#else
void dist_copy_out(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
