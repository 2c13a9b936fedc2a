/* SPDX-License-Identifier: Apache-2.0 */
/* container_words.h - a command line that grows word by word
 *
 * Pure: no clock, no I/O.
 * After a failure for lack of memory all calls do nothing, and container_words_end() returns NULL.
 */
#ifndef AGENT_CONTAINER_CONTAINER_WORDS_H
#define AGENT_CONTAINER_CONTAINER_WORDS_H

#include <stdbool.h>

/* Zeroed: empty. */
struct container_words {
    char **word; /* copies that it owns */
    int n, room;
    bool failed;
};

void container_words_add(struct container_words *w, const char *word);
void container_words_print(struct container_words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void container_words_add_all(struct container_words *w, const char *const *words); /* ended by NULL; may be NULL */

/* The words, ended by NULL and valid until the next call; NULL: no memory. */
const char *const *container_words_end(struct container_words *w);

void container_words_fini(struct container_words *w);

#endif
