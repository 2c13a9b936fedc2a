/* SPDX-License-Identifier: Apache-2.0 */
/* patch_ref.c - images to tokens and back
 *
 * The order inside a token follows the authors' code: the embedding is a convolution,
 * so its weights have the order (channel, row, column); the output has (row, column,
 * channel).
 */
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"

struct patch_args {
    float            *to;
    const float      *from;
    struct kern_image s;
    int               p;
};

/* Calls body for every pixel in rows of patches [from, to): `px` is its index in the image, `at`
 * that of its token, (i, j) and c its row, column and channel in the token. */
#define EACH_PIXEL(arg, from, to, body)                                                       \
    do {                                                                                      \
        const struct patch_args *a = (arg);                                                   \
        const size_t p = (size_t)a->p, rows = (size_t)a->s.height / p;                        \
        const size_t cols = (size_t)a->s.width / p, ch = (size_t)a->s.channels;               \
        for (size_t r = (from); r < (to); r++)                                                \
            for (size_t c = 0; c < ch; c++)                                                   \
                for (size_t i = 0; i < p; i++)                                                \
                    for (size_t w = 0; w < cols; w++)                                         \
                        for (size_t j = 0; j < p; j++) {                                      \
                            const size_t at = (r * cols + w) * ch * p * p;                    \
                            const size_t px = ((r / rows * ch + c) * rows * p +               \
                                               r % rows * p + i) * cols * p + w * p + j;      \
                            body;                                                             \
                        }                                                                     \
    } while (0)

static void embed_rows(const void *arg, size_t from, size_t to)
{
    EACH_PIXEL(arg, from, to, a->to[at + (c * p + i) * p + j] = a->from[px]);
}

static void unpatchify_rows(const void *arg, size_t from, size_t to)
{
    EACH_PIXEL(arg, from, to, a->to[px] = a->from[at + (i * p + j) * ch + c]);
}

static void patchify_rows(const void *arg, size_t from, size_t to)
{
    EACH_PIXEL(arg, from, to, a->to[at + (i * p + j) * ch + c] = a->from[px]);
}

static void each_row(thread_pool_range_fn fn, float *to, const float *from, struct kern_image s, int p)
{
    const struct patch_args a = {to, from, s, p};
    thread_pool_range((size_t)s.batch * (size_t)(s.height / p), 1,
                      (size_t)s.channels * (size_t)p * (size_t)s.width, fn, &a);
}

static void patch_embed(void *tok, const float *img, struct kern_image s, int p)
{
    each_row(embed_rows, tok, img, s, p);
}

static void unpatchify(float *img, const float *tok, struct kern_image s, int p)
{
    each_row(unpatchify_rows, img, tok, s, p);
}

static void patchify(void *tok, const float *img, struct kern_image s, int p)
{
    each_row(patchify_rows, tok, img, s, p);
}

void KERN_FILL(patch)(struct kern_ops *ops)
{
    ops->patch_embed = patch_embed;
    ops->unpatchify = unpatchify;
    ops->patchify = patchify;
}
