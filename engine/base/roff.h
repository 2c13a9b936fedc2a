/* SPDX-License-Identifier: Apache-2.0 */
/* roff.h - manual pages in the macros of man(7), written by each program from its own tables
 *
 * All texts are plain: characters that roff would interpret are escaped here.
 */
#ifndef ENGINE_BASE_ROFF_H
#define ENGINE_BASE_ROFF_H

#include <stdio.h>

/* The heading and the section NAME: `name` without section, `date` as 2026-01-31, `summary` one line. */
void roff_page(FILE *f, const char *name, const char *section, const char *date, const char *version,
               const char *summary);

void roff_section(FILE *f, const char *title);

/* A paragraph; an empty line in `text` starts the next one. */
void roff_text(FILE *f, const char *text);

/* Lines that are not filled, such as commands to type. */
void roff_example(FILE *f, const char *text);

/* A term in bold with its explanation below it; "" is none. */
void roff_term(FILE *f, const char *term, const char *text);

/* One reference of a list: name in bold, then (section); `last` ends the list. */
void roff_reference(FILE *f, const char *name, const char *section, int last);

#endif
