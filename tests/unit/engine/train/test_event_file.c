/* SPDX-License-Identifier: Apache-2.0 */
/* test_event_file.c - the wire format of Protocol Buffers, and the checksum of event files */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/train/event_file.h"
#include "engine/train/protobuf.h"

/* The check value of CRC-32C, and a vector of RFC 3720, B.4. */
static void checksums(void **state)
{
    (void)state;
    const unsigned char zeros[32] = {0};
    assert_int_equal(event_file_crc("123456789", 9), 0xe3069283u);
    assert_int_equal(event_file_crc(zeros, 32), 0x8a9136aau);
    assert_int_equal(event_file_crc("", 0), 0);
}

/* The examples of the documentation of the encoding: field 1 is 150; field 2 is "testing"; field 3 is the first one. */
static void messages(void **state)
{
    (void)state;
    static const unsigned char whole[] = {0x08, 0x96, 0x01, 0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g',
                                          0x1a, 0x03, 0x08, 0x96, 0x01, 0x25, 0, 0, 0x80, 0x3f};
    struct protobuf p = {0}, inner = {0};
    protobuf_int(&p, 1, 150);
    protobuf_text(&p, 2, "testing");
    protobuf_int(&inner, 1, 150);
    protobuf_message(&p, 3, &inner);
    protobuf_float(&p, 4, 1.0f);
    assert_int_equal(p.size, sizeof(whole));
    assert_memory_equal(p.bytes, whole, sizeof(whole));
    assert_null(inner.bytes);
    protobuf_free(&p);
}

static void large_numbers(void **state)
{
    (void)state;
    struct protobuf p = {0};
    protobuf_int(&p, 1, UINT64_MAX);
    assert_int_equal(p.size, 11);
    assert_int_equal(p.bytes[10], 1);
    protobuf_double(&p, 2, 0.5);
    assert_int_equal(p.size, 20);
    assert_int_equal(p.bytes[11], 0x11);
    protobuf_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums),
        cmocka_unit_test(messages),
        cmocka_unit_test(large_numbers),
    };
    return cmocka_run_group_tests_name("event_file", tests, NULL, NULL);
}
