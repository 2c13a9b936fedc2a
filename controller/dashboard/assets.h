/* SPDX-License-Identifier: Apache-2.0 */
/* assets.h - the files of the page, which are part of the program
 *
 * They are assembled into assets.o from the folder assets/. To add a file, add a row in assets.c; no name from a
 * request ever becomes a path.
 */
#ifndef CONTROLLER_DASHBOARD_ASSETS_H
#define CONTROLLER_DASHBOARD_ASSETS_H

#include <stddef.h>

struct asset {
    const char *name;       /* "style.css" */
    const char *type;       /* "text/css; charset=utf-8" */
    const char *text;
};

const struct asset *assets_find(const char *name);      /* NULL: there is none */
const struct asset *assets_at(size_t i);                /* the same, behind the last one */

/* Of a page in a file of its own (controller/watch/report_page.h), not served: the script that shows it, and the module
 * that stands for api.js. */
extern const struct asset assets_report, assets_saved;

#endif
