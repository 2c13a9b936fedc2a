/* SPDX-License-Identifier: Apache-2.0 */
/* step_input.h - one micro-batch: filled by a loader, consumed by a step */
#ifndef ENGINE_DATA_STEP_INPUT_H
#define ENGINE_DATA_STEP_INPUT_H

#include <stdint.h>

struct rng;

/* The caller has made all random choices; the arrays are in host memory. */
struct step_input {
    int            batch, height, width, text;
    const float   *x0;       /* [B, channels, H, W] clean latents */
    const float   *noise;    /* [B, channels, H, W]; or streams */
    const int     *t_index;  /* [B], 0..999, index into the flow tables */
    const float   *y;        /* [B, text, D]; or y_bf16 */
    const float   *mask;     /* [B, text] */
    const uint8_t *drop;     /* [B]: 1 = caption replaced by the null embedding; NULL = none */
    const struct rng *streams; /* [B], for a step_draws_noise(): noise is the first normal numbers of each; or NULL */
    const uint16_t *y_bf16;  /* y rounded to bf16, for a step_takes_bf16(); or NULL */
};

#endif
