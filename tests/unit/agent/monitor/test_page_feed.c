/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_feed.c - a rank's flight page on its way to the leader: differences, and rows that must not be applied */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/monitor/page_feed.h"
#include "agent/wire/log_feed.h"
#include "engine/base/err.h"

/* The state of the leader, and memory that no row may reach. */
static struct {
    struct page_view seen;
    unsigned char    behind[2 * CAPTURE_TAIL];
} leader, untouched;
static struct page_view now, sent;

static int clear(void **state)
{
    (void)state;
    memset(&leader, 0, sizeof(leader));
    memset(&now, 0, sizeof(now));
    memset(&sent, 0, sizeof(sent));
    return 0;
}

static int take(json_t *row)
{
    struct err err = {0};
    const int rc = page_feed_take(&leader.seen, row, &err);
    assert_true((rc < 0) == (err.code != 0));
    json_decref(row);
    return rc;
}

static void differences_add_up(void **state)
{
    (void)state;
    now = (struct page_view){.pid = 4711, .state = 'R',
                             .use = {.at_ms = 5, .output_bytes = 1, .work_us = 2, .io_bytes = 3, .moved_bytes = 4,
                                     .counted_ms = 6, .gpu = true, .gpu_busy = 7, .gpu_memory = 8, .link_kb_s = 9,
                                     .main_us = 10, .blocked = true},
                             .lines = "loss 0.\x80\xff\n"};
    now.u.bytes[0] = 1;
    now.u.bytes[FLIGHT_BYTES - 1] = 255;
    json_t *row = page_feed_row(3, &now, &sent);
    assert_int_equal(page_feed_rank(row), 3);
    assert_int_equal(json_array_size(json_object_get(row, "blocks")), 2);
    assert_int_equal(take(row), 0);
    assert_memory_equal(&leader.seen, &now, sizeof(now));
    sent = now;
    assert_null(page_feed_row(3, &now, &sent));
    now.u.bytes[PAGE_BLOCK] = 9;
    row = page_feed_row(3, &now, &sent);
    assert_int_equal(json_array_size(json_object_get(row, "blocks")), 1);
    assert_null(json_object_get(row, "lines"));
    assert_int_equal(take(row), 0);
    assert_memory_equal(&leader.seen, &now, sizeof(now));
}

/* Each field alone is a reason to send a row. */
static void each_field_is_sent(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        clear(NULL);
        now.pid = i == 0;
        now.state = i == 1 ? 'D' : 0;
        now.use.at_ms = i == 2;
        now.lines[0] = i == 3 ? 'x' : 0;
        now.u.bytes[700] = i == 4;
        json_t *row = page_feed_row(0, &now, &sent);
        assert_non_null(row);
        assert_int_equal(take(row), 0);
        assert_memory_equal(&leader.seen, &now, sizeof(now));
    }
}

/* The tail of the output fits with its last byte; a longer one from another node is not applied. */
static void lines_stay_within_their_bound(void **state)
{
    (void)state;
    char *text = malloc(2 * sizeof(leader));
    memset(text, 'x', 2 * sizeof(leader));
    assert_int_equal(take(json_pack("{s:o}", "lines", log_feed_text(text, CAPTURE_TAIL))), 0);
    assert_int_equal(strlen(leader.seen.lines), CAPTURE_TAIL);
    const size_t sizes[] = {CAPTURE_TAIL + 1, CAPTURE_TAIL + 2, sizeof(leader)};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(take(json_pack("{s:o}", "lines", log_feed_text(text, sizes[i]))), 0);
        assert_int_equal(strlen(leader.seen.lines), CAPTURE_TAIL);
        assert_memory_equal(leader.behind, untouched.behind, sizeof(leader.behind));
        assert_memory_equal(&leader.seen.u, &untouched.seen.u, sizeof(leader.seen.u));
    }
    assert_int_equal(take(json_pack("{s:s}", "lines", "\xe2\x82\xac")), 0); /* no byte has this value */
    assert_int_equal(strlen(leader.seen.lines), CAPTURE_TAIL);
    free(text);
}

static json_t *block_of(json_t *number, const char *data)
{
    return json_pack("{s:[[o, s]]}", "blocks", number, data);
}

static void blocks_stay_within_the_page(void **state)
{
    (void)state;
    char whole[4 * ((PAGE_BLOCK + 2) / 3) + 5] = "";
    const size_t length = 4 * ((PAGE_BLOCK + 2) / 3);
    memset(whole, '/', length);
    whole[length - 2] = whole[length - 1] = '='; /* 256 bytes of 255 */
    assert_int_equal(take(block_of(json_integer(-1), whole)), -1);
    assert_int_equal(take(block_of(json_integer(PAGE_BLOCKS), whole)), -1);
    assert_int_equal(take(block_of(json_integer(INT64_MAX), whole)), -1);
    assert_int_equal(take(block_of(json_string("0"), whole)), -1);
    assert_int_equal(take(block_of(json_integer(0), "")), -1);
    assert_int_equal(take(block_of(json_integer(0), whole + 4)), -1);
    memcpy(whole + length, "////", 5);
    assert_int_equal(take(block_of(json_integer(0), whole)), -1);
    whole[length] = '\0';
    whole[7] = '*';
    assert_int_equal(take(block_of(json_integer(0), whole)), -1);
    assert_memory_equal(&leader, &untouched, sizeof(leader));
    whole[7] = '/';
    assert_int_equal(take(block_of(json_integer(PAGE_BLOCKS - 1), whole)), 0);
    assert_int_equal(leader.seen.u.bytes[FLIGHT_BYTES - PAGE_BLOCK - 1], 0);
    assert_int_equal(leader.seen.u.bytes[FLIGHT_BYTES - PAGE_BLOCK], 255);
    assert_int_equal(leader.seen.u.bytes[FLIGHT_BYTES - 1], 255);
    assert_int_equal(leader.seen.lines[0], 0);
}

static void ranks_are_numbers(void **state)
{
    (void)state;
    static const struct { const char *row; int rank; } table[] = {
        {"{\"rank\":0}", 0}, {"{\"rank\":2147483647}", INT32_MAX}, {"{\"rank\":2147483648}", -1},
        {"{\"rank\":-1}", -1}, {"{\"rank\":\"0\"}", -1}, {"{}", -1}, {"[]", -1},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        json_t *row = json_loads(table[i].row, 0, NULL);
        assert_int_equal(page_feed_rank(row), table[i].rank);
        json_decref(row);
    }
}

/* Counters below zero are none. */
static void use_is_never_negative(void **state)
{
    (void)state;
    assert_int_equal(take(json_pack("{s:[i, i, i, i, i, i, b, i]}", "use", -1, -2, -3, -4, -5, -6, 0, -7)), 0);
    assert_memory_equal(&leader, &untouched, sizeof(leader));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(differences_add_up, clear), cmocka_unit_test_setup(each_field_is_sent, clear),
        cmocka_unit_test_setup(lines_stay_within_their_bound, clear),
        cmocka_unit_test_setup(blocks_stay_within_the_page, clear), cmocka_unit_test(ranks_are_numbers),
        cmocka_unit_test_setup(use_is_never_negative, clear),
    };
    return cmocka_run_group_tests_name("page_feed", tests, NULL, NULL);
}
