/* SPDX-License-Identifier: Apache-2.0 */
/* edit_text.h - the text that jobctl edit shows: the spec as submitted, below its overrides as comments
 *
 * Pure: no clock, no I/O.
 * Without overrides it is the text as submitted. Otherwise it begins with a comment, then a line "# --set KEY=VALUE"
 * for each override and a line "#"; an override that contains a line end is written as JSON. The user can change or
 * remove these lines.
 */
#ifndef CONTROLLER_SUBMIT_EDIT_TEXT_H
#define CONTROLLER_SUBMIT_EDIT_TEXT_H

#include <jansson.h>

/* `set`: texts, or NULL. For free(); NULL: no memory. */
char *edit_text_make(const char *yaml, const json_t *set);

/* The spec's text, which is the last part of `text`; *set: the overrides above it, a new list. */
const char *edit_text_split(json_t **set, const char *text);

/* The overrides of `set` and the `n` of `more`, which replace those of the same key; a new list, NULL: not UTF-8. */
json_t *edit_text_merge(const json_t *set, const char *const *more, int n);

/* The overrides for the parser, a new list. An override that was stored without its secret gets its value from the
 * job's canonical spec, and is left out if the spec has none. */
json_t *edit_text_overrides(const json_t *set, const json_t *stored);

#endif
