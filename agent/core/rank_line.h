/* SPDX-License-Identifier: Apache-2.0 */
/* rank_line.h - fields of a progress line of a rank (engine/contract/progress.h)
 *
 * Pure: no clock, no I/O.
 * Lines are untrusted input: a field of the wrong type counts as absent.
 */
#ifndef AGENT_CORE_RANK_LINE_H
#define AGENT_CORE_RANK_LINE_H

#include <jansson.h>
#include <stdint.h>

const char *rank_line_text(const json_t *line, const char *key);    /* NULL: absent */

/* {generation, the named fields of the line or null}; keys: "step loss ...".  A new object, or
 * NULL when memory ran out. */
json_t *rank_line_broadcast(int generation, const json_t *line, const char *keys);

#endif
