/* SPDX-License-Identifier: Apache-2.0 */
/* aspect.c - see aspect.h */
#include "engine/collection/aspect.h"

#include <math.h>
#include <stddef.h>

enum { BASE = 1024 };

struct size {
    double label;
    int    height, width;
};
enum { SIZES = 40 };

/* At a resolution of 1024; those of 256, 512 and 2048 are its multiples. */
static const struct size table[SIZES] = {
    {0.25, 512, 2048}, {0.26, 512, 1984}, {0.27, 512, 1920},  {0.28, 512, 1856},
    {0.32, 576, 1792}, {0.33, 576, 1728}, {0.35, 576, 1664},  {0.4, 640, 1600},
    {0.42, 640, 1536}, {0.48, 704, 1472}, {0.5, 704, 1408},   {0.52, 704, 1344},
    {0.57, 768, 1344}, {0.6, 768, 1280},  {0.68, 832, 1216},  {0.72, 832, 1152},
    {0.78, 896, 1152}, {0.82, 896, 1088}, {0.88, 960, 1088},  {0.94, 960, 1024},
    {1.0, 1024, 1024}, {1.07, 1024, 960}, {1.13, 1088, 960},  {1.21, 1088, 896},
    {1.29, 1152, 896}, {1.38, 1152, 832}, {1.46, 1216, 832},  {1.67, 1280, 768},
    {1.75, 1344, 768}, {2.0, 1408, 704},  {2.09, 1472, 704},  {2.4, 1536, 640},
    {2.5, 1600, 640},  {2.89, 1664, 576}, {3.0, 1728, 576},   {3.11, 1792, 576},
    {3.62, 1856, 512}, {3.75, 1920, 512}, {3.88, 1984, 512},  {4.0, 2048, 512},
};

/* The authors' table of 2880 has labels and shapes of its own. */
enum { LARGE = 2880 };
static const struct size large[SIZES] = {
    {0.25, 1408, 5760}, {0.26, 1408, 5568}, {0.27, 1408, 5376}, {0.28, 1408, 5184},
    {0.32, 1600, 4992}, {0.33, 1600, 4800}, {0.34, 1600, 4672}, {0.4, 1792, 4480},
    {0.42, 1792, 4288}, {0.47, 1920, 4096}, {0.49, 1920, 3904}, {0.51, 1920, 3776},
    {0.55, 2112, 3840}, {0.59, 2112, 3584}, {0.68, 2304, 3392}, {0.72, 2304, 3200},
    {0.78, 2496, 3200}, {0.83, 2496, 3008}, {0.89, 2688, 3008}, {0.93, 2688, 2880},
    {1.0, 2880, 2880},  {1.07, 2880, 2688}, {1.12, 3008, 2688}, {1.21, 3008, 2496},
    {1.28, 3200, 2496}, {1.39, 3200, 2304}, {1.47, 3392, 2304}, {1.7, 3584, 2112},
    {1.82, 3840, 2112}, {2.03, 3904, 1920}, {2.13, 4096, 1920}, {2.39, 4288, 1792},
    {2.5, 4480, 1792},  {2.92, 4672, 1600}, {3.0, 4800, 1600},  {3.12, 4992, 1600},
    {3.68, 5184, 1408}, {3.82, 5376, 1408}, {3.95, 5568, 1408}, {4.0, 5760, 1408},
};

static const struct size *sizes_at(int resolution)
{
    return resolution == LARGE ? large : table;
}

static int base_of(int resolution)
{
    return resolution == LARGE ? LARGE : BASE;
}

static int scaled(int edge, int resolution, int step)
{
    long pixels = lround((double)edge * resolution / base_of(resolution) / step);
    return (int)(pixels < 1 ? 1 : pixels) * step;
}

static struct aspect size_at(int i, int resolution, int step)
{
    const struct size *s = &sizes_at(resolution)[i];
    return (struct aspect){scaled(s->height, resolution, step), scaled(s->width, resolution, step)};
}

/* The first of equally near labels. */
static int nearest(double height, double width, int resolution)
{
    const struct size *of = sizes_at(resolution);
    const double ratio = height / width;
    int best = 0;
    for (int i = 1; i < SIZES; i++)
        if (fabs(of[i].label - ratio) < fabs(of[best].label - ratio))
            best = i;
    return best;
}

struct aspect aspect_nearest(double height, double width, int resolution, int step)
{
    return size_at(nearest(height, width, resolution), resolution, step);
}

double aspect_label(double height, double width, int resolution)
{
    return sizes_at(resolution)[nearest(height, width, resolution)].label;
}

bool aspect_known(int height, int width, int resolution, int step)
{
    for (int i = 0; i < SIZES; i++) {
        struct aspect a = size_at(i, resolution, step);
        if (a.height == height && a.width == width)
            return true;
    }
    return false;
}
