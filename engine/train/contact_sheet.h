/* SPDX-License-Identifier: Apache-2.0 */
/* contact_sheet.h - pictures of the same prompts at several steps: a row per step, a column per prompt
 *
 * It is made from the picture files, so it has the rows of earlier starts of a run too.
 */
#ifndef ENGINE_TRAIN_CONTACT_SHEET_H
#define ENGINE_TRAIN_CONTACT_SHEET_H

#include <stdint.h>

struct err;

enum { CONTACT_SHEET_PATH = 4400, CONTACT_SHEET_ROWS = 40 };

struct contact_sheet {
    const char *const *prompts; /* heads of the columns */
    int                columns;
    const int64_t     *steps;   /* of the rows, ascending */
    int                rows;
    /* The file of a picture. */
    void             (*name)(void *arg, char path[CONTACT_SHEET_PATH], int64_t step, int column);
    void              *arg;
};

/* Writes a PNG. A picture that is missing or cannot be read is a grey cell; a step without any picture has no row. Of
 * more than CONTACT_SHEET_ROWS steps as many are shown, evenly spread, the first and the last among them. Pictures are
 * enlarged to about 128 pixels, or shrunk to 256. */
int contact_sheet_write(const struct contact_sheet *s, const char *path, struct err *err);

#endif
