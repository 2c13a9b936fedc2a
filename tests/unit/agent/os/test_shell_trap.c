/* SPDX-License-Identifier: Apache-2.0 */
/* test_shell_trap.c - texts that get a trap, and where it is taken away */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "agent/os/shell_trap.h"

static void a_text_gets_a_trap_that_its_last_simple_command_does_not_need(void **state)
{
    (void)state;
    /* `*`: the trap is taken away here; no `^` at the beginning: no trap */
    static const char *const rows[][2] = {
        {"python train.py", "python train.py"},
        {"# train\n\n  python train.py \\\n    --lr 1\n", "# train\n\n  python train.py \\\n    --lr 1\n"},
        {"n=0\n((n++))\npython train.py\n", "^n=0\n((n++))\n*python train.py\n"},
        {"cd x\npython train.py --name 'a\nb' # it's\n", "^cd x\n*python train.py --name 'a\nb' # it's\n"},
        {"echo 'a\npython b'\n", "echo 'a\npython b'\n"},
        {"cd x\necho \"a \\\"\npython b\"\n", "^cd x\necho \"a \\\"\npython b\"\n"},
        {"cd x\npython a.py \\\n--lr 1\n", "^cd x\npython a.py \\\n--lr 1\n"},
        {"cd x\nfind |\nhead\n", "^cd x\nfind |\nhead\n"},
        {"for i in 1 2\ndo\nx\ndone\n", "^for i in 1 2\ndo\nx\ndone\n"},
        {"f() {\n  x\n}\nf", "^f() {\n  x\n}\n*f"},
        {"if a\nthen b\nfi", "^if a\nthen b\nfi"},
        {"cat <<X\na\nX\npython b.py", "cat <<X\na\nX\npython b.py"},
        {"a\nb | c", "^a\nb | c"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[1000], plain[1000] = "", *at;
        const char *text = rows[i][0], *said = rows[i][1];
        const bool traps = shell_trap(out, sizeof(out), text);
        const char *rest = traps ? strstr(out, "ERR; ") + 5 : text;
        snprintf(plain, sizeof(plain), "%s%s", traps ? "^" : "", rest);
        if (traps && (at = strstr(plain, "trap - ERR; "))) {
            *at = '*';
            memmove(at + 1, at + 12, strlen(at + 12) + 1);
        }
        if (strcmp(plain, said) != 0)
            fail_msg("%s\nbecomes\n%s", text, plain);
    }
    char small[20];
    assert_false(shell_trap(small, sizeof(small), "a\nb"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_gets_a_trap_that_its_last_simple_command_does_not_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
