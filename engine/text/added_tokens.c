/* SPDX-License-Identifier: Apache-2.0 */
/* added_tokens.c - see tokenizer_internal.h */
#include "engine/text/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

static int grow(struct added_tokens *a, struct err *err)
{
    if (a->n < a->room)
        return 0;
    const size_t room = a->room ? 2 * a->room : 64;
    struct added_token *more = realloc(a->list, room * sizeof(*more));
    if (!more)
        return err_set(err, ERR_MEMORY, "no memory for %zu added tokens", room);
    a->list = more;
    a->room = room;
    return 0;
}

int added_tokens_add(struct added_tokens *a, int id, const char *text, size_t n, struct err *err)
{
    if (n == 0)
        return err_set(err, ERR_DATA, "the added token with id %d is empty", id);
    char *copy = malloc(n);
    if (!copy || grow(a, err) < 0) {
        free(copy);
        return err_set(err, ERR_MEMORY, "no memory for an added token");
    }
    a->list[a->n++] = (struct added_token){memcpy(copy, text, n), n, id};
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    const unsigned char cx = (unsigned char)x->text[0], cy = (unsigned char)y->text[0];
    if (cx != cy)
        return cx < cy ? -1 : 1;
    return x->n == y->n ? memcmp(x->text, y->text, x->n) : x->n > y->n ? -1 : 1;
}

void added_tokens_sort(struct added_tokens *a)
{
    if (a->n)
        qsort(a->list, a->n, sizeof(*a->list), compare);
    for (size_t i = 0, b = 0; b < 257; b++) {
        while (i < a->n && (unsigned char)a->list[i].text[0] < b)
            i++;
        a->from[b] = i;
    }
}

const struct added_token *added_tokens_find(const struct added_tokens *a, const char *text, size_t n)
{
    const size_t b = n ? (unsigned char)text[0] : 0;
    for (size_t i = a->from[b]; n && i < a->from[b + 1]; i++)
        if (a->list[i].n <= n && memcmp(a->list[i].text, text, a->list[i].n) == 0)
            return &a->list[i];
    return NULL;
}

void added_tokens_free(struct added_tokens *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->list[i].text);
    free(a->list);
    *a = (struct added_tokens){0};
}
