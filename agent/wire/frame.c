/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - see frame.h; checks in order: version, number, length, memory, JSON, fields */
#include "agent/wire/frame.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json_text.h"

struct frame_reader {
    enum wire_direction direction;
    bool broken;
    unsigned char header[FRAME_HEADER];
    size_t have;                /* bytes of header and body so far */
    const struct wire_row *row; /* known once the header is complete */
    char *body;
    size_t size; /* of the body */
};

int frame_reader_create(struct frame_reader **out, enum wire_direction direction, struct err *err)
{
    struct frame_reader *r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_MEMORY, "no memory for a connection");
    r->direction = direction;
    *out = r;
    return 0;
}

void frame_reader_destroy(struct frame_reader *r)
{
    if (!r)
        return;
    free(r->body);
    free(r);
}

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static unsigned get_u16(const unsigned char *p)
{
    return (unsigned)p[0] | (unsigned)p[1] << 8;
}

static const char other_agent[] = "its job keeps running; only the jobctl that started it can control it: stop this "
                                  "daemon (jobctl daemon stop) and use that one";

/* The header is complete: checks whether the message is allowed, and its length. */
static int accept_header(struct frame_reader *r, struct err *err)
{
    uint32_t size = get_u32(r->header);
    unsigned version = get_u16(r->header + 4);
    unsigned number = get_u16(r->header + 6);

    if (version != WIRE_VERSION)
        return err_set(err, ERR_DATA, "the peer uses protocol version %u, this side %d: %s", version, WIRE_VERSION,
                       r->direction == TO_CONTROLLER ? other_agent : "install the same version of jobctl on both");
    const struct wire_row *row = wire_find(number, r->direction);
    if (!row)
        return err_set(err, ERR_DATA, "message number %u is not valid in this direction", number);
    if (size > row->cap)
        return err_set(err, ERR_DATA, "a %s message of %u bytes exceeds its limit of %zu", row->name, size, row->cap);
    r->body = malloc((size_t)size + 1);
    if (!r->body)
        return err_set(err, ERR_MEMORY, "no memory for a %s message of %u bytes", row->name, size);
    r->row = row;
    r->size = size;
    return 0;
}

/* The body is complete: parses it and starts over. */
static int finish(struct frame_reader *r, json_t **body, struct err *err)
{
    json_error_t why;
    json_t *v = json_loadb(r->body, r->size, JSON_REJECT_DUPLICATES, &why);
    free(r->body);
    r->body = NULL;
    r->have = 0;
    if (!v)
        return err_set(err, ERR_DATA, "a %s message is not JSON: %s at byte %d", r->row->name, why.text, why.position);
    if (wire_check(r->row, v, err) < 0) {
        json_decref(v);
        return -1;
    }
    *body = v;
    return 0;
}

/* Copies input into the range [have, end) of `to`. */
static size_t take(struct frame_reader *r, void *to, size_t end, const char *bytes, size_t size)
{
    size_t n = end - r->have < size ? end - r->have : size;
    memcpy(to, bytes, n);
    r->have += n;
    return n;
}

int frame_read(struct frame_reader *r, const void *bytes, size_t size, const struct wire_row **row,
               json_t **body, struct err *err)
{
    const char *p = bytes;
    size_t used = 0;
    *body = NULL;
    *row = NULL;
    if (size > INT32_MAX)
        size = INT32_MAX;
    if (r->broken)
        return err_set(err, ERR_DATA, "the connection already failed");

    if (r->have < FRAME_HEADER && size) {
        used = take(r, r->header + r->have, FRAME_HEADER, p, size);
        if (r->have == FRAME_HEADER && accept_header(r, err) < 0)
            goto broken;
    }
    if (r->have < FRAME_HEADER)
        return (int)used;
    if (used < size)
        used += take(r, r->body + (r->have - FRAME_HEADER), FRAME_HEADER + r->size, p + used, size - used);
    if (r->have == FRAME_HEADER + r->size) {
        if (finish(r, body, err) < 0)
            goto broken;
        *row = r->row;
    }
    return (int)used;

broken:
    r->broken = true;
    return -1;
}

int frame_read_all(struct frame_reader *r, const void *bytes, size_t size,
                   bool (*each)(void *arg, const struct wire_row *row, const json_t *body), void *arg, struct err *err)
{
    bool more = true;
    for (size_t at = 0; more && at < size;) {
        const struct wire_row *row;
        json_t *body;
        int used = frame_read(r, (const char *)bytes + at, size - at, &row, &body, err);
        if (used < 0)
            return -1;
        at += (size_t)used;
        more = !body || each(arg, row, body);
        json_decref(body);
    }
    return 0;
}

static void put_header(unsigned char *frame, size_t size, unsigned number)
{
    for (int i = 0; i < 4; i++)
        frame[i] = (unsigned char)(size >> (8 * i));
    frame[4] = (unsigned char)(WIRE_VERSION & 0xFF);
    frame[5] = (unsigned char)(WIRE_VERSION >> 8);
    frame[6] = (unsigned char)(number & 0xFF);
    frame[7] = (unsigned char)(number >> 8);
}

static void *put_together(const struct wire_row *row, const json_t *body, size_t *size, struct err *err)
{
    size_t n = json_dumpb(body, NULL, 0, JSON_COMPACT);
    if (!n || n > row->cap) {
        err_set(err, ERR_BUG, "a %s message of %zu bytes exceeds its limit of %zu", row->name, n, row->cap);
        return NULL;
    }
    unsigned char *frame = malloc(FRAME_HEADER + n);
    if (!frame) {
        err_set(err, ERR_MEMORY, "no memory for a %s message of %zu bytes", row->name, n);
        return NULL;
    }
    put_header(frame, n, (unsigned)row->number);
    json_dumpb(body, (char *)frame + FRAME_HEADER, n, JSON_COMPACT);
    *size = FRAME_HEADER + n;
    return frame;
}

void *frame_make(enum wire_message number, const json_t *body, size_t *size, struct err *err)
{
    const struct wire_row *row = NULL;
    for (int d = 0; d < WIRE_DIRECTIONS && !row; d++)
        row = wire_find(number, (enum wire_direction)d);
    if (!row) {
        err_set(err, ERR_BUG, "unknown message number %d", (int)number);
        return NULL;
    }
    if (wire_check(row, body, err) < 0) {
        err_prefix(err, "refused to send: ");
        return NULL;
    }
    return put_together(row, body, size, err);
}

void *frame_pack(enum wire_message number, const struct wire_id *id, json_t *body, size_t *size, struct err *err)
{
    void *frame = NULL;
    if (!body || (id && (json_object_set_new(body, "job", json_integer(id->job)) < 0 ||
                         json_object_set_new(body, "attempt", json_integer(id->attempt)) < 0 ||
                         json_object_set_new(body, "nonce", json_text(id->nonce)) < 0)))
        err_set(err, ERR_MEMORY, "no memory for a message");
    else
        frame = frame_make(number, body, size, err);
    json_decref(body);
    return frame;
}
