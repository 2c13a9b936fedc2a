/* SPDX-License-Identifier: Apache-2.0 */
/* dct.c - see dct.h */
#include "engine/image/dct.h"

#include <math.h>
#include <stddef.h>

#include "engine/base/err.h"
#include "engine/image/image.h"

enum { BLOCK_MAX = 32 };

/* basis[u][x], rows of an orthogonal matrix. */
static void basis_fill(double basis[BLOCK_MAX][BLOCK_MAX], int b)
{
    for (int u = 0; u < b; u++)
        for (int x = 0; x < b; x++)
            basis[u][x] = sqrt((u ? 2.0 : 1.0) / b) * cos(M_PI * (2 * x + 1) * u / (2.0 * b));
}

/* to = basis from basis^T, or with `back` basis^T from basis. */
static void transform(double to[BLOCK_MAX][BLOCK_MAX], double from[BLOCK_MAX][BLOCK_MAX],
                      double basis[BLOCK_MAX][BLOCK_MAX], int b, int back)
{
    double half[BLOCK_MAX][BLOCK_MAX];
    for (int u = 0; u < b; u++)
        for (int x = 0; x < b; x++) {
            double s = 0;
            for (int y = 0; y < b; y++)
                s += (back ? basis[y][u] : basis[u][y]) * from[y][x];
            half[u][x] = s;
        }
    for (int u = 0; u < b; u++)
        for (int v = 0; v < b; v++) {
            double s = 0;
            for (int x = 0; x < b; x++)
                s += half[u][x] * (back ? basis[x][v] : basis[v][x]);
            to[u][v] = s;
        }
}

int dct_encode(float *latent, const struct image *im, int b, struct err *err)
{
    if (b < 1 || b > BLOCK_MAX || im->width % b || im->height % b)
        return err_set(err, ERR_DATA, "a picture of %d x %d pixels cannot be cut into blocks of %d", im->width,
                       im->height, b);
    double basis[BLOCK_MAX][BLOCK_MAX], px[BLOCK_MAX][BLOCK_MAX], f[BLOCK_MAX][BLOCK_MAX];
    int h = im->height / b, w = im->width / b;
    basis_fill(basis, b);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < h * w; i++) {
            int top = i / w * b, left = i % w * b;
            for (int y = 0; y < b; y++)
                for (int x = 0; x < b; x++)
                    px[y][x] =
                        im->rgb[((size_t)(top + y) * (size_t)im->width + (size_t)(left + x)) * 3 +
                                (size_t)c] / 127.5 - 1;
            transform(f, px, basis, b, 0);
            for (int k = 0; k < b * b; k++)
                latent[((size_t)c * (size_t)(b * b) + (size_t)k) * (size_t)(h * w) + (size_t)i] =
                    (float)f[k / b][k % b];
        }
    return 0;
}

int dct_decode(struct image *out, const float *latent, int b, int h, int w, struct err *err)
{
    double basis[BLOCK_MAX][BLOCK_MAX], px[BLOCK_MAX][BLOCK_MAX], f[BLOCK_MAX][BLOCK_MAX];
    if (b < 1 || b > BLOCK_MAX)
        return err_set(err, ERR_BUG, "a DCT block of %d", b);
    if (image_create(out, w * b, h * b, err) < 0)
        return -1;
    basis_fill(basis, b);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < h * w; i++) {
            int top = i / w * b, left = i % w * b;
            for (int k = 0; k < b * b; k++)
                f[k / b][k % b] = latent[((size_t)c * (size_t)(b * b) + (size_t)k) * (size_t)(h * w) + (size_t)i];
            transform(px, f, basis, b, 1);
            for (int y = 0; y < b; y++)
                for (int x = 0; x < b; x++) {
                    double v = (px[y][x] + 1) * 127.5;
                    out->rgb[((size_t)(top + y) * (size_t)out->width + (size_t)(left + x)) * 3 +
                             (size_t)c] = (unsigned char)(!(v > 0) ? 0 : v > 255 ? 255 : lrint(v));
                }
        }
    return 0;
}
