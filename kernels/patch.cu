/* SPDX-License-Identifier: Apache-2.0 */
/* patch.cu - images to tokens and back: one thread per pixel and channel */
#include "kernels/device.cuh"

/* Order inside a token: (channel, row, column) or (row, column, channel); and the direction. */
enum patch_way { PATCH_EMBED, PATCH_IN, PATCH_OUT };

template <typename To, typename From>
__global__ void patch_kernel(To *to, const From *from, struct kern_image s, int p,
                             enum patch_way way, size_t n)
{
    const size_t across = s.width / p, down = s.height / p, ch = s.channels;
    for EACH(i, n) {
        const size_t w = i % s.width, h = i / s.width % s.height;
        const size_t c = i / s.width / s.height % ch, b = i / s.width / s.height / ch;
        const size_t token = (b * down + h / p) * across + w / p;
        const size_t in = way == PATCH_EMBED ? (c * p + h % p) * p + w % p
                                             : (h % p * p + w % p) * ch + c;
        const size_t at = token * ch * p * p + in;
        if (way == PATCH_OUT)
            to[i] = narrow<To>(widen(from[at]));
        else
            to[at] = narrow<To>(widen(from[i]));
    }
}

template <typename To, typename From>
static void patch(const char *name, To *to, const From *from, struct kern_image s, int p,
                  enum patch_way way)
{
    const size_t n = (size_t)s.batch * (size_t)s.channels * (size_t)s.height * (size_t)s.width;
    launch(name, patch_kernel<To, From>, grid_for(n), dim3(BLOCK), 0, to, from, s, p, way, n);
}

static void cuda_patch_embed(void *tok, const float *img, struct kern_image s, int p)
{
    for_kind(false, [&](auto t, auto) {
        patch("patch_embed", (decltype(t) *)tok, img, s, p, PATCH_EMBED);
    });
}

static void cuda_patchify(void *tok, const float *img, struct kern_image s, int p)
{
    for_kind(false, [&](auto t, auto) {
        patch("patchify", (decltype(t) *)tok, img, s, p, PATCH_IN);
    });
}

static void cuda_unpatchify(float *img, const float *tok, struct kern_image s, int p)
{
    patch("unpatchify", img, tok, s, p, PATCH_OUT);
}

static void fill_patch(struct kern_ops *ops)
{
    ops->patch_embed = cuda_patch_embed;
    ops->patchify = cuda_patchify;
    ops->unpatchify = cuda_unpatchify;
}
