/* SPDX-License-Identifier: Apache-2.0 */
/* curve.h - the loss curve, as a PNG and in a terminal
 *
 * The loss axis is logarithmic if the values span more than a factor of four:
 * late progress of a flow model is below a tenth of its first loss.
 */
#ifndef ENGINE_TRAIN_CURVE_H
#define ENGINE_TRAIN_CURVE_H

#include <stdbool.h>
#include <stdio.h>

struct err;
struct loss_log_point;

/* 960 x 540; losses in light grey, their running mean on top. */
int curve_png(const struct loss_log_point *points, int n, const char *path, struct err *err);

/* width x height cells, axis labels included; Braille dots, or '*' without UTF-8. */
void curve_print(FILE *to, const struct loss_log_point *points, int n, int width, int height, bool utf8);

#endif
