/* SPDX-License-Identifier: Apache-2.0 */
/* spec_suggest.h - suggestions for unknown keys
 *
 * Tried in this order: the key of another tool; a key of the same map within a
 * typing error; the same or nearly the same name in another map; the nearest key of the same map;
 * the list of valid keys.
 */
#ifndef CONTROLLER_SPEC_SPEC_SUGGEST_H
#define CONTROLLER_SPEC_SPEC_SUGGEST_H

#include <stddef.h>

/* Writes the text after "unknown key "key" in MAP", beginning with "; ". `map` is the full path of
 * the map, "" at the top. */
void spec_suggest(char *out, size_t size, const char *map, const char *key);

/* Edit distance of two words (Damerau-Levenshtein), ignoring case and treating '-' and '_' as
 * equal; words longer than 63 bytes are far from all others. */
int spec_distance(const char *a, const char *b);

/* The word of a list separated by '|' that is close to `word`, or "". */
void spec_nearest_choice(char *out, size_t size, const char *choices, const char *word);

#endif
