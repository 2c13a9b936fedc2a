/* SPDX-License-Identifier: Apache-2.0 */
/* completion_words.h - words for the completion scripts that are known only at run time: jobs, nodes, keys of a spec
 *
 * One per line, with its meaning after a tab.  No daemon is started: without one there are no jobs and no nodes.
 */
#ifndef CONTROLLER_HELP_COMPLETION_WORDS_H
#define CONTROLLER_HELP_COMPLETION_WORDS_H

#include <stdbool.h>
#include <stdio.h>


/* Prints the words of a kind; false if there is no such kind. */
bool completion_words_print(FILE *f, const char *kind);

#endif
