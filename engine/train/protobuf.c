/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf.c - see protobuf.h */
#include "engine/train/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum wire_type { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

static void put(struct protobuf *p, const void *bytes, size_t size)
{
    if (p->failed || size == 0)
        return;
    if (p->size + size > p->room) {
        const size_t room = 2 * (p->size + size) + 64;
        unsigned char *more = realloc(p->bytes, room);
        if (!more) {
            p->failed = true;
            return;
        }
        p->bytes = more;
        p->room = room;
    }
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
}

static void put_varint(struct protobuf *p, uint64_t value)
{
    unsigned char out[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (unsigned char)(value | 0x80);
    out[n++] = (unsigned char)value;
    put(p, out, n);
}

static void put_key(struct protobuf *p, unsigned field, enum wire_type type)
{
    put_varint(p, field << 3 | (unsigned)type);
}

void protobuf_int(struct protobuf *p, unsigned field, uint64_t value)
{
    put_key(p, field, VARINT);
    put_varint(p, value);
}

void protobuf_double(struct protobuf *p, unsigned field, double value)
{
    put_key(p, field, FIXED64);
    put(p, &value, sizeof(value)); /* little-endian, as this machine is */
}

void protobuf_float(struct protobuf *p, unsigned field, float value)
{
    put_key(p, field, FIXED32);
    put(p, &value, sizeof(value));
}

void protobuf_bytes(struct protobuf *p, unsigned field, const void *bytes, size_t size)
{
    put_key(p, field, LENGTH);
    put_varint(p, size);
    put(p, bytes, size);
}

void protobuf_text(struct protobuf *p, unsigned field, const char *text)
{
    protobuf_bytes(p, field, text, strlen(text));
}

void protobuf_message(struct protobuf *p, unsigned field, struct protobuf *inner)
{
    p->failed |= inner->failed;
    protobuf_bytes(p, field, inner->bytes, inner->size);
    protobuf_free(inner);
}

void protobuf_free(struct protobuf *p)
{
    free(p->bytes);
    *p = (struct protobuf){0};
}
