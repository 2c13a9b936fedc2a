/* SPDX-License-Identifier: Apache-2.0 */
/* page_feed.c - see page_feed.h */
#include "agent/monitor/page_feed.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "agent/wire/log_feed.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { BASE64 = 4 * ((PAGE_BLOCK + 2) / 3) };

_Static_assert(PAGE_BLOCK * PAGE_BLOCKS == FLIGHT_BYTES, "blocks");

static json_t *block_row(const struct page_view *v, int n)
{
    unsigned char text[BASE64 + 1];
    EVP_EncodeBlock(text, v->u.bytes + (size_t)n * PAGE_BLOCK, PAGE_BLOCK);
    return json_make("[i, s]", n, (const char *)text);
}

static json_t *use_row(const struct activity_sample *u)
{
    return json_make("[I, I, I, I, I, I, b, i, i, I, I, b]", (json_int_t)u->at_ms, (json_int_t)u->output_bytes,
                     (json_int_t)u->work_us, (json_int_t)u->io_bytes, (json_int_t)u->moved_bytes,
                     (json_int_t)u->counted_ms, u->gpu, (int)u->gpu_busy, (int)u->gpu_memory,
                     (json_int_t)u->link_kb_s, (json_int_t)u->main_us, u->blocked);
}

static uint64_t counter(const json_t *row, size_t i)
{
    const json_int_t v = json_integer_value(json_array_get(row, i));
    return v > 0 ? (uint64_t)v : 0;
}

static void take_use(struct activity_sample *u, const json_t *row)
{
    *u = (struct activity_sample){.at_ms = (int64_t)counter(row, 0),
                                  .output_bytes = counter(row, 1),
                                  .work_us = counter(row, 2),
                                  .io_bytes = counter(row, 3),
                                  .moved_bytes = counter(row, 4),
                                  .counted_ms = (int64_t)counter(row, 5),
                                  .gpu = json_is_true(json_array_get(row, 6)),
                                  .gpu_busy = (unsigned)counter(row, 7),
                                  .gpu_memory = (unsigned)counter(row, 8),
                                  .link_kb_s = counter(row, 9),
                                  .main_us = counter(row, 10),
                                  .blocked = json_is_true(json_array_get(row, 11))};
}

json_t *page_feed_row(int rank, const struct page_view *now, const struct page_view *told)
{
    json_t *blocks = json_array();
    for (int i = 0; i < PAGE_BLOCKS; i++) {
        size_t at = (size_t)i * PAGE_BLOCK;
        if (memcmp(now->u.bytes + at, told->u.bytes + at, PAGE_BLOCK) != 0)
            json_array_append_new(blocks, block_row(now, i));
    }
    const bool lines = strcmp(now->lines, told->lines) != 0;
    if (json_array_size(blocks) == 0 && !lines && now->pid == told->pid &&
        now->state == told->state && now->use.at_ms == told->use.at_ms) {
        json_decref(blocks);
        return NULL;
    }
    json_t *row = json_make("{s:i, s:I, s:i, s:o, s:o}", "rank", rank, "pid",
                            (json_int_t)now->pid, "state", now->state, "use",
                            use_row(&now->use), "blocks", blocks);
    if (row && lines)
        json_object_set_new(row, "lines", log_feed_text(now->lines, strlen(now->lines)));
    return row;
}

int page_feed_rank(const json_t *row)
{
    const json_t *rank = json_object_get(row, "rank");
    json_int_t v = json_integer_value(rank);
    return json_is_integer(rank) && v >= 0 && v <= INT32_MAX ? (int)v : -1;
}

static int take_block(struct page_view *seen, const json_t *block, struct err *err)
{
    const json_t *n = json_array_get(block, 0), *data = json_array_get(block, 1);
    unsigned char bytes[BASE64]; /* decoded data is never longer */
    if (!json_is_integer(n) || json_integer_value(n) < 0 || json_integer_value(n) >= PAGE_BLOCKS ||
        json_string_length(data) != BASE64 ||
        EVP_DecodeBlock(bytes, (const unsigned char *)json_string_value(data), BASE64) < PAGE_BLOCK)
        return err_set(err, ERR_DATA, "invalid block of a flight page");
    memcpy(seen->u.bytes + (size_t)json_integer_value(n) * PAGE_BLOCK, bytes, PAGE_BLOCK);
    return 0;
}

static void take_lines(struct page_view *seen, const json_t *text)
{
    size_t size = 0;
    char *bytes = text ? log_feed_bytes(text, &size) : NULL;
    if (bytes && size < sizeof(seen->lines)) {
        memcpy(seen->lines, bytes, size);
        seen->lines[size] = '\0';
    }
    free(bytes);
}

int page_feed_take(struct page_view *seen, const json_t *row, struct err *err)
{
    size_t i;
    const json_t *block;
    json_array_foreach(json_object_get(row, "blocks"), i, block)
    {
        if (take_block(seen, block, err) < 0)
            return -1;
    }
    seen->pid = json_integer_value(json_object_get(row, "pid"));
    seen->state = (char)json_integer_value(json_object_get(row, "state"));
    take_use(&seen->use, json_object_get(row, "use"));
    take_lines(seen, json_object_get(row, "lines"));
    return 0;
}
