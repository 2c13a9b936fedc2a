/* SPDX-License-Identifier: Apache-2.0 */
/* container_words.c - see container_words.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* There is always room for the NULL at the end. */
static bool make_room(struct container_words *w)
{
    if (w->n + 1 < w->room)
        return true;
    const int room = w->room ? 2 * w->room : 64;
    char **more = realloc(w->word, (size_t)room * sizeof(*more));
    if (!more)
        return false;
    w->word = more;
    w->room = room;
    return true;
}

/* Takes the word. */
static void take(struct container_words *w, char *word)
{
    if (!word || w->failed || !make_room(w)) {
        free(word);
        w->failed = true;
        return;
    }
    w->word[w->n++] = word;
}

void container_words_add(struct container_words *w, const char *word)
{
    take(w, strdup(word));
}

void container_words_print(struct container_words *w, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    char *word = n < 0 ? NULL : malloc((size_t)n + 1);
    if (word)
        vsnprintf(word, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    take(w, word);
}

void container_words_add_all(struct container_words *w, const char *const *words)
{
    for (size_t i = 0; words && words[i]; i++)
        container_words_add(w, words[i]);
}

const char *const *container_words_end(struct container_words *w)
{
    if (w->failed || !make_room(w))
        return NULL;
    w->word[w->n] = NULL;
    return (const char *const *)w->word;
}

void container_words_fini(struct container_words *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->word[i]);
    free(w->word);
    *w = (struct container_words){.word = NULL};
}
