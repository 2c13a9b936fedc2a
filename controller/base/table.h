/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - rows and columns that fit the width they are shown in
 *
 * Too wide a table first writes a column of sentences below its rows, then gives
 * up columns (highest `spare` first), then the last one is cut.  Without a width
 * nothing is given up.
 */
#ifndef CONTROLLER_BASE_TABLE_H
#define CONTROLLER_BASE_TABLE_H

#include "controller/base/terminal.h"

struct table_column {
    const char *title;
    bool        right;
    int         spare;   /* 0: never given up; TABLE_BELOW, the last column only */
};

/* A column of sentences: where one does not fit, each but "-" stands below its row. */
enum { TABLE_BELOW = 1000 };

/* `cells` holds rows * columns texts, row by row; styles (per row) may be NULL. */
void table_print(const struct terminal *t, const struct table_column *columns, int ncolumns,
                 const char *const *cells, const enum terminal_style *styles, int rows);

#endif
