/* SPDX-License-Identifier: Apache-2.0 */
/* wire_version.h - reads and writes messages of earlier wire versions, whose keys had other names, or were fewer
 *
 * A daemon newer than a running agent adopts it: it reads frames of the agent's version and answers
 * in that version, because an agent refuses unknown keys. Everywhere else both sides come from one
 * installation and only WIRE_VERSION is accepted. A body in memory always uses the keys of
 * WIRE_VERSION.
 *
 * To rename or to add a key, or to add a message to agents: add a row in wire_version.c and raise WIRE_VERSION.
 */
#ifndef AGENT_WIRE_WIRE_VERSION_H
#define AGENT_WIRE_WIRE_VERSION_H

#include "agent/wire/wire.h"

/* Is a frame of this version accepted in this direction? */
bool wire_version_accepted(unsigned version, enum wire_direction direction);

/* Does an agent of this version know this message? Others must not be sent. */
bool wire_version_knows(unsigned version, enum wire_message number);

/* Renames the keys of a body of `version` to those of WIRE_VERSION, in place. -1: it has a key
 * unknown to that version. */
int wire_version_read(unsigned version, const struct wire_row *row, json_t *body, struct err *err);

/* The body with the keys of `version`: a new reference, NULL without memory. `body` is
 * unchanged. */
json_t *wire_version_write(unsigned version, enum wire_message number, const json_t *body);

#endif
