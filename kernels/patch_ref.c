/* SPDX-License-Identifier: Apache-2.0 */
/* patch_ref.c - images to tokens and back
 *
 * Two orders inside a token, both the authors': the embedding is a convolution,
 * so its weights ask for (channel, row, column); the output is (row, column,
 * channel).
 */
#include "kernels/kernels.h"
#include "kernels/table.h"

/* Walks every pixel of the batch. `tok` is rows of width channels * p * p. */
#define EACH_PIXEL(s, p, body)                                                              \
    do {                                                                                    \
        const int cols_ = (s).width / (p), rows_ = (s).height / (p);                        \
        _Pragma("omp parallel for collapse(2) schedule(static)")                            \
        for (int b = 0; b < (s).batch; b++)                                                 \
            for (int th = 0; th < rows_; th++)                                              \
                for (int tw = 0; tw < cols_; tw++) {                                        \
                    const size_t at = (((size_t)b * (size_t)rows_ + (size_t)th) *           \
                                       (size_t)cols_ + (size_t)tw) *                        \
                                      (size_t)((s).channels * (p) * (p));                   \
                    for (int i = 0; i < (p); i++)                                           \
                        for (int j = 0; j < (p); j++)                                       \
                            for (int c = 0; c < (s).channels; c++) {                        \
                                const size_t px =                                           \
                                    (((size_t)b * (size_t)(s).channels + (size_t)c) *       \
                                     (size_t)(s).height + (size_t)(th * (p) + i)) *         \
                                    (size_t)(s).width + (size_t)(tw * (p) + j);             \
                                body;                                                       \
                            }                                                               \
                }                                                                           \
    } while (0)

static void patch_embed(float *tok, const float *img, struct kern_image s, int p)
{
    EACH_PIXEL(s, p, tok[at + (size_t)((c * p + i) * p + j)] = img[px]);
}

static void unpatchify(float *img, const float *tok, struct kern_image s, int p)
{
    EACH_PIXEL(s, p, img[px] = tok[at + (size_t)((i * p + j) * s.channels + c)]);
}

static void patchify(float *tok, const float *img, struct kern_image s, int p)
{
    EACH_PIXEL(s, p, tok[at + (size_t)((i * p + j) * s.channels + c)] = img[px]);
}

void KERN_FILL(patch)(struct kern_ops *ops)
{
    ops->patch_embed = patch_embed;
    ops->unpatchify = unpatchify;
    ops->patchify = patchify;
}
