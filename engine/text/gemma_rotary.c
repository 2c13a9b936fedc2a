/* SPDX-License-Identifier: Apache-2.0 */
/* gemma_rotary.c - see gemma_rotary.h */
#include "engine/text/gemma_rotary.h"

#include <math.h>

void gemma_rotary_tables(float *cosine, float *sine, int length, int dim, double theta)
{
    const int half = dim / 2;
    for (int i = 0; i < half; i++) {
        const float step = (float)(1 / pow(theta, 2.0 * i / dim));
        for (int at = 0; at < length; at++) {
            cosine[at * half + i] = cosf((float)at * step);
            sine[at * half + i] = sinf((float)at * step);
        }
    }
}

void gemma_rotary_turn(float *x, int batch, int length, int from, int heads, int dim, const float *cosine,
                       const float *sine)
{
    const int half = dim / 2;
    for (int row = 0; row < batch * length; row++)
        for (int head = 0; head < heads; head++, x += dim)
            for (int i = 0; i < half; i++) {
                const int at = (from + row % length) * half + i;
                const float a = x[i], b = x[i + half];
                x[i] = a * cosine[at] - b * sine[at];
                x[i + half] = b * cosine[at] + a * sine[at];
            }
}
