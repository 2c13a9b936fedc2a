/* SPDX-License-Identifier: Apache-2.0 */
/* json_seal.h - the digest of a JSON object in the object itself, so that a flipped bit of its file shows
 *
 * For small files on which decisions depend: whose process is it, who holds a directory. A flipped digit leaves them
 * well-formed. Detects damage, not attacks.
 */
#ifndef ENGINE_BASE_JSON_SEAL_H
#define ENGINE_BASE_JSON_SEAL_H

#include <jansson.h>
#include <stdbool.h>

/* Sets "sum", the digest of all other fields. -1: no memory. */
int json_seal(json_t *object);

/* Is "sum" not that of the other fields? Without one: false. */
bool json_seal_broken(const json_t *object);

#endif
