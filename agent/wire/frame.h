/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - framing of JSON messages in a byte stream, with length limits checked before allocation
 *
 * A reader takes bytes in pieces of any size and returns whole messages; it holds at most one message, limited by its
 * row's cap. An error is permanent: close the connection.
 */
#ifndef AGENT_WIRE_FRAME_H
#define AGENT_WIRE_FRAME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/wire/wire.h"

struct err;
struct frame_reader;

enum { FRAME_HEADER = 8 };

/* `direction`: of the messages to receive. */
int frame_reader_create(struct frame_reader **out, enum wire_direction direction, struct err *err);
void frame_reader_destroy(struct frame_reader *r);

/* Feeds bytes. Returns how many were consumed (stops after each whole message), -1 on error.
 * When a message is complete, *row and *body are set and the caller owns *body (json_decref);
 * otherwise *body is NULL: feed more. */
int frame_read(struct frame_reader *r, const void *bytes, size_t size, const struct wire_row **row,
               json_t **body, struct err *err);

/* Passes each whole message to `each` until it returns false. -1: error. */
int frame_read_all(struct frame_reader *r, const void *bytes, size_t size,
                   bool (*each)(void *arg, const struct wire_row *row, const json_t *body), void *arg, struct err *err);

/* Header and body in one allocation of *size bytes; free() it. NULL on failure. */
void *frame_make(enum wire_message number, const json_t *body, size_t *size, struct err *err);

/* The same for a body that it takes (NULL: there was no memory for it), adding the attempt; `id` NULL: without. */
void *frame_pack(enum wire_message number, const struct wire_id *id, json_t *body, size_t *size, struct err *err);

#endif
