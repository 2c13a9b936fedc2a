/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernel_log.c - which records of the kernel's log concern our processes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/os/kernel_log.h"

static void records_are_chosen(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        bool memory;
        const char *text; /* NULL: not taken */
    } rows[] = {
        {"3,812,100000000,-;NVRM: Xid (PCI:0000:4f:00): 79, pid=1, GPU has fallen off the bus.\n",
         false, "NVRM: Xid (PCI:0000:4f:00): 79, pid=1, GPU has fallen off the bus."},
        {"3,812,60000000,-;NVRM: Xid (PCI:0000:4f:00): 79, too long ago\n", false, NULL},
        {"6,813,100000000,-,caller=T1;Out of memory: Killed process 7 (python)\n SUBSYSTEM=x\n", true,
         "Out of memory: Killed process 7 (python)"},
        {"6,813,100000000,-;Out of memory: Killed process 7 (python)\n", false, NULL},
        {"6,814,100000000,-;eth0: link up\n", true, NULL},
        {"no record at all", true, NULL},
        {"", true, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200] = "";
        bool taken = kernel_log_take(text, sizeof(text), rows[i].record, 110000000, rows[i].memory);
        assert_int_equal(taken, rows[i].text != NULL);
        if (taken)
            assert_string_equal(text, rows[i].text);
    }
}

static void the_real_one_does_not_block(void **state)
{
    (void)state;
    assert_non_null(kernel_log_recent(true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_chosen),
        cmocka_unit_test(the_real_one_does_not_block),
    };
    return cmocka_run_group_tests_name("kernel_log", tests, NULL, NULL);
}
