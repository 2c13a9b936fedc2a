/* SPDX-License-Identifier: Apache-2.0 */
/* font.h - a bitmap font for pictures: 5 x 7 pixels, one case, ASCII
 *
 * Enough for captions below pictures without a font library.
 */
#ifndef ENGINE_TRAIN_FONT_H
#define ENGINE_TRAIN_FONT_H

#include <stdint.h>

struct image;

enum { FONT_HEIGHT = 7, FONT_ADVANCE = 6 };

void font_draw(struct image *to, int x, int y, const char *text, int zoom, uint32_t rgb);

#endif
