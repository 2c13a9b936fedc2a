/* SPDX-License-Identifier: Apache-2.0 */
/* ignore.h - rules of .gitignore and .jobctlignore files: which paths are left out
 *
 * Pure: no clock, no I/O.
 *
 * The rules are those of gitignore(5): a line is a pattern; # begins a comment; ! takes back; a / at the end means
 * directories only, one elsewhere that the pattern starts at its file's directory; * and ? match within a name, **
 * any number of directories.  The last rule that matches decides; below a directory that is left out nothing can be
 * taken back.
 */
#ifndef CONTROLLER_CODE_IGNORE_H
#define CONTROLLER_CODE_IGNORE_H

#include <stdbool.h>

struct ignore;

/* NULL: out of memory. */
struct ignore *ignore_create(void);
void ignore_destroy(struct ignore *g);

/* Adds the text of a file in `dir` ("" or "a/b").  Files come in the order of their directories, those above first.
 * -1: out of memory. */
int ignore_add(struct ignore *g, const char *dir, const char *text);

/* One path, none of whose directories is left out. */
bool ignore_has(const struct ignore *g, const char *path, bool directory);

#endif
