/* SPDX-License-Identifier: Apache-2.0 */
/* json_seal.h - stores a JSON object's digest in the object itself, so that a flipped bit in its file is detected
 *
 * For small files that decisions depend on: whose process this is, who holds a directory. They stay well-formed if a
 * digit flips. Detects damage, not attacks.
 */
#ifndef ENGINE_BASE_JSON_SEAL_H
#define ENGINE_BASE_JSON_SEAL_H

#include <jansson.h>
#include <stdbool.h>

/* Sets "sum", the digest of all other fields. -1: no memory. */
int json_seal(json_t *object);

/* Does "sum" differ from the digest of the other fields? False if there is no "sum". */
bool json_seal_broken(const json_t *object);

#endif
