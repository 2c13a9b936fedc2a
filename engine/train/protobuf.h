/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf.h - writes messages in the wire format of Protocol Buffers
 *
 * Pure: no clock, no I/O.
 * A message is a zeroed struct; an embedded message is written separately and then added as bytes.
 */
#ifndef ENGINE_TRAIN_PROTOBUF_H
#define ENGINE_TRAIN_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf {
    unsigned char *bytes;
    size_t         size, room;
    bool           failed; /* out of memory; later calls are ignored */
};

void protobuf_int(struct protobuf *p, unsigned field, uint64_t value); /* also enums and bool */
void protobuf_double(struct protobuf *p, unsigned field, double value);
void protobuf_float(struct protobuf *p, unsigned field, float value);
void protobuf_bytes(struct protobuf *p, unsigned field, const void *bytes, size_t size);
void protobuf_text(struct protobuf *p, unsigned field, const char *text);
/* Adds the message and frees it. */
void protobuf_message(struct protobuf *p, unsigned field, struct protobuf *inner);
void protobuf_free(struct protobuf *p);

#endif
