/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c - see utf8.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/base/utf8.h"

#include <string.h>

/* Bytes that a character needs; 0: it is none. */
static size_t length(uint32_t c)
{
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c >= 0xD800 && c < 0xE000 ? 0 : c < 0x10000 ? 3 : c < 0x110000 ? 4 : 0;
}

/* Bytes that a character with this first byte has. */
static size_t announced(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 0;
}

size_t utf8_read(const char *p, size_t n, uint32_t *character)
{
    const unsigned char *b = (const unsigned char *)p;
    const size_t bytes = n ? announced(b[0]) : 0;
    if (bytes == 0 || bytes > n)
        return 0;
    uint32_t c = bytes == 1 ? b[0] : b[0] & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((b[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (b[i] & 0x3F);
    }
    *character = c;
    return length(c) == bytes ? bytes : 0;
}

/* The least and the greatest bytes that may follow decide: with neither it is overlong, a surrogate or too large. */
bool utf8_is_cut(const char *p, size_t n)
{
    if (n == 0 || n >= announced((unsigned char)p[0]))
        return false;
    for (int fill = 0x80; fill <= 0xBF; fill += 0x3F) {
        char whole[4];
        uint32_t c;
        memset(whole, fill, sizeof(whole));
        memcpy(whole, p, n);
        if (utf8_read(whole, sizeof(whole), &c) > n)
            return true;
    }
    return false;
}

bool utf8_valid(const char *p, size_t n)
{
    uint32_t c;
    for (size_t used; n > 0; p += used, n -= used)
        if ((used = utf8_read(p, n, &c)) == 0)
            return false;
    return true;
}

size_t utf8_whole(const char *p, size_t n)
{
    for (size_t back = 1; back < 4 && back <= n; back++)
        if (utf8_is_cut(p + n - back, back))
            return n - back;
    return n;
}

size_t utf8_fit(const char *p, size_t n, size_t most)
{
    return n <= most ? n : utf8_whole(p, most);
}

size_t utf8_write(char out[4], uint32_t character)
{
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    const size_t n = length(character);
    for (size_t i = n; i > 1; i--, character >>= 6)
        out[i - 1] = (char)(0x80 | (character & 0x3F));
    if (n)
        out[0] = (char)(first[n] | character);
    return n;
}
