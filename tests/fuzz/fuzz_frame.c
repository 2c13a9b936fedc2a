/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_frame.c - a stream of messages from the other side
 *
 * The first byte chooses the direction (its lowest and highest bit) and the size of the pieces in which the
 * rest arrives.  However it is cut, the same messages must come out and the
 * same end be reached; each must keep to its row and travel back unchanged.
 */
#include <string.h>

#include "agent/wire/frame.h"
#include "agent/wire/wire.h"
#include "engine/base/err.h"
#include "tests/fuzz/target.h"

static void check_message(const struct wire_row *row, json_t *body, enum wire_direction direction)
{
    struct err err = {0};
    PROMISE(row && row->direction == direction && wire_check(row, body, &err) == 0);
    PROMISE(wire_find(row->number, direction) == row);

    size_t size = 0;
    uint8_t *bytes = frame_make(row->number, body, &size, &err);
    if (!bytes) { /* only a body that grew past the cap when printed anew */
        PROMISE(err.code != ERR_NONE && err.text[0]);
        return;
    }
    struct frame_reader *r = NULL;
    const struct wire_row *row2 = NULL;
    json_t *body2 = NULL;
    PROMISE(frame_reader_create(&r, direction, &err) == 0);
    PROMISE(frame_read(r, bytes, size, &row2, &body2, &err) == (int)size);
    PROMISE(row2 == row && body2 && json_equal(body, body2));
    json_decref(body2);
    frame_reader_destroy(r);
    free(bytes);
}

/* All messages as [[number, body]...]; *broken tells whether the stream ended in an error. */
static json_t *read_all(enum wire_direction direction, const uint8_t *data, size_t size, size_t piece, int *broken)
{
    struct err err = {0};
    struct frame_reader *r = NULL;
    json_t *out = json_array();
    size_t at = 0;
    *broken = 0;
    PROMISE(out && frame_reader_create(&r, direction, &err) == 0);
    while (at < size && !*broken) {
        /* A block of its own, so that a read past its end is seen. */
        size_t len = size - at < piece ? size - at : piece;
        uint8_t *bytes = malloc(len);
        PROMISE(bytes);
        memcpy(bytes, data + at, len);
        const struct wire_row *row = NULL;
        json_t *body = NULL;
        int n = frame_read(r, bytes, len, &row, &body, &err);
        free(bytes);
        if (n < 0) {
            struct err again = {0};
            PROMISE(!body && err.code != ERR_NONE && err.text[0]);
            PROMISE(frame_read(r, data, 1, &row, &body, &again) < 0 && !body);
            *broken = 1;
        } else {
            PROMISE(n > 0 && (size_t)n <= len && (body || (size_t)n == len));
            at += (size_t)n;
        }
        if (body) {
            check_message(row, body, direction);
            PROMISE(json_array_append_new(out, json_pack("[iO]", (int)row->number, body)) == 0);
            json_decref(body);
        }
    }
    frame_reader_destroy(r);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    static const enum wire_direction of[] = {TO_CONTROLLER, TO_AGENT, TO_LEADER, TO_FOLLOWER};
    enum wire_direction direction = of[(data[0] & 1) + (data[0] & 0x80 ? 2 : 0)];
    int broken, broken_pieces;
    json_t *whole = read_all(direction, data + 1, size - 1, size, &broken);
    json_t *pieces = read_all(direction, data + 1, size - 1, (size_t)(data[0] >> 1) + 1, &broken_pieces);
    PROMISE(broken == broken_pieces && json_equal(whole, pieces));
    json_decref(whole);
    json_decref(pieces);
    return 0;
}
