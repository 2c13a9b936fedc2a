/* SPDX-License-Identifier: Apache-2.0 */
/* ignore.h - rules of .gitignore and .jobctlignore files: which paths are excluded
 *
 * Pure: no clock, no I/O.
 *
 * The rules are those of gitignore(5): a line is a pattern; # begins a comment; ! re-includes; a trailing / matches
 * directories only, a / elsewhere anchors the pattern at its file's directory; * and ? match within a name, ** any
 * number of directories.  The last matching rule decides; nothing below an excluded directory can be re-included.
 */
#ifndef CONTROLLER_CODE_IGNORE_H
#define CONTROLLER_CODE_IGNORE_H

#include <stdbool.h>

struct ignore;

/* NULL: out of memory. */
struct ignore *ignore_create(void);
void ignore_destroy(struct ignore *g);

/* Adds the text of a file in `dir` ("" or "a/b"). Files must be added from the top directory down. -1: out of
 * memory. */
int ignore_add(struct ignore *g, const char *dir, const char *text);

/* Tests one path, none of whose directories is excluded. */
bool ignore_has(const struct ignore *g, const char *path, bool directory);

/* Is this file included by name: is a rule with ! the last that matches? */
bool ignore_keeps(const struct ignore *g, const char *path);

#endif
