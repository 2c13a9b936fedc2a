/* SPDX-License-Identifier: Apache-2.0 */
/* assets.h - the files of the page, which are part of the program
 *
 * They are assembled into assets.o from the folder assets/. A new file is a row in assets.c; no name from outside ever
 * becomes a path.
 */
#ifndef CONTROLLER_DASHBOARD_ASSETS_H
#define CONTROLLER_DASHBOARD_ASSETS_H

struct asset {
    const char *name;       /* "style.css" */
    const char *type;       /* "text/css; charset=utf-8" */
    const char *text;
};

const struct asset *assets_find(const char *name);      /* NULL: there is none */

#endif
