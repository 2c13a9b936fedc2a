/* SPDX-License-Identifier: Apache-2.0 */
/* text_rows.c - see text_rows.h */
#include "engine/model/text_rows.h"

enum { STEPS = 32, TILE = 64 };

int text_rows_step(int batch, int text)
{
    const int step = batch * text / STEPS;
    return step < 1 ? 1 : step > TILE ? step - step % TILE : step;
}

static int length_of(const float *mask, int text)
{
    int n = text;
    while (n > 0 && !(mask[n - 1] > 0))
        n--;
    return n > 0 ? n : text;
}

int text_rows_find(int *first, const float *mask, int batch, int text, int step)
{
    int tokens = 0;
    for (int b = 0; b < batch; b++)
        tokens += length_of(mask + b * text, text);
    int spare = (step - tokens % step) % step;
    first[0] = 0;
    for (int b = 0; b < batch; b++) {
        const int n = length_of(mask + b * text, text);
        const int more = text - n < spare ? text - n : spare;
        first[b + 1] = first[b] + n + more;
        spare -= more;
    }
    return first[batch];
}
