/* SPDX-License-Identifier: Apache-2.0 */
/* spec_suggest.h - what somebody meant who wrote a key that we do not have
 *
 * In this order: the name that another tool gives to the thing; a key of the
 * same map that is a slip of the finger away; the same name in another place;
 * the nearest key of the same map; the keys there are.
 */
#ifndef CONTROLLER_SPEC_SPEC_SUGGEST_H
#define CONTROLLER_SPEC_SPEC_SUGGEST_H

#include <stddef.h>

/* Words that follow "unknown key "key" in MAP", beginning with "; ". `map` is the whole path of
 * the map, "" at the top. */
void spec_suggest(char *out, size_t size, const char *map, const char *key);

/* Edits between two words, counting a swap of neighbours as one (Damerau-Levenshtein), upper and
 * lower case and '-' and '_' being the same; words longer than 63 bytes are far from all. */
int spec_distance(const char *a, const char *b);

/* The word of a list separated by '|' that is near to `word`, or an empty text. */
void spec_nearest_choice(char *out, size_t size, const char *choices, const char *word);

#endif
