/* SPDX-License-Identifier: Apache-2.0 */
/* dist_copy.c - bytes for another processor: past the caches into memory
 *
 * What one processor has just written lies in its own cache, and others get it
 * from there a line at a time, which on some machines is several times slower
 * than memory, that they read ahead.  So what is for others is written past the
 * cache (streaming stores).  Not so where it is little: there the way to memory and
 * back is longer.
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
            _mm_stream_si128((__m128i *)(void *)(t + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(f + i)));
    memcpy(t, f, bytes);
    _mm_sfence();
}
#else
void dist_copy_out(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
