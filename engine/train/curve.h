/* SPDX-License-Identifier: Apache-2.0 */
/* curve.h - the loss over the steps, as a picture and in a terminal
 *
 * The loss axis is logarithmic when the values span more than a factor of four:
 * most of what a flow model learns late is below a tenth of what it starts with.
 */
#ifndef ENGINE_TRAIN_CURVE_H
#define ENGINE_TRAIN_CURVE_H

#include <stdbool.h>
#include <stdio.h>

struct err;
struct loss_log_point;

/* 960 x 540, every loss in light grey, a running mean over it. */
int curve_png(const struct loss_log_point *points, int n, const char *path, struct err *err);

/* width x height cells, axis labels included; Braille dots, or '*' without UTF-8. */
void curve_print(FILE *to, const struct loss_log_point *points, int n, int width, int height,
                 bool utf8);

#endif
