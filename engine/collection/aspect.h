/* SPDX-License-Identifier: Apache-2.0 */
/* aspect.h - aspect-ratio buckets: the sizes that pictures are scaled to
 *
 * The table of Sana's authors: forty sizes of about equal area, from 512 x 2048 (height x
 * width) to 2048 x 512, each with a label near its height / width.  A picture belongs to
 * the label nearest to its own height / width.  For resolutions other than 1024 each
 * edge is scaled, then rounded to a multiple of `step` pixels, at least one; sizes that
 * become equal are one bucket.  2880 has a separate table, as in their code.
 */
#ifndef ENGINE_COLLECTION_ASPECT_H
#define ENGINE_COLLECTION_ASPECT_H

#include <stdbool.h>

struct aspect {
    int height, width;
};

/* The bucket size for a picture of height x width pixels. */
struct aspect aspect_nearest(double height, double width, int resolution, int step);

/* The label of that size, near height / width. */
double aspect_label(double height, double width, int resolution);

/* Is height x width one of the sizes? */
bool aspect_known(int height, int width, int resolution, int step);

#endif
