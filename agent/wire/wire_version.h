/* SPDX-License-Identifier: Apache-2.0 */
/* wire_version.h - messages of an earlier wire version: which are read, and the names that their keys had
 *
 * A daemon that is newer than a running agent adopts it: it reads frames of the agent's version and answers in
 * that version, because an agent refuses a key that it does not know. Everywhere else both sides come from one
 * installation and only WIRE_VERSION is accepted. A body in memory always has the names of WIRE_VERSION.
 *
 * A change of a key: a row in wire_version.c, and WIRE_VERSION rises.
 */
#ifndef AGENT_WIRE_WIRE_VERSION_H
#define AGENT_WIRE_WIRE_VERSION_H

#include "agent/wire/wire.h"

/* May a frame of this version come in this direction? */
bool wire_version_accepted(unsigned version, enum wire_direction direction);

/* Renames the keys of a body of `version` to those of WIRE_VERSION, in place. -1: it has a key that this
 * version does not know. */
int wire_version_read(unsigned version, const struct wire_row *row, json_t *body, struct err *err);

/* The body with the keys of `version`: a new reference, NULL without memory. `body` is not changed. */
json_t *wire_version_write(unsigned version, enum wire_message number, const json_t *body);

#endif
