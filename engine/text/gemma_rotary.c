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
