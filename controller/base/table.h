/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - prints a table that fits the width of the terminal
 *
 * If the table is too wide, the column of sentences is printed below its rows or, in a long table, cut to the width
 * that the other columns leave; then columns are cut down to their `least`, dropped (highest `spare` first), and the
 * last one is cut. Without a width, everything is printed.
 */
#ifndef CONTROLLER_BASE_TABLE_H
#define CONTROLLER_BASE_TABLE_H

#include "controller/base/terminal.h"

struct table_column {
    const char *title;
    bool        right;
    int         spare;   /* 0: never dropped; TABLE_BELOW: the last column only */
    int         least;   /* may be cut to this width; 0: never cut */
};

/* A column of sentences: if it does not fit, each except "-" is printed below its row; in a table of more than
 * TABLE_SHORT rows each stays one line. */
enum { TABLE_BELOW = 1000, TABLE_SHORT = 12 };

/* `cells`: rows * columns texts, row by row; styles (per row) may be NULL. */
void table_print(const struct terminal *t, const struct table_column *columns, int ncolumns,
                 const char *const *cells, const enum terminal_style *styles, int rows);

#endif
