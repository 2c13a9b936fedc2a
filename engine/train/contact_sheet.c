/* SPDX-License-Identifier: Apache-2.0 */
/* contact_sheet.c - see contact_sheet.h */
#include "engine/train/contact_sheet.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/data/image.h"
#include "engine/train/font.h"

enum { SMALL = 128, LARGE = 256, GAP = 6, MARGIN = 12, HEAD = 24, SIDE = 66, INK = 0x303030, DIM = 0x808080,
       GREY = 0xD8D8D8 };

struct plan {
    int64_t steps[CONTACT_SHEET_ROWS];
    int     rows, cell_w, cell_h;
};

static bool has_row(const struct contact_sheet *s, int64_t step)
{
    char path[CONTACT_SHEET_PATH];
    for (int c = 0; c < s->columns; c++) {
        s->name(s->arg, path, step, c);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

/* Steps with pictures, thinned out. */
static int choose_rows(struct plan *p, const struct contact_sheet *s, struct err *err)
{
    int64_t *all = calloc((size_t)s->rows + 1, sizeof(*all));
    int n = 0;
    if (!all)
        return err_set(err, ERR_MEMORY, "out of memory for a contact sheet");
    for (int i = 0; i < s->rows; i++)
        if (has_row(s, s->steps[i]))
            all[n++] = s->steps[i];
    p->rows = n < CONTACT_SHEET_ROWS ? n : CONTACT_SHEET_ROWS;
    for (int i = 0; i < p->rows; i++)
        p->steps[i] = all[p->rows == 1 ? 0 : (int)((int64_t)i * (n - 1) / (p->rows - 1))];
    free(all);
    return n > 0 ? 0 : err_set(err, ERR_NOT_FOUND, "there are no pictures for a contact sheet");
}

/* The size that a picture has on the sheet. */
static void shown_size(const struct image *im, int *w, int *h, int *zoom)
{
    const int edge = im->width > im->height ? im->width : im->height;
    *zoom = edge < SMALL ? SMALL / edge : 1;
    *w = edge > LARGE ? (im->width * LARGE + edge / 2) / edge : im->width * *zoom;
    *h = edge > LARGE ? (im->height * LARGE + edge / 2) / edge : im->height * *zoom;
    *w = *w > 0 ? *w : 1;
    *h = *h > 0 ? *h : 1;
}

/* Empty if it cannot be read. */
static void read_cell(struct image *im, const struct contact_sheet *s, int64_t step, int column)
{
    char path[CONTACT_SHEET_PATH];
    s->name(s->arg, path, step, column);
    if (image_read(im, path, NULL) < 0)
        *im = (struct image){0};
}

static void measure(struct plan *p, const struct contact_sheet *s)
{
    p->cell_w = p->cell_h = 1;
    for (int c = 0; c < s->columns; c++) {
        struct image im;
        int w, h, zoom;
        read_cell(&im, s, p->steps[p->rows - 1], c);
        if (!im.rgb)
            continue;
        shown_size(&im, &w, &h, &zoom);
        p->cell_w = w > p->cell_w ? w : p->cell_w;
        p->cell_h = h > p->cell_h ? h : p->cell_h;
        image_free(&im);
    }
}

static int draw_cell(struct image *to, const struct image *im, int x, int y, struct err *err)
{
    int w, h, zoom;
    shown_size(im, &w, &h, &zoom);
    if (w >= im->width) {
        image_blit(to, im, x, y, zoom);
        return 0;
    }
    struct image small;
    if (image_fit(&small, im, w, h, err) < 0)
        return -1;
    image_blit(to, &small, x, y, 1);
    image_free(&small);
    return 0;
}

static int draw_row(struct image *to, const struct contact_sheet *s, const struct plan *p, int row, struct err *err)
{
    const int y = MARGIN + HEAD + row * (p->cell_h + GAP);
    char text[32];
    int rc = 0;
    snprintf(text, sizeof(text), "%lld", (long long)p->steps[row]);
    font_draw(to, MARGIN, y + p->cell_h / 2, text, 1, INK);
    for (int c = 0; c < s->columns && rc == 0; c++) {
        const int x = MARGIN + SIDE + c * (p->cell_w + GAP);
        struct image im;
        read_cell(&im, s, p->steps[row], c);
        image_fill(to, x, y, p->cell_w, p->cell_h, GREY);
        if (im.rgb)
            rc = draw_cell(to, &im, x, y, err);
        image_free(&im);
    }
    return rc;
}

static void draw_heads(struct image *to, const struct contact_sheet *s, const struct plan *p)
{
    font_draw(to, MARGIN, MARGIN, "step", 1, DIM);
    for (int c = 0; c < s->columns; c++) {
        char text[64];
        const int most = p->cell_w / FONT_ADVANCE;
        snprintf(text, sizeof(text), "%s", s->prompts[c]);
        if (most < (int)sizeof(text))
            text[most] = 0;
        font_draw(to, MARGIN + SIDE + c * (p->cell_w + GAP), MARGIN, text, 1, DIM);
    }
}

int contact_sheet_write(const struct contact_sheet *s, const char *path, struct err *err)
{
    struct plan p;
    struct image im;
    if (choose_rows(&p, s, err) < 0)
        return -1;
    measure(&p, s);
    if (image_create(&im, 2 * MARGIN + SIDE + s->columns * (p.cell_w + GAP),
                     2 * MARGIN + HEAD + p.rows * (p.cell_h + GAP), err) < 0)
        return -1;
    draw_heads(&im, s, &p);
    int rc = 0;
    for (int row = 0; row < p.rows && rc == 0; row++)
        rc = draw_row(&im, s, &p, row, err);
    if (rc == 0)
        rc = image_write_png(&im, path, err);
    image_free(&im);
    return rc;
}
