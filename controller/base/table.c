/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h */
#include "controller/base/table.h"

#include <string.h>

enum { COLUMNS = 40, GAP = 2, LAST_LEAST = 12, BELOW = 4 };

struct layout {
    int  width[COLUMNS];
    bool shown[COLUMNS];
    int  last;              /* the last shown column */
    int  below;             /* the column printed below its rows, or -1 */
};

static int total(const struct layout *l, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        if (l->shown[i])
            sum += l->width[i] + (sum ? GAP : 0);
    return sum;
}

/* The column to drop next, or -1. */
static int most_spare(const struct layout *l, const struct table_column *c, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (l->shown[i] && c[i].spare > 0 && (best < 0 || c[i].spare >= c[best].spare))
            best = i;
    return best;
}

/* Long names are cut before a column is dropped. */
static void shrink(struct layout *l, const struct terminal *t, const struct table_column *c, int n)
{
    for (int i = 0; i < n && t->width; i++) {
        const int over = total(l, n) - t->width, spare = l->width[i] - c[i].least;
        if (c[i].least > 0 && over > 0 && spare > 0)
            l->width[i] -= over < spare ? over : spare;
    }
}

static void lay_out(struct layout *l, const struct terminal *t, const struct table_column *c,
                    int n, const char *const *cells, int rows)
{
    for (int i = 0; i < n; i++) {
        l->shown[i] = true;
        l->width[i] = terminal_columns(c[i].title);
        for (int r = 0; r < rows; r++) {
            int w = terminal_columns(cells[r * n + i]);
            if (w > l->width[i])
                l->width[i] = w;
        }
    }
    l->below = -1;
    if (t->width && c[n - 1].spare == TABLE_BELOW && total(l, n) > t->width) {
        l->below = rows > TABLE_SHORT ? -1 : n - 1;
        l->shown[n - 1] = false;
    }
    shrink(l, t, c, n);
    int slack = 0; /* the last column may be cut down to LAST_LEAST */
    if (l->width[n - 1] > LAST_LEAST)
        slack = l->width[n - 1] - LAST_LEAST;
    while (t->width && total(l, n) - (l->shown[n - 1] ? slack : 0) > t->width) {
        int i = most_spare(l, c, n);
        if (i < 0)
            break;
        l->shown[i] = false;
    }
    if (l->below < 0 && !l->shown[n - 1])
        l->shown[n - 1] = total(l, n) + GAP + LAST_LEAST <= t->width;
    l->last = n - 1;
    while (l->last > 0 && !l->shown[l->last])
        l->last--;
    int over = t->width ? total(l, n) - t->width : 0;
    if (over > 0)
        l->width[l->last] = l->width[l->last] - over > 1 ? l->width[l->last] - over : 1;
}

static void print_cell(const struct terminal *t, const struct table_column *c, const char *text, int width, bool last)
{
    char shown[1024];
    terminal_fit(t, shown, sizeof(shown), text, width);
    int pad = width - terminal_columns(shown);
    if (c->right)
        fprintf(t->file, "%*s", pad, "");
    fputs(shown, t->file);
    if (!last)
        fprintf(t->file, "%*s", (c->right ? 0 : pad) + GAP, "");
}

/* The last non-empty cell of a row; it is not padded. */
static int last_cell(const struct layout *l, const char *const *row)
{
    int last = l->last;
    while (last > 0 && (!l->shown[last] || !row[last][0]))
        last--;
    return last;
}

static void print_below(const struct terminal *t, const char *text)
{
    if (!text[0] || strcmp(text, "-") == 0)
        return;
    fprintf(t->file, "%*s", BELOW, "");
    terminal_hang(t, text, BELOW);
}

void table_print(const struct terminal *t, const struct table_column *columns, int ncolumns,
                 const char *const *cells, const enum terminal_style *styles, int rows)
{
    struct layout l;
    if (ncolumns < 1 || ncolumns > COLUMNS)
        return;
    const char *titles[COLUMNS];
    for (int i = 0; i < ncolumns; i++)
        titles[i] = columns[i].title;
    lay_out(&l, t, columns, ncolumns, cells, rows);
    for (int r = -1; r < rows; r++) {
        enum terminal_style style = r < 0 ? STYLE_BOLD : styles ? styles[r] : STYLE_PLAIN;
        if (style != STYLE_PLAIN)
            fputs(terminal_style(t, style), t->file);
        const char *const *row = r < 0 ? titles : cells + r * ncolumns;
        const int last = last_cell(&l, row);
        for (int i = 0; i <= last; i++)
            if (l.shown[i])
                print_cell(t, &columns[i], row[i], l.width[i], i == last);
        if (style != STYLE_PLAIN)
            fputs(terminal_style(t, STYLE_PLAIN), t->file);
        fputc('\n', t->file);
        if (r >= 0 && l.below >= 0)
            print_below(t, row[l.below]);
    }
}
