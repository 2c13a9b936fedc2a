/* SPDX-License-Identifier: Apache-2.0 */
/* caption.c - see caption.h */
#include "engine/collection/caption.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/digest.h"

enum { WORD_MAX = 64 };

static int is_letter(unsigned char c)
{
    return isalnum(c) || c >= 0x80;
}

/* Adds a sign to each channel: bit c % 64 of a hash of the piece and c / 64. */
static void add_signs(float *row, int channels, const char *piece, size_t n, uint64_t kind)
{
    for (int c = 0; c < channels; c += 64) {
        uint64_t bits = digest_word(piece, n, kind << 32 | (uint64_t)c);
        for (int k = 0; k < 64 && c + k < channels; k++)
            row[c + k] += bits >> k & 1 ? 1.0f : -1.0f;
    }
}

static void encode_word(float *row, int channels, const char *word, size_t n)
{
    char edged[WORD_MAX + 2];
    edged[0] = '^';
    memcpy(edged + 1, word, n);
    edged[n + 1] = '$';
    int pieces = 1;
    add_signs(row, channels, word, n, 1);
    for (size_t i = 0; i + 3 <= n + 2; i++, pieces++)
        add_signs(row, channels, edged + i, 3, 2);
    float scale = 1 / sqrtf((float)pieces);
    for (int c = 0; c < channels; c++)
        row[c] *= scale;
}

/* The next word, lower case, cut to WORD_MAX bytes; moves *p past it. Returns its length, 0 at
 * the end of the text. */
static size_t next_word(const char **p, char word[WORD_MAX])
{
    size_t n = 0;
    for (; **p && !is_letter((unsigned char)**p); ++*p)
        ;
    for (; is_letter((unsigned char)**p); ++*p)
        if (n < WORD_MAX)
            word[n++] = (char)((unsigned char)**p < 0x80 ? tolower((unsigned char)**p) : **p);
    return n;
}

void caption_encode(float *tokens, float *mask, const char *text, int words, int channels)
{
    char word[WORD_MAX];
    size_t n;
    int at = 0;
    if (tokens)
        memset(tokens, 0, sizeof(*tokens) * (size_t)words * (size_t)channels);
    for (; at < words && (n = next_word(&text, word)) > 0; at++)
        if (tokens)
            encode_word(tokens + (size_t)at * (size_t)channels, channels, word, n);
    if (at == 0 && tokens)
        add_signs(tokens, channels, "", 0, 3);
    for (int k = 0; mask && k < words; k++)
        mask[k] = k < at || k == 0;
}

int caption_words(const char *text)
{
    char word[WORD_MAX];
    int n = 0;
    while (next_word(&text, word) > 0)
        n++;
    return n;
}

void caption_null(float *tokens, int words, int channels)
{
    memset(tokens, 0, sizeof(*tokens) * (size_t)words * (size_t)channels);
    for (int w = 0; w < words; w++)
        add_signs(tokens + (size_t)w * (size_t)channels, channels, "", 0, 4);
}
