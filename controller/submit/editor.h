/* SPDX-License-Identifier: Apache-2.0 */
/* editor.h - a text in a temporary file, and the user's editor on it */
#ifndef CONTROLLER_SUBMIT_EDITOR_H
#define CONTROLLER_SUBMIT_EDITOR_H

#include <limits.h>

struct err;

struct editor {
    char path[PATH_MAX];        /* below $TMPDIR or /tmp, which only the user can read */
};

/* Writes the text into a new file, whose name ends in `name`. */
int editor_init(struct editor *e, const char *name, const char *text, struct err *err);
/* Runs $VISUAL, $EDITOR or vi on it, and returns the edited text, for free(); NULL: the editor failed. */
char *editor_run(const struct editor *e, struct err *err);
/* Removes the file. */
void editor_discard(struct editor *e);

#endif
